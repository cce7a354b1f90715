"""What may become a call after one of the markers that models use. A candidate matches the text from its marker on."""

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

import regex

from antiphon.core.text_calls.brackets import Brackets
from antiphon.core.text_calls.shapes import (
    FUNCTION_END,
    Call,
    ToolNames,
    function_name,
    leading_calls,
    leading_functions,
    marked_arguments,
    marked_calls,
    skip_whitespace,
)


class Outcome(Enum):
    NEED_MORE = "more text is needed to decide"
    NO_MATCH = "not a call, whatever follows"


NEED_MORE, NO_MATCH = Outcome.NEED_MORE, Outcome.NO_MATCH


class Candidate(Protocol):
    # How many characters are certainly text if there is no match; the rest is searched again.
    plain_prefix: int

    def match(self, buffered: str, final: bool) -> "Match | Outcome":
        """`buffered` is the text of the last call, or longer. `final`: the text has ended, so NEED_MORE may not be returned."""


class Match(NamedTuple):
    calls: list[Call]
    end: int
    # What may follow directly, and is a call only there.
    following: Candidate | None = None


# Makes the candidate that begins at a position of the buffered text.
CandidateFactory = Callable[[ToolNames, int], Candidate]

TOOL_CALL, FUNCTION, PYTHON_TAG, TOOL_CALLS = "<tool_call>", "<function=", "<|python_tag|>", "[TOOL_CALLS]"
TOOL_CALL_END = "</tool_call>"
_TAGS = re.compile("</?tool_call>")
_NAMED = re.compile(r'[\[\s]*\{\s*"(?:name|function)"\s*:\s*"([^"\\]*)"')

# Up to the first bracket of the value. Unlike `re`, `regex` reports a partial match.
_NAME = r"(?P<name>[\w.-]{1,128})\s*(?:\[CALL_ID\]\s*[\w-]{0,128}\s*)?"
_PYTHON = regex.compile(r"<\|python_tag\|>\s*[{\[]")
_PYTHON_FOLLOWING = regex.compile(r";\s*\{")
_MISTRAL = regex.compile(rf"\[TOOL_CALLS\]\s*(?:{_NAME}(?:\[ARGS\])?\s*\{{|[{{\[])")
_MISTRAL_FOLLOWING = regex.compile(rf"{_NAME}\[ARGS\]\s*\{{")


def _names_unknown_tool(buffered: str, at: int, tools: ToolNames) -> bool:
    named = _NAMED.match(buffered, at)
    return named is not None and tools.find(named[1]) is None


class MarkedValue:
    """A JSON value after a marker that has no end: `<|python_tag|>{…}`, `[TOOL_CALLS][…]`, `[TOOL_CALLS]NAME[ARGS]{…}`."""

    def __init__(
        self, tools: ToolNames, start: int, head: "regex.Pattern[str]", following: "regex.Pattern[str]", plain_prefix: int = 1
    ) -> None:
        self.plain_prefix = plain_prefix
        self._tools = tools
        self._start = start
        self._head, self._following = head, following
        self._value_start: int | None = None
        self._name: str | None = None
        self._brackets = Brackets()
        self._scanned = 0

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        undecided = NO_MATCH if final else NEED_MORE
        if self._value_start is None:
            head = self._head.match(buffered, self._start, partial=True)
            if head is None or head.partial:
                return NO_MATCH if head is None else undecided
            self._value_start = self._scanned = head.end() - 1
            self._name = head.groupdict().get("name")
        if self._name is not None and self._tools.find(self._name) is None:
            return NO_MATCH
        if self._name is None and _names_unknown_tool(buffered, self._value_start, self._tools):
            return NO_MATCH
        end = self._brackets.receive(buffered, self._scanned)
        self._scanned = len(buffered)
        if end is None:
            return undecided
        calls = self._calls(buffered[self._value_start : end])
        following = MarkedValue(self._tools, 0, self._following, self._following, plain_prefix=0)
        return NO_MATCH if calls is None else Match(calls, end, following)

    def _calls(self, value: str) -> list[Call] | None:
        if self._name is None:
            return marked_calls(value, self._tools)
        name, arguments = self._tools.find(self._name), marked_arguments(value)
        return None if name is None or arguments is None else [Call(name, arguments)]


class TagBlock:
    """`<tool_call>…</tool_call>`, with JSON or functions inside. The next such tag ends it too."""

    plain_prefix = 1

    def __init__(self, tools: ToolNames, start: int) -> None:
        self._tools = tools
        self._start = start + len(TOOL_CALL)
        self._searched = self._scanned = self._start
        self._brackets = Brackets()

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        body = skip_whitespace(buffered, self._start)
        if buffered.startswith(("{", "["), body):
            return NO_MATCH if _names_unknown_tool(buffered, body, self._tools) else self._objects(buffered, body, final)
        if buffered.startswith(FUNCTION, body):
            return self._functions(buffered, body, final)
        return NEED_MORE if not final and FUNCTION.startswith(buffered[body : body + len(FUNCTION)]) else NO_MATCH

    def _objects(self, buffered: str, body: int, final: bool) -> Match | Outcome:
        while (tag := self._next_tag(buffered)) is not None:
            if not self._is_in_string(buffered, tag.start()):
                calls = marked_calls(buffered[body : tag.start()], self._tools)
                return NO_MATCH if calls is None else Match(calls, _end_of(tag))
        if not final:
            return NEED_MORE
        calls, end = leading_calls(buffered, self._tools, body)
        return Match(calls, end) if calls else NO_MATCH

    def _functions(self, buffered: str, body: int, final: bool) -> Match | Outcome:
        name = function_name(buffered, body)
        if name is not None and self._tools.find(name) is None:
            return NO_MATCH
        while (tag := self._next_tag(buffered)) is not None:
            calls, end = leading_functions(buffered[: tag.start()], self._tools, body)
            if calls and skip_whitespace(buffered, end) == tag.start():
                return Match(calls, _end_of(tag))
        return _last_functions(buffered, body, self._tools) if final else NEED_MORE

    def _next_tag(self, buffered: str) -> re.Match[str] | None:
        tag = _TAGS.search(buffered, self._searched)
        self._searched = max(self._searched, len(buffered) - len(TOOL_CALL_END)) if tag is None else tag.end()
        return tag

    def _is_in_string(self, buffered: str, at: int) -> bool:
        while (end := self._brackets.receive(buffered, self._scanned, at)) is not None:
            self._scanned = end
        self._scanned = at
        return self._brackets.in_string


def _end_of(tag: re.Match[str]) -> int:
    return tag.end() if tag[0] == TOOL_CALL_END else tag.start()


def _last_functions(buffered: str, at: int, tools: ToolNames) -> Match | Outcome:
    calls, end = leading_functions(buffered, tools, at, ended=True)
    return Match(calls, end) if calls else NO_MATCH


class FunctionBlock:
    """`<function=NAME>…</function>` without `<tool_call>` around it."""

    plain_prefix = 1

    def __init__(self, tools: ToolNames, start: int) -> None:
        self._tools = tools
        self._start = self._searched = start

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        name = function_name(buffered, self._start)
        if name is not None and self._tools.find(name) is None:
            return NO_MATCH
        while (close := buffered.find(FUNCTION_END, self._searched)) >= 0:
            self._searched = close + len(FUNCTION_END)
            calls, end = leading_functions(buffered[: self._searched], self._tools, self._start)
            if calls and end == self._searched:
                return Match(calls, end, StrayEndTag())
        self._searched = max(self._searched, len(buffered) - len(FUNCTION_END))
        return _last_functions(buffered, self._start, self._tools) if final else NEED_MORE


class StrayEndTag:
    """The `</tool_call>` of models that forget the opening tag."""

    plain_prefix = 0

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        if buffered.startswith(TOOL_CALL_END):
            return Match([], len(TOOL_CALL_END))
        return NEED_MORE if not final and TOOL_CALL_END.startswith(buffered) else NO_MATCH


def python_tag(tools: ToolNames, start: int) -> Candidate:
    return MarkedValue(tools, start, _PYTHON, _PYTHON_FOLLOWING)


def mistral(tools: ToolNames, start: int) -> Candidate:
    return MarkedValue(tools, start, _MISTRAL, _MISTRAL_FOLLOWING)


MARKERS: dict[str, CandidateFactory] = {
    TOOL_CALL: TagBlock,
    FUNCTION: FunctionBlock,
    PYTHON_TAG: python_tag,
    TOOL_CALLS: mistral,
}
