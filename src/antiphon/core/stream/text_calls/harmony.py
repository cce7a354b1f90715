"""The messages and channels of Harmony, from an engine that leaves their markers in the text."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from antiphon.core.events.deltas import CallDelta, Delta, ReasoningDelta, TextDelta
from antiphon.core.stream.text_calls.shapes import MAX_BUFFERED, ToolNames, is_object, marked_arguments
from antiphon.patterns import Pattern, late_pattern

if TYPE_CHECKING:
    import regex

MARKERS = tuple(f"<|{name}|>" for name in "start end message channel constrain return call".split())
# The markers inside a message; every other marker ends one.
INSIDE = frozenset({"<|message|>", "<|constrain|>"})
_MARKER = late_pattern("|".join(map(re.escape, MARKERS)))
_RECIPIENT = r"(?:\s*to=(?P<to>[^\s<]{1,128}))?"
# Before the header proper, gpt-oss writes this at times, and it means nothing.
_STRAY = r"(?:<\|channel\|>commentary(?:\s*to=assistant)?(?=\s*<\|channel\|>))?"
HEADER = Pattern(
    rf"(?:<\|start\|>assistant)?{_STRAY}{_RECIPIENT}\s*<\|channel\|>\s*(?P<channel>analysis|commentary|final)"
    rf"{_RECIPIENT}(?:\s*<\|constrain\|>\s*\w{{0,32}}|\s+\w{{1,32}})?\s*<\|message\|>"
)


class Harmony:
    """`receive()` the text from the first header on, then `close()`. No marker is ever emitted."""

    __slots__ = ("_body", "_call", "_delta_type", "_numbers", "_rest", "_tools", "_trimming")

    def __init__(self, tools: ToolNames, numbers: Iterator[int]) -> None:
        self._tools = tools
        self._numbers = numbers
        self._rest = ""
        self._delta_type: type[TextDelta] | type[ReasoningDelta] = TextDelta
        # White space between two messages is dropped.
        self._trimming = True
        # The tool that the message is for, and its arguments so far.
        self._call: str | None = None
        self._body = ""

    @property
    def emits_text(self) -> bool:
        """A piece without the beginning of a marker is only text."""
        return self._delta_type is TextDelta and self._call is None and not self._rest and not self._trimming

    def receive(self, text: str) -> list[Delta]:
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and self._step(deltas):
            pass
        return deltas

    def release(self) -> list[Delta]:
        deltas = self._take_rest()
        body, self._body, self._call = self._body, "", None
        return [*deltas, TextDelta(body)] if body else deltas

    def close(self) -> list[Delta]:
        deltas = self._take_rest()
        self._end(deltas, cut=True)
        return deltas

    def _take_rest(self) -> list[Delta]:
        deltas: list[Delta] = []
        # A header that was cut off is dropped; the beginning of a marker may be the text of the model.
        if _MARKER.match(self._rest) is None:
            self._write(self._rest, deltas)
        self._rest = ""
        return deltas

    def _step(self, deltas: list[Delta]) -> bool:
        marker = _MARKER.search(self._rest)
        if marker is None:
            cut = self._rest.rfind("<")
            whole = cut < 0 or not any(known.startswith(self._rest[cut:]) for known in MARKERS)
            self._write(self._rest if whole else self._rest[:cut], deltas)
            self._rest = "" if whole else self._rest[cut:]
            return False
        self._write(self._rest[: marker.start()], deltas)
        self._rest = self._rest[marker.start() :]
        header = HEADER.match(self._rest, partial=True)
        if header is not None and header.partial:
            return False
        if marker[0] not in INSIDE:
            self._end(deltas)
        if header is not None:
            self._begin(header)
        self._rest = self._rest[len(marker[0]) if header is None else header.end() :]
        return True

    def _begin(self, header: "regex.Match[str]") -> None:
        recipients = [self._tools.find(name) for name in header.captures("to")]
        self._call = next((name for name in recipients if name is not None), None)
        self._delta_type = ReasoningDelta if header["channel"] == "analysis" and not recipients else TextDelta
        self._trimming = False

    def _write(self, text: str, deltas: list[Delta]) -> None:
        if self._call is not None:
            self._body += text
            if len(self._body) <= MAX_BUFFERED:
                return
            text, self._body, self._call = self._body, "", None
        if self._trimming:
            text = text.lstrip()
        if text:
            self._trimming = False
            deltas.append(self._delta_type(text))

    def _end(self, deltas: list[Delta], *, cut: bool = False) -> None:
        """The message has ended. `cut`: without an end marker, so incomplete arguments are not a call."""
        name, body = self._call, self._body
        self._call, self._body = None, ""
        if name is not None:
            arguments = marked_arguments(body, self._tools.repairs) if not cut or is_object(body) else None
            if arguments is not None:
                deltas.append(CallDelta(next(self._numbers), name=name, arguments=arguments))
            elif body:
                deltas.append(TextDelta(body))
        self._delta_type = TextDelta
        self._trimming = True
