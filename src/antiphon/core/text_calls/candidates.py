"""What may become a call, behind each of the markers that models use. A candidate looks at the text from its marker on."""

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

import regex

from antiphon.core.text_calls.brackets import Brackets
from antiphon.core.text_calls.shapes import (
    FUNCTION_END,
    Call,
    Offered,
    function_name,
    leading_calls,
    leading_functions,
    marked_arguments,
    marked_calls,
    visible_at,
)


class Looking(Enum):
    MORE = "not decided yet"
    NONE = "no call, whatever comes"


MORE, NONE = Looking.MORE, Looking.NONE


class Candidate(Protocol):
    # How many characters are text for certain once it is no call; the rest is looked at again.
    opening: int

    def look(self, held: str, final: bool) -> "Found | Looking":
        """What is held has only grown since the last look. `final`: it will not any more, and a decision is due."""


class Found(NamedTuple):
    calls: list[Call]
    end: int
    # What may come right behind it, and is a call only there.
    again: Candidate | None = None


# Makes the candidate that begins at a place of what is held.
Kind = Callable[[Offered, int], Candidate]

TOOL_CALL, FUNCTION, PYTHON_TAG, TOOL_CALLS = "<tool_call>", "<function=", "<|python_tag|>", "[TOOL_CALLS]"
TOOL_CALL_END = "</tool_call>"
_TAGS = re.compile("</?tool_call>")
_NAMED = re.compile(r'[\[\s]*\{\s*"(?:name|function)"\s*:\s*"([^"\\]*)"')

# Up to the first bracket of the value. `regex` can tell that a text is the beginning of what would match.
_NAME = r"(?P<name>[\w.-]{1,128})\s*(?:\[CALL_ID\]\s*[\w-]{0,128}\s*)?"
_PYTHON = regex.compile(r"<\|python_tag\|>\s*[{\[]")
_PYTHON_AGAIN = regex.compile(r";\s*\{")
_MISTRAL = regex.compile(rf"\[TOOL_CALLS\]\s*(?:{_NAME}(?:\[ARGS\])?\s*\{{|[{{\[])")
_MISTRAL_AGAIN = regex.compile(rf"{_NAME}\[ARGS\]\s*\{{")


def _names_another(held: str, at: int, offered: Offered) -> bool:
    named = _NAMED.match(held, at)
    return named is not None and offered.find(named[1]) is None


class MarkedValue:
    """A JSON value behind a marker that has no end: `<|python_tag|>{…}`, `[TOOL_CALLS][…]`, `[TOOL_CALLS]NAME[ARGS]{…}`."""

    def __init__(
        self, offered: Offered, start: int, head: "regex.Pattern[str]", again: "regex.Pattern[str]", opening: int = 1
    ) -> None:
        self.opening = opening
        self._offered = offered
        self._at = start
        self._head, self._again = head, again
        self._start: int | None = None
        self._name: str | None = None
        self._brackets = Brackets()
        self._seen = 0

    def look(self, held: str, final: bool) -> Found | Looking:
        undecided = NONE if final else MORE
        if self._start is None:
            head = self._head.match(held, self._at, partial=True)
            if head is None or head.partial:
                return NONE if head is None else undecided
            self._start = self._seen = head.end() - 1
            self._name = head.groupdict().get("name")
        if self._name is not None and self._offered.find(self._name) is None:
            return NONE
        if self._name is None and _names_another(held, self._start, self._offered):
            return NONE
        end = self._brackets.receive(held, self._seen)
        self._seen = len(held)
        if end is None:
            return undecided
        calls = self._calls(held[self._start : end])
        again = MarkedValue(self._offered, 0, self._again, self._again, opening=0)
        return NONE if calls is None else Found(calls, end, again)

    def _calls(self, value: str) -> list[Call] | None:
        if self._name is None:
            return marked_calls(value, self._offered)
        name, arguments = self._offered.find(self._name), marked_arguments(value)
        return None if name is None or arguments is None else [Call(name, arguments)]


class TagBlock:
    """`<tool_call>…</tool_call>`, with JSON or functions between. The next such tag ends it too."""

    opening = 1

    def __init__(self, offered: Offered, start: int) -> None:
        self._offered = offered
        self._start = start + len(TOOL_CALL)
        self._searched = self._scanned = self._start
        self._brackets = Brackets()

    def look(self, held: str, final: bool) -> Found | Looking:
        inside = visible_at(held, self._start)
        if held.startswith(("{", "["), inside):
            return NONE if _names_another(held, inside, self._offered) else self._objects(held, inside, final)
        if held.startswith(FUNCTION, inside):
            return self._functions(held, inside, final)
        return MORE if not final and FUNCTION.startswith(held[inside : inside + len(FUNCTION)]) else NONE

    def _objects(self, held: str, inside: int, final: bool) -> Found | Looking:
        while (tag := self._next_tag(held)) is not None:
            if not self._stands_in_string(held, tag.start()):
                calls = marked_calls(held[inside : tag.start()], self._offered)
                return NONE if calls is None else Found(calls, _end_of(tag))
        if not final:
            return MORE
        calls, end = leading_calls(held, self._offered, inside)
        return Found(calls, end) if calls else NONE

    def _functions(self, held: str, inside: int, final: bool) -> Found | Looking:
        name = function_name(held, inside)
        if name is not None and self._offered.find(name) is None:
            return NONE
        while (tag := self._next_tag(held)) is not None:
            calls, end = leading_functions(held[: tag.start()], self._offered, inside)
            if calls and visible_at(held, end) == tag.start():
                return Found(calls, _end_of(tag))
        return _last_functions(held, inside, self._offered) if final else MORE

    def _next_tag(self, held: str) -> re.Match[str] | None:
        tag = _TAGS.search(held, self._searched)
        self._searched = max(self._searched, len(held) - len(TOOL_CALL_END)) if tag is None else tag.end()
        return tag

    def _stands_in_string(self, held: str, at: int) -> bool:
        while (end := self._brackets.receive(held, self._scanned, at)) is not None:
            self._scanned = end
        self._scanned = at
        return self._brackets.in_string


def _end_of(tag: re.Match[str]) -> int:
    return tag.end() if tag[0] == TOOL_CALL_END else tag.start()


def _last_functions(held: str, at: int, offered: Offered) -> Found | Looking:
    calls, end = leading_functions(held, offered, at, ended=True)
    return Found(calls, end) if calls else NONE


class FunctionBlock:
    """`<function=NAME>…</function>` without tags around it."""

    opening = 1

    def __init__(self, offered: Offered, start: int) -> None:
        self._offered = offered
        self._start = self._searched = start

    def look(self, held: str, final: bool) -> Found | Looking:
        name = function_name(held, self._start)
        if name is not None and self._offered.find(name) is None:
            return NONE
        while (close := held.find(FUNCTION_END, self._searched)) >= 0:
            self._searched = close + len(FUNCTION_END)
            calls, end = leading_functions(held[: self._searched], self._offered, self._start)
            if calls and end == self._searched:
                return Found(calls, end, StrayEnd())
        self._searched = max(self._searched, len(held) - len(FUNCTION_END))
        return _last_functions(held, self._start, self._offered) if final else MORE


class StrayEnd:
    """The `</tool_call>` of models that forget to open what they close."""

    opening = 0

    def look(self, held: str, final: bool) -> Found | Looking:
        if held.startswith(TOOL_CALL_END):
            return Found([], len(TOOL_CALL_END))
        return MORE if not final and TOOL_CALL_END.startswith(held) else NONE


def python_tag(offered: Offered, start: int) -> Candidate:
    return MarkedValue(offered, start, _PYTHON, _PYTHON_AGAIN)


def mistral(offered: Offered, start: int) -> Candidate:
    return MarkedValue(offered, start, _MISTRAL, _MISTRAL_AGAIN)


MARKERS: dict[str, Kind] = {
    TOOL_CALL: TagBlock,
    FUNCTION: FunctionBlock,
    PYTHON_TAG: python_tag,
    TOOL_CALLS: mistral,
}
