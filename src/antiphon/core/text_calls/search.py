"""Calls anywhere in the text, in the ways that models have learned to write them, found at any split.

Text is told as it comes, except for what may still become a call. What turns out to be none is told exactly as it came.
"""

import itertools
import re
from collections.abc import Callable, Collection
from functools import partial

from antiphon.core.deltas import CallDelta, Delta, TextDelta
from antiphon.core.text_calls.alone import Alone
from antiphon.core.text_calls.candidates import MARKERS, MORE, NONE, Candidate, Found, Kind, Looking
from antiphon.core.text_calls.harmony import HEADER, Harmony
from antiphon.core.text_calls.prose import Prose
from antiphon.core.text_calls.shapes import BOUND, Offered, visible_at

# At the end everything that was begun is looked at for the last time, a thing inside another again; this much at most.
LAST_LOOKS = 16 * BOUND
LONGEST_MARKER = max(map(len, MARKERS))
# Where something may begin.
_POINTS = re.compile(r"[<\[{`]")

# Pieces in which nothing can begin or end: of prose, of code, and of a Harmony message.
_PLAIN_PROSE = re.compile(r"[^<\[{`\n]+").fullmatch
_PLAIN_CODE = re.compile(r"[^`\n]+").fullmatch
_PLAIN_MESSAGE = re.compile(r"[^<]+").fullmatch


class TextCalls:
    """A CallFinder, for the tools of these names."""

    __slots__ = (
        "_begun",
        "_behind_call",
        "_blank",
        "_candidate",
        "_harmony",
        "_looked_at",
        "_numbers",
        "_offered",
        "_plain",
        "_prose",
        "_rest",
    )

    def __init__(self, names: Collection[str]) -> None:
        self._offered = Offered(names)
        self._numbers = itertools.count()
        self._begin()

    def _begin(self) -> None:
        self._rest = ""
        self._candidate: Candidate | None = None
        self._harmony: Harmony | None = None
        self._prose = Prose()
        # White space before the first visible text, which a call would make meaningless.
        self._blank = ""
        self._begun = False
        self._behind_call = False
        self._looked_at = 0
        self._plain: Callable[[str], re.Match[str] | None] | None = None

    def passes(self, text: str) -> bool:
        plain = self._plain
        if plain is None or plain(text) is None:
            return False
        prose = self._prose
        prose.last = text[-1]
        if prose.line_start and not text.isspace():
            prose.line_start = False
        return True

    def receive(self, text: str) -> list[Delta]:
        if self.passes(text):
            return [TextDelta(text)]
        deltas = self._read(text)
        self._plain = self._what_passes()
        return deltas

    def release(self) -> list[Delta]:
        deltas: list[Delta] = [] if self._harmony is None else self._harmony.release()
        self._say(self._rest, deltas)
        return self._ended(deltas)

    def close(self) -> list[Delta]:
        deltas = self._read("", final=True)
        if self._harmony is not None:
            deltas += self._harmony.close()
        return self._ended(deltas)

    def _ended(self, deltas: list[Delta]) -> list[Delta]:
        blank = self._blank
        self._begin()
        return [*deltas, TextDelta(blank)] if blank else deltas

    def _what_passes(self) -> Callable[[str], re.Match[str] | None] | None:
        if self._harmony is not None:
            return _PLAIN_MESSAGE if self._harmony.tells_text else None
        if self._rest or self._behind_call or not self._begun or not self._prose.settled:
            return None
        return _PLAIN_CODE if self._prose.in_code else _PLAIN_PROSE

    def _read(self, text: str, *, final: bool = False) -> list[Delta]:
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and self._step(deltas, final):
            pass
        return deltas

    def _step(self, deltas: list[Delta], final: bool) -> bool:
        """Takes something from the text, and tells whether there may be more to take."""
        if self._harmony is not None:
            rest, self._rest = self._rest, ""
            deltas += self._harmony.receive(rest)
            return False
        if self._behind_call:
            self._rest = self._rest.lstrip()
            self._behind_call = not self._rest
            return True
        return self._search(deltas, final) if self._candidate is None else self._consider(self._candidate, deltas, final)

    def _search(self, deltas: list[Delta], final: bool) -> bool:
        """Says the text up to the first place where a call may begin."""
        rest, at = self._rest, 0
        for point in _POINTS.finditer(rest):
            here = point.start()
            self._prose.advance(rest[at:here])
            at = here
            opened = self._what_opens(here, final)
            # Most that might begin a call does not, and is found out at the first look.
            if opened is None or (callable(opened) and self._look(opened(self._offered, here), here, final) is NONE):
                continue
            self._say(rest[:here], deltas)
            self._rest = rest[here:]
            if isinstance(opened, Looking):
                return False
            if isinstance(opened, Harmony):
                self._harmony, self._blank = opened, ""
            else:
                self._candidate = opened(self._offered, 0)
            return True
        self._prose.advance(rest[at:])
        self._say(rest, deltas)
        self._rest = ""
        return False

    def _what_opens(self, here: int, final: bool) -> Kind | Harmony | Looking | None:
        rest, prose = self._rest, self._prose
        begins = not self._begun and visible_at(rest) == here
        if rest[here] == "`":
            return partial(Alone, begins=begins) if prose.may_open_fence else None
        prose.settle()
        if prose.in_code:
            return None
        if rest[here] != "{" and not prose.quoted and (marked := self._marked(here, begins, final)) is not None:
            return marked
        return partial(Alone, begins=begins) if rest[here] != "<" and prose.line_start else None

    def _marked(self, here: int, begins: bool, final: bool) -> Kind | Harmony | Looking | None:
        ahead = self._rest[here : here + LONGEST_MARKER]
        for marker, kind in MARKERS.items():
            if ahead.startswith(marker):
                return kind
        header = HEADER.match(self._rest, here, partial=True) if begins else None
        if header is not None and not header.partial:
            return Harmony(self._offered, self._numbers)
        may_come = header is not None or any(marker.startswith(ahead) for marker in MARKERS)
        return MORE if may_come and not final else None

    def _look(self, candidate: Candidate, start: int, final: bool) -> Found | Looking:
        if final:
            self._looked_at += len(self._rest) - start
        return NONE if self._looked_at > LAST_LOOKS else candidate.look(self._rest, final)

    def _consider(self, candidate: Candidate, deltas: list[Delta], final: bool) -> bool:
        verdict = self._look(candidate, 0, final)
        if isinstance(verdict, Found) and verdict.end <= BOUND:
            self._tell(verdict, deltas)
            return True
        if verdict is MORE and len(self._rest) <= BOUND:
            return False
        # It is no call, or has been held for too long.
        text = self._rest[: candidate.opening if verdict is NONE else BOUND]
        self._candidate = None
        self._prose.advance(text)
        self._say(text, deltas)
        self._rest = self._rest[len(text) :]
        return True

    def _tell(self, found: Found, deltas: list[Delta]) -> None:
        for call in found.calls:
            deltas.append(CallDelta(next(self._numbers), name=call.name, arguments=call.arguments))
            self._blank = ""
        self._rest = self._rest[found.end :]
        self._candidate = found.again
        self._behind_call = True
        self._prose = Prose()

    def _say(self, text: str, deltas: list[Delta]) -> None:
        if not self._begun:
            self._blank += text
            if not text or text.isspace():
                return
            text, self._blank, self._begun = self._blank, "", True
        if not text:
            return
        if deltas and isinstance(deltas[-1], TextDelta):
            deltas[-1] = TextDelta(deltas[-1].text + text)
        else:
            deltas.append(TextDelta(text))
