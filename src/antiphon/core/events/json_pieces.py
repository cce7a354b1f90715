"""JSON with long texts, encoded piece by piece when it is read: it is never in memory as a whole.

The text of a long answer is in its last events and in its record, and twice in the last one. Encoded as they are, each would
take as much memory as the answer, again and again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from antiphon.wire.responses import OutputMessage, OutputText, Response

# A text of so many characters is long.
LONG_TEXT = 64 * 1024
# How many characters of a text are encoded at once.
PIECE = 64 * 1024

# The members that may be long texts, or lead to them. A long text elsewhere is encoded as it is.
PLACES = frozenset(
    "response output item part content summary text output_text refusal arguments input action operation command "
    "encrypted_content instructions".split()
)

_encode = msgspec.json.Encoder().encode
# Stands for a long text. No encoder leaves this byte in JSON as it is, so whatever the other texts are, it is found again.
_MARK = Raw(b'"\x00"')
# What stands for a long text in an outline: it is not empty either.
SHORT_TEXT = b"..."


class JsonPieces:
    """Bytes that can be iterated over in pieces, as often as it takes. `len()` is the number of bytes."""

    def __init__(self, around: Sequence[bytes], texts: Sequence[str]) -> None:
        """`around`: what is before, between and after the long texts, with their quotes."""
        self._around = around
        self._texts = texts

    def __iter__(self) -> Iterator[bytes]:
        for before, text in zip(self._around[:-1], self._texts, strict=True):
            yield before
            yield from _escaped(text)
        yield self._around[-1]

    @cached_property
    def _size(self) -> int:
        return sum(map(len, self))

    def __len__(self) -> int:
        return self._size

    @property
    def outline(self) -> bytes:
        """The same with a short text in place of each long one."""
        return SHORT_TEXT.join(self._around)


def long_json(value: Any, head: bytes = b"", tail: bytes = b"") -> JsonPieces | None:
    """The value as JSON, between these bytes. None: it has no long text, and can be encoded as it is."""
    if not _has_long_text(value):
        return None
    texts: list[str] = []
    marked = _marked(value, texts)
    around = _encode(marked).split(b"\x00")
    if len(around) != len(texts) + 1:
        # Something in it was encoded elsewhere, and is no JSON.
        return None
    around[0], around[-1] = head + around[0], around[-1] + tail
    return JsonPieces(around, texts)


def _escaped(text: str) -> Iterator[bytes]:
    """The text as in JSON, without the quotes. Every character is escaped for itself."""
    for start in range(0, len(text), PIECE):
        yield _encode(text[start : start + PIECE])[1:-1]


@cache
def _places_of(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name in PLACES)


class _Getters(dict[type, Callable[[Any], tuple[Any, ...]]]):
    """What is in the places of a value, by its type."""

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]]:
        places = _places_of(kind) if issubclass(kind, Struct) else ()
        # For a single name, `attrgetter` returns no tuple: it is asked for twice.
        getter = self[kind] = attrgetter(*places, places[0]) if places else lambda value: ()
        return getter


_GETTERS = _Getters()


def is_one_short_text(response: Response) -> bool:
    """What most answers are. It takes a tenth of the instructions of a look at every place."""
    output, instructions = response.output, response.instructions
    if len(output) != 1 or not isinstance(message := output[0], OutputMessage) or len(message.content) != 1:
        return False
    part = message.content[0]
    text = part.text if isinstance(part, OutputText) else part.refusal
    return len(text) < LONG_TEXT and (instructions is None or len(instructions) < LONG_TEXT)


def _has_long_text(value: Any) -> bool:
    """In one of the places where `_marked()` looks. Nearly nothing has one, and every event is looked at: so by few calls."""
    inner = [value]
    for value in inner:
        kind = type(value)
        if kind is str:
            if len(value) >= LONG_TEXT:
                return True
        elif kind is list:
            inner += value
        elif kind is dict:
            inner += [each for each in value.values() if type(each) is str]
        else:
            # What is missing or empty is not looked at.
            inner += filter(None, _GETTERS[kind](value))
    return False


def _marked(value: Any, texts: list[str]) -> Any:
    """The value with a mark in place of each long text, which is added to the list: in the order of the encoder."""
    if isinstance(value, str):
        if len(value) < LONG_TEXT:
            return value
        texts.append(value)
        return _MARK
    if isinstance(value, list):
        return [_marked(each, texts) for each in value]
    if isinstance(value, dict):
        return {name: _marked(each, texts) if isinstance(each, str) else each for name, each in value.items()}
    if isinstance(value, Struct):
        return _marked_struct(value, texts)
    return value


def _marked_struct(value: Struct, texts: list[str]) -> Struct:
    before = len(texts)
    marked = {name: _marked(getattr(value, name), texts) for name in _places_of(type(value))}
    return structs.replace(value, **marked) if len(texts) > before else value
