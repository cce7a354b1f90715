"""Calls without any marker: JSON, plain or in a fence, that stands alone in an answer."""

import regex

from antiphon.core.text_calls.brackets import Brackets
from antiphon.core.text_calls.candidates import (
    FUNCTION,
    MORE,
    NONE,
    TOOL_CALL,
    Candidate,
    Found,
    FunctionBlock,
    Kind,
    Looking,
    TagBlock,
)
from antiphon.core.text_calls.shapes import Call, Offered, json_to_calls, visible_at

# Up to where only the end can tell: nothing but short members of a call, and then the long one.
_STRING = r'"[^"\\]{0,128}"'
_SHORT = rf'(?:"(?:name|function)"\s*:\s*(?P<name>{_STRING})|"type"\s*:\s*"function"|"id"\s*:\s*{_STRING})'
_HEAD = regex.compile(rf'\[?\s*\{{\s*(?:{_SHORT}\s*,\s*)*"(?:(?:arguments|parameters)"\s*:\s*[{{"]|function"\s*:\s*\{{)')
_FENCE = regex.compile(r"(?P<run>`{3,})[ \t]*[\w+-]{0,32}[ \t]*\r?\n\s*(?=\S)")


class BareValue:
    """An object or a list that is a call if it is nothing else at all."""

    opening = 1

    def __init__(self, offered: Offered, start: int) -> None:
        self._offered = offered
        self._start = self._seen = start
        self._begun = False
        self._brackets = Brackets()

    def look(self, held: str, final: bool) -> Found | Looking:
        if not self._begun:
            head = _HEAD.match(held, self._start, partial=True)
            if head is None or not all(self._offered.find(name[1:-1]) for name in head.captures("name")):
                return NONE
            self._begun = not head.partial
        end = self._brackets.receive(held, self._seen)
        self._seen = len(held)
        if end is None:
            return NONE if final else MORE
        calls = json_to_calls(held[self._start : end], self._offered, strict=True)
        return NONE if calls is None else Found(calls, end)


class Fence:
    """A fenced block that holds nothing but calls."""

    opening = 1

    def __init__(self, offered: Offered, start: int) -> None:
        self._offered = offered
        self._at = start
        self._run = ""
        self._inner: Candidate | None = None
        self._calls: list[Call] = []

    def look(self, held: str, final: bool) -> Found | Looking:
        undecided = NONE if final else MORE
        if not self._run:
            head = _FENCE.match(held, self._at, partial=True)
            if head is None or head.partial:
                return NONE if head is None else undecided
            self._run, self._at = head["run"], head.end()
        while True:
            if self._inner is None:
                self._at = visible_at(held, self._at)
                if self._calls and (held.startswith(self._run, self._at) or (final and self._cut_off(held))):
                    return Found(self._calls, min(self._at + len(self._run), len(held)))
                self._inner = self._inner_at(held)
                if self._inner is None:
                    return MORE if not final and self._may_go_on(held[self._at :]) else NONE
            verdict = self._inner.look(held, final)
            if isinstance(verdict, Looking):
                return verdict
            self._calls += verdict.calls
            self._at, self._inner = verdict.end, None

    def _inner_at(self, held: str) -> Candidate | None:
        kinds = (kind for opening, kind in _IN_FENCE.items() if held.startswith(opening, self._at))
        return next((kind(self._offered, self._at) for kind in kinds), None)

    def _may_go_on(self, rest: str) -> bool:
        return any(opening.startswith(rest) for opening in (TOOL_CALL, FUNCTION, self._run))

    def _cut_off(self, held: str) -> bool:
        return self._run.startswith(held[self._at :])


_IN_FENCE: dict[str, Kind] = {"{": BareValue, "[": BareValue, TOOL_CALL: TagBlock, FUNCTION: FunctionBlock}
_IN_TEXT: dict[str, Kind] = {"{": BareValue, "[": BareValue, "`": Fence}


class Alone:
    """Bare values and fences that begin the visible text, or that nothing follows to the end of the answer."""

    opening = 1

    def __init__(self, offered: Offered, start: int, *, begins: bool) -> None:
        self._offered = offered
        self._begins = begins
        self._unit: Candidate | None = None
        self._at = start
        self._calls: list[Call] = []

    def look(self, held: str, final: bool) -> Found | Looking:
        while True:
            if self._unit is None:
                at = visible_at(held, self._at)
                if at == len(held):
                    return Found(self._calls, at) if final else MORE
                if self._calls and "\n" not in held[self._at : at]:
                    return NONE
                kind = _IN_TEXT.get(held[at])
                if kind is None:
                    return NONE
                self._unit = kind(self._offered, at)
            verdict = self._unit.look(held, final)
            if isinstance(verdict, Looking):
                return verdict
            self._calls += verdict.calls
            if self._begins:
                return Found(self._calls, verdict.end)
            self._at, self._unit = verdict.end, None
