"""Calls without a marker: JSON, plain or in a fenced block, with no other text beside it."""

import regex

from antiphon.core.text_calls.brackets import Brackets
from antiphon.core.text_calls.candidates import (
    FUNCTION,
    NEED_MORE,
    NO_MATCH,
    TOOL_CALL,
    Candidate,
    CandidateFactory,
    FunctionBlock,
    Match,
    Outcome,
    TagBlock,
)
from antiphon.core.text_calls.shapes import Call, ToolNames, json_to_calls, skip_whitespace

# The short members of a call, up to the beginning of the long one.
_STRING = r'"[^"\\]{0,128}"'
_SHORT = rf'(?:"(?:name|function)"\s*:\s*(?P<name>{_STRING})|"type"\s*:\s*"function"|"id"\s*:\s*{_STRING})'
_HEAD = regex.compile(rf'\[?\s*\{{\s*(?:{_SHORT}\s*,\s*)*"(?:(?:arguments|parameters)"\s*:\s*[{{"]|function"\s*:\s*\{{)')
_FENCE = regex.compile(r"(?P<run>`{3,})[ \t]*[\w+-]{0,32}[ \t]*\r?\n\s*(?=\S)")


class JsonValue:
    """An object or a list that is a call if it has no other members."""

    plain_prefix = 1

    def __init__(self, tools: ToolNames, start: int) -> None:
        self._tools = tools
        self._start = self._scanned = start
        self._head_matched = False
        self._brackets = Brackets()

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        if not self._head_matched:
            head = _HEAD.match(buffered, self._start, partial=True)
            if head is None or not all(self._tools.find(name[1:-1]) for name in head.captures("name")):
                return NO_MATCH
            self._head_matched = not head.partial
        end = self._brackets.receive(buffered, self._scanned)
        self._scanned = len(buffered)
        if end is None:
            return NO_MATCH if final else NEED_MORE
        calls = json_to_calls(buffered[self._start : end], self._tools, strict=True)
        return NO_MATCH if calls is None else Match(calls, end)


class FencedBlock:
    """A fenced block that contains only calls."""

    plain_prefix = 1

    def __init__(self, tools: ToolNames, start: int) -> None:
        self._tools = tools
        self._at = start
        self._fence = ""
        self._inner: Candidate | None = None
        self._calls: list[Call] = []

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        undecided = NO_MATCH if final else NEED_MORE
        if not self._fence:
            head = _FENCE.match(buffered, self._at, partial=True)
            if head is None or head.partial:
                return NO_MATCH if head is None else undecided
            self._fence, self._at = head["run"], head.end()
        while True:
            if self._inner is None:
                self._at = skip_whitespace(buffered, self._at)
                if self._calls and (buffered.startswith(self._fence, self._at) or (final and self._fence_cut_off(buffered))):
                    return Match(self._calls, min(self._at + len(self._fence), len(buffered)))
                self._inner = self._candidate_at(buffered)
                if self._inner is None:
                    return NEED_MORE if not final and self._may_continue(buffered[self._at :]) else NO_MATCH
            result = self._inner.match(buffered, final)
            if isinstance(result, Outcome):
                return result
            self._calls += result.calls
            self._at, self._inner = result.end, None

    def _candidate_at(self, buffered: str) -> Candidate | None:
        kinds = (kind for opening, kind in _IN_FENCE.items() if buffered.startswith(opening, self._at))
        return next((kind(self._tools, self._at) for kind in kinds), None)

    def _may_continue(self, rest: str) -> bool:
        return any(opening.startswith(rest) for opening in (TOOL_CALL, FUNCTION, self._fence))

    def _fence_cut_off(self, buffered: str) -> bool:
        return self._fence.startswith(buffered[self._at :])


_IN_FENCE: dict[str, CandidateFactory] = {"{": JsonValue, "[": JsonValue, TOOL_CALL: TagBlock, FUNCTION: FunctionBlock}
_IN_TEXT: dict[str, CandidateFactory] = {"{": JsonValue, "[": JsonValue, "`": FencedBlock}


class BareJson:
    """Values and fenced blocks at the beginning of the visible text, or followed by nothing to the end of the answer."""

    plain_prefix = 1

    def __init__(self, tools: ToolNames, start: int, *, at_beginning: bool) -> None:
        self._tools = tools
        self._at_beginning = at_beginning
        self._inner: Candidate | None = None
        self._at = start
        self._calls: list[Call] = []

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        while True:
            if self._inner is None:
                at = skip_whitespace(buffered, self._at)
                if at == len(buffered):
                    return Match(self._calls, at) if final else NEED_MORE
                if self._calls and "\n" not in buffered[self._at : at]:
                    return NO_MATCH
                kind = _IN_TEXT.get(buffered[at])
                if kind is None:
                    return NO_MATCH
                self._inner = kind(self._tools, at)
            result = self._inner.match(buffered, final)
            if isinstance(result, Outcome):
                return result
            self._calls += result.calls
            if self._at_beginning:
                return Match(self._calls, result.end)
            self._at, self._inner = result.end, None
