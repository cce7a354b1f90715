"""The messages and channels of Harmony, where an engine leaves their markers in the text."""

import re
from collections.abc import Iterator

import regex

from antiphon.core.deltas import CallDelta, Delta, ReasoningDelta, TextDelta
from antiphon.core.text_calls.shapes import BOUND, Offered, is_object, marked_arguments

MARKERS = tuple(f"<|{name}|>" for name in "start end message channel constrain return call".split())
# These stand inside a message; every other marker ends one.
INSIDE = frozenset({"<|message|>", "<|constrain|>"})
_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
_RECIPIENT = r"(?:\s*to=(?P<to>[^\s<]{1,128}))?"
HEADER = regex.compile(
    rf"(?:<\|start\|>assistant)?{_RECIPIENT}\s*<\|channel\|>\s*(?P<channel>analysis|commentary|final)"
    rf"{_RECIPIENT}(?:\s*<\|constrain\|>\s*\w{{0,32}}|\s+\w{{1,32}})?\s*<\|message\|>"
)


class Harmony:
    """`receive()` from the first header on, then `close()`. No marker is ever told."""

    __slots__ = ("_body", "_call", "_numbers", "_offered", "_rest", "_telling", "_trims")

    def __init__(self, offered: Offered, numbers: Iterator[int]) -> None:
        self._offered = offered
        self._numbers = numbers
        self._rest = ""
        self._telling: type[TextDelta] | type[ReasoningDelta] = TextDelta
        # Between two messages white space means nothing.
        self._trims = True
        # The tool that the message is for, and what has come of its arguments.
        self._call: str | None = None
        self._body = ""

    @property
    def tells_text(self) -> bool:
        """A piece without the beginning of a marker is nothing but text."""
        return self._telling is TextDelta and self._call is None and not self._rest and not self._trims

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
        # A header that was cut off has nothing to tell; the beginning of a marker may have been meant as it is.
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
        recipients = [self._offered.find(name) for name in header.captures("to")]
        self._call = next((name for name in recipients if name is not None), None)
        self._telling = ReasoningDelta if header["channel"] == "analysis" and not recipients else TextDelta
        self._trims = False

    def _write(self, text: str, deltas: list[Delta]) -> None:
        if self._call is not None:
            self._body += text
            if len(self._body) <= BOUND:
                return
            text, self._body, self._call = self._body, "", None
        if self._trims:
            text = text.lstrip()
        if text:
            self._trims = False
            deltas.append(self._telling(text))

    def _end(self, deltas: list[Delta], *, cut: bool = False) -> None:
        """The message is over. `cut`: nobody said so, and what is not whole is no call."""
        name, body = self._call, self._body
        self._call, self._body = None, ""
        if name is not None:
            arguments = marked_arguments(body) if not cut or is_object(body) else None
            if arguments is not None:
                deltas.append(CallDelta(next(self._numbers), name=name, arguments=arguments))
            elif body:
                deltas.append(TextDelta(body))
        self._telling = TextDelta
        self._trims = True
