"""The call in an answer that was constrained to be one: `{"name": …, "arguments": {…}}`, or several in a list, read while they
arrive. Where the answer may be in words as well, these are the text of a call of our own function."""

import re
from collections.abc import Callable, Collection
from enum import Enum
from functools import lru_cache

import msgspec

from antiphon.core.checks.constraints import TEXT
from antiphon.core.events.deltas import CallDelta, Delta, TextDelta
from antiphon.core.stream.text_calls.search import CallFinder
from antiphon.errors import UNREADABLE
from antiphon.partial_json import Brackets, JsonString
from antiphon.patterns import Pattern

# Up to the first bracket of the arguments. No tool has a longer name.
_NAME = r'(?P<name>"(?:[^"\\]|\\.){0,512}")'
_SPACE = r"[ \t\r\n]{0,99}"
_HEAD = Pattern(_SPACE.join(["", r"\{", '"name"', ":", _NAME, ",", '"arguments"', ":", r"\{"]))
# Of the first one in a list.
_FIRST = Pattern(_SPACE.join(["", r"\[?", r"\{", '"name"', ":", _NAME, ",", '"arguments"', ":", r"\{"]))
_WHITESPACE = " \t\r\n"
# How an answer begins that follows the schema of a call: with any white space, and its members in any order.
_MEMBERS = rf'\{{\s*(?:"arguments"\s*:|"name"\s*:\s*{_NAME}\s*,\s*"arguments"\s*:\s*\{{)'
_FORM, _LIST_FORM = Pattern(rf"\s*{_MEMBERS}"), Pattern(rf"\s*(?:\[\s*)?{_MEMBERS}")
# So much of an answer is looked at for that.
LONGEST_BEGINNING = 2048


class State(Enum):
    HEAD = "the name is not known yet, or the arguments have not begun"
    ARGUMENTS = "inside the arguments, which are emitted as they arrive"
    SAY = "inside the text, which is emitted as it arrives"
    TAIL = "the arguments, or the text, are complete; the bracket of the object must close"
    NEXT = "the object has ended, in a list"
    AFTER = "the object has ended, or the list"
    TEXT = "it is not such a call, or text follows it"
    OTHER = "it is not such a call, but another may be in it"


class ConstrainedCall:
    """A CallFinder. What is not such an object, or names an unknown tool, is text. `say`: a function whose text is the answer.
    `otherwise`: finds the calls in an answer that is no such object, because its engine does not constrain it after all.
    `breaks_form` says so where it is certain. `listed`: the answer is a list of such objects."""

    __slots__ = (
        "_beginning",
        "_brackets",
        "_form_names",
        "_in_list",
        "_index",
        "_listed",
        "_open",
        "_otherwise",
        "_rest",
        "_said",
        "_say_head",
        "_state",
        "breaks_form",
        "names",
    )

    def __init__(
        self, names: Collection[str], *, say: str | None = None, otherwise: CallFinder | None = None, listed: bool = False
    ) -> None:
        self.names: Collection[str] = frozenset(names)
        # The answer may be a list; and it is one, which has not ended.
        self._listed = listed
        self._in_list = False
        self._say_head = say_head(say, listed=listed) if say is not None else None
        self._form_names = self.names if say is None else {*self.names, say}
        self._otherwise = otherwise
        self._state = State.HEAD
        self._rest = ""
        self._brackets = Brackets()
        self._said = JsonString()
        # How many brackets are still to be closed after the arguments or the text.
        self._open = 1
        self._index = -1
        # The answer is certainly not what it was constrained to; and its beginning, as long as that is open.
        self.breaks_form = False
        self._beginning: str | None = ""

    @property
    def buffered(self) -> int:
        return len(self._rest) if self._otherwise is None else self._otherwise.buffered

    def take_if_plain(self, text: str) -> bool:
        if self._state is State.SAY:
            return text != "" and self._said.takes_as_it_is(text)
        if self._state is State.OTHER:
            return self._beginning is None and self._otherwise is not None and self._otherwise.take_if_plain(text)
        return self._state is State.TEXT and text != ""

    def receive(self, text: str) -> list[Delta]:
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and _STEPS[self._state](self, deltas):
            pass
        return deltas

    def release(self) -> list[Delta]:
        """The call may come next: what was read so far was a thought."""
        # After the arguments only the closing bracket is buffered.
        buffered = self._rest if self._state is State.HEAD else self._said.close_decoded()
        self._state, self._in_list = State.HEAD, False
        self._rest = ""
        self._brackets = Brackets()
        self._said = JsonString()
        self._beginning, self.breaks_form = "", False
        released: list[Delta] = [TextDelta(buffered)] if buffered else []
        return [*released, *self._otherwise.release()] if self._otherwise is not None else released

    def close(self) -> list[Delta]:
        found = self._otherwise.close() if self._otherwise is not None else []
        broken = self.breaks_form
        released = self.release()
        self.breaks_form = broken
        return [*found, *released]

    def _head(self, deltas: list[Delta]) -> bool:
        says = self._say_head.match(self._rest, partial=True) if self._say_head is not None else None
        if says is not None and not says.partial:
            self._begin(says.group(0))
            self._rest = self._rest[says.end() :]
            self._state, self._open = State.SAY, 2
            return True
        return self._call_head(deltas) if says is None else False

    def _call_head(self, deltas: list[Delta]) -> bool:
        head = (_FIRST if self._listed else _HEAD).match(self._rest, partial=True)
        names = head.captures("name") if head is not None else []
        if head is None or (names and _string(names[0]) not in self.names):
            self._state = State.TEXT if self._otherwise is None else State.OTHER
            return True
        if head.partial:
            return False
        self._begin(head.group(0))
        self._index += 1
        deltas.append(CallDelta(self._index, name=_string(names[0])))
        self._rest = self._rest[head.end() - 1 :]
        self._state, self._open = State.ARGUMENTS, 1
        return True

    def _begin(self, head: str) -> None:
        self._in_list |= head.lstrip(_WHITESPACE).startswith("[")
        self._brackets, self._said = Brackets(), JsonString()

    def _arguments(self, deltas: list[Delta]) -> bool:
        end = self._brackets.receive(self._rest)
        deltas.append(CallDelta(self._index, arguments=self._rest[:end]))
        self._rest = "" if end is None else self._rest[end:]
        if end is not None:
            self._state = State.TAIL
        return True

    def _say(self, deltas: list[Delta]) -> bool:
        if text := self._said.receive(self._rest):
            deltas.append(TextDelta(text))
        self._rest = self._said.rest
        if self._said.closed:
            self._state = State.TAIL
        return True

    def _tail(self, deltas: list[Delta]) -> bool:
        visible = self._rest.lstrip(_WHITESPACE)
        if not visible:
            return False
        closed = visible.startswith("}")
        self._rest = visible[1:] if closed else self._rest
        self._open -= closed
        if not closed or not self._open:
            self._state = (State.NEXT if self._in_list else State.AFTER) if closed else State.TEXT
        return True

    def _next(self, deltas: list[Delta]) -> bool:
        """Another object, or the end of the list."""
        rest = self._rest.lstrip(_WHITESPACE)
        if not rest:
            return False
        self._rest = rest[1:] if rest[0] in ",]" else rest
        self._in_list = rest[0] == ","
        self._state = {",": State.HEAD, "]": State.AFTER}.get(rest[0], State.TEXT)
        return True

    def _after(self, deltas: list[Delta]) -> bool:
        self._rest = self._rest.lstrip(_WHITESPACE)
        if self._rest:
            self._state = State.TEXT
        return True

    def _other(self, deltas: list[Delta]) -> bool:
        assert self._otherwise is not None
        self._compare(self._rest)
        deltas += self._otherwise.receive(self._rest)
        self._rest = ""
        return False

    def _compare(self, piece: str) -> None:
        """Sooner or later the beginning of an answer shows whether any schema of a call allows it."""
        if self._beginning is None:
            return
        self._beginning += piece
        form = (_LIST_FORM if self._listed else _FORM).match(self._beginning, partial=True)
        if form is not None and form.partial and len(self._beginning) <= LONGEST_BEGINNING:
            return
        self._beginning = None
        named = form.captures("name") if form is not None and not form.partial else []
        self.breaks_form = form is None or any(_string(name) not in self._form_names for name in named)

    def _text(self, deltas: list[Delta]) -> bool:
        deltas.append(TextDelta(self._rest))
        self._rest = ""
        return False


@lru_cache(maxsize=16)
def say_head(name: str, *, listed: bool = False) -> Pattern:
    """Up to the first character of the text of our own function."""
    named, first = re.escape(msgspec.json.encode(name).decode()), [r"\[?"] if listed else []
    return Pattern(
        _SPACE.join(["", *first, r"\{", '"name"', ":", named, ",", '"arguments"', ":", r"\{", f'"{TEXT}"', ":", '"'])
    )


def _string(literal: str) -> str:
    try:
        return msgspec.json.decode(literal, type=str)
    except UNREADABLE:
        return literal


_STEPS: dict[State, Callable[[ConstrainedCall, list[Delta]], bool]] = {
    State.HEAD: ConstrainedCall._head,
    State.ARGUMENTS: ConstrainedCall._arguments,
    State.SAY: ConstrainedCall._say,
    State.TAIL: ConstrainedCall._tail,
    State.NEXT: ConstrainedCall._next,
    State.AFTER: ConstrainedCall._after,
    State.TEXT: ConstrainedCall._text,
    State.OTHER: ConstrainedCall._other,
}
