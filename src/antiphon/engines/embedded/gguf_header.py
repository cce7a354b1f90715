"""Reads the header of a GGUF file: the model's metadata, without its weights."""

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from antiphon.engines.embedded import CannotEmbed

T = TypeVar("T")

MAGIC = b"GGUF"
VERSIONS = (2, 3)

# GGUF type number → how a value of it is packed. Strings and arrays have no fixed size.
SCALARS: dict[int, struct.Struct] = {
    kind: struct.Struct("<" + code)
    for kind, code in {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}.items()
}
STRING, ARRAY = 8, 9
_COUNT = struct.Struct("<Q")
_ARRAY = struct.Struct("<IQ")
_START = struct.Struct("<4sIQQ")


class GgufHeader(Struct, frozen=True):
    """The metadata that we use; None where the file does not have it."""

    chat_template: str | None
    context: int | None
    tokens: frozenset[str]


def read_header(path: Path) -> GgufHeader:
    return _to_header(_read(path, dict))


def check_start(path: Path) -> None:
    """Raises CannotEmbed if the file does not begin like one of these. All of a header takes a tenth of a second."""
    _read(path, lambda members: next(members, None))


def _read(path: Path, take: Callable[[Iterator[tuple[str, Any]]], T]) -> T:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return take(_members(data))
    except OSError as missing:
        raise CannotEmbed(f"cannot read the model {path}: {missing.strerror or missing}") from None
    except (ValueError, struct.error, IndexError, UnicodeDecodeError):
        raise CannotEmbed(f"{path} is not a GGUF file, or is incomplete") from None


def _to_header(members: Mapping[str, Any]) -> GgufHeader:
    template = members.get("tokenizer.chat_template")
    context = members.get(f"{members.get('general.architecture')}.context_length")
    return GgufHeader(
        chat_template=template if isinstance(template, str) else None,
        context=context if isinstance(context, int) else None,
        tokens=frozenset(token for token in members.get("tokenizer.ggml.tokens", ()) if isinstance(token, str)),
    )


def _members(data: mmap.mmap) -> Iterator[tuple[str, Any]]:
    magic, version, _, count = _START.unpack_from(data)
    if magic != MAGIC or version not in VERSIONS:
        raise ValueError(version)
    reader = _Reader(data, _START.size)
    for _ in range(count):
        name = reader.string()
        kind = reader.scalar(SCALARS[4])
        yield name, reader.value(kind)


class _Reader:
    """Reads one value after another. Reading past the end of the file raises an error."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self._at = at

    def scalar(self, packed: struct.Struct) -> Any:
        (value,) = packed.unpack_from(self._data, self._at)
        self._at += packed.size
        return value

    def string(self) -> str:
        size = self.scalar(_COUNT)
        begin, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise ValueError(size)
        # A token may be bytes that are not valid UTF-8 by themselves.
        return self._data[begin : self._at].decode(errors="replace")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self._array()
        if kind not in SCALARS:
            raise ValueError(kind)
        return self.scalar(SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, count = _ARRAY.unpack_from(self._data, self._at)
        self._at += _ARRAY.size
        if count > len(self._data):
            raise ValueError(count)
        if kind in SCALARS:
            packed = SCALARS[kind]
            values = struct.unpack_from(f"<{count}{packed.format[1:]}", self._data, self._at)
            self._at += packed.size * count
            return list(values)
        return [self.value(kind) for _ in range(count)]
