"""Candidates for calls, and their general form: a marker, what is between it and its end, and the end. And where the markers
of all forms are in a text, complete or cut off by its end."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from antiphon.core.stream.text_calls.bodies import ANY_BODY, Body, reject_other_word
from antiphon.core.stream.text_calls.forms import FORMS, Place
from antiphon.core.stream.text_calls.shapes import Call, ToolNames
from antiphon.core.stream.text_calls.source import NotACall, Reading, Source
from antiphon.patterns import any_of, late_pattern

# ---- candidates ------------------------------------------------------------------------------------------------------


class Outcome(Enum):
    NEED_MORE = "more text is needed to decide"
    NO_MATCH = "not a call, whatever follows"


NEED_MORE, NO_MATCH = Outcome.NEED_MORE, Outcome.NO_MATCH

# What begins like a call and is none takes the time in which so many characters are read.
FAILED = 256


class Match(NamedTuple):
    calls: list[Call]
    end: int
    # What may follow directly, and is a call only there.
    following: "Candidate | None" = None
    # It is quoted: only text.
    is_text: bool = False


class Candidate:
    """Drives the steps that read a form."""

    __slots__ = ("_reading", "_source", "_start", "plain_prefix")

    def __init__(
        self, read: Callable[[Source, ToolNames], Reading[Match]], tools: ToolNames, start: int, *, plain_prefix: int = 1
    ) -> None:
        self._start = start
        self._source = Source(start)
        self._reading = read(self._source, tools)
        # How many characters are certainly text if there is no match; the rest is searched again.
        self.plain_prefix = plain_prefix

    def wasted(self, match: Match | Outcome) -> int:
        """How many characters it has read that are to be read again. The same, however the text was split."""
        reached = max(self._source.at, self._source.reached)
        return reached - match.end if isinstance(match, Match) else reached - self._start + FAILED * self.plain_prefix

    def match(self, buffered: str, final: bool) -> Match | Outcome:
        """`buffered` is the text of the last call, or longer. `final`: the text has ended, so it is decided."""
        self._source.text, self._source.ended = buffered, final
        try:
            next(self._reading)
        except StopIteration as done:
            match: Match = done.value
            return match
        except NotACall:
            return NO_MATCH
        return NO_MATCH if final else NEED_MORE


# Makes the candidate that begins at a position of the buffered text.
CandidateFactory = Callable[[ToolNames, int], Candidate]


# The words of a body that are not the name of a tool.
_OTHER_WORDS = ("call", "function")


class Block:
    """`opening` is read, then the bodies up to one of `ends`. Without ends, it is one body, and what may directly follow."""

    def __init__(
        self,
        opening: str,
        ends: Sequence[str],
        bodies: Iterable[Body],
        following: Iterable[Body] = (),
        stray: Sequence[str] = (),
    ) -> None:
        self._opening = opening
        self._end = any_of(ends)
        # The next block ends one whose end was forgotten.
        self._stop = any_of([*ends, opening] if ends else [])
        self._bodies = tuple(bodies)
        self._following = tuple(following)
        # Ends of something that was never opened: they are dropped.
        self._stray = any_of(stray)

    def candidate(self, tools: ToolNames, start: int) -> Candidate:
        return Candidate(self.read, tools, start)

    def quoted_candidate(self, tools: ToolNames, start: int) -> Candidate:
        """A call between quotation marks is an example, with all that it contains."""
        return Candidate(self._read_quoted, tools, start)

    def _read_quoted(self, source: Source, tools: ToolNames) -> Reading[Match]:
        return (yield from self.read(source, tools))._replace(is_text=True)

    def read(self, source: Source, tools: ToolNames) -> Reading[Match]:
        source.at += len(self._opening)
        yield from source.white_space()
        yield from reject_other_word(source, tools, source.at, _OTHER_WORDS)
        calls = yield from self._body(source, tools, self._bodies)
        if self._end is not None:
            calls += yield from self._to_end(source, tools)
            return Match(calls, source.at)
        return Match(calls, source.at, self._rest(tools))

    def _body(self, source: Source, tools: ToolNames, bodies: Sequence[Body]) -> Reading[list[Call]]:
        index, head = yield from source.first_of([body.head for body in bodies])
        return (yield from bodies[index].read(source, tools, head, self._stop))

    def _to_end(self, source: Source, tools: ToolNames) -> Reading[list[Call]]:
        """The other calls of the block, and its end. What is neither, and all that follows, is text."""
        assert self._end is not None
        calls: list[Call] = []
        while True:
            at = source.at
            try:
                yield from source.white_space()
                index, head = yield from source.first_of([self._end, *(body.head for body in self._bodies)])
                if index == 0:
                    return calls
                calls += yield from self._bodies[index - 1].read(source, tools, head, self._stop)
            except NotACall:
                source.at = at
                return calls

    def _rest(self, tools: ToolNames) -> Candidate | None:
        may_follow = self._following or self._stray is not None
        return Candidate(self._read_rest, tools, 0, plain_prefix=0) if may_follow else None

    def _read_rest(self, source: Source, tools: ToolNames) -> Reading[Match]:
        heads = [body.head for body in self._following]
        stray = [] if self._stray is None else [self._stray]
        index, head = yield from source.first_of([*heads, *stray])
        if index == len(heads):
            return Match([], source.at)
        calls = yield from self._following[index].read(source, tools, head, self._stop)
        return Match(calls, source.at, self._rest(tools))


def _block(marker: str) -> Block:
    rows = [form for form in FORMS if marker in form.markers and form.body is not None]
    ends = [end for form in rows for end in form.ends]
    bodies = dict.fromkeys([*(form.body for form in rows if form.body is not None), *(ANY_BODY if ends else ())])
    return Block(
        "" if any(form.in_head for form in rows) else marker,
        list(dict.fromkeys(ends)),
        bodies,
        [body for form in rows for body in form.following],
        [end for form in rows for end in form.stray],
    )


def _blocks(place: Place) -> dict[str, Block]:
    return {marker: _block(marker) for form in FORMS if form.place is place for marker in form.markers}


# The block that begins with each marker.
MARKED = _blocks(Place.ANYWHERE)
LINE_MARKED = _blocks(Place.LINE)


class Markers:
    """Finds the markers of these blocks."""

    def __init__(self, blocks: Mapping[str, Block]) -> None:
        self._blocks = blocks
        self._pattern = late_pattern("|".join(map(re.escape, blocks)))
        self._beginnings = frozenset(marker[:end] for marker in blocks for end in range(1, len(marker)))
        self._longest = max(map(len, blocks))

    def at(self, text: str, at: int) -> Block | Outcome | None:
        """The block whose marker is at this position. NEED_MORE: the text ends inside a marker."""
        found = self._pattern.match(text, at)
        if found is not None:
            return self._blocks[found[0]]
        return NEED_MORE if text[at : at + self._longest] in self._beginnings else None


# This many characters of a marker show that it is most likely one.
_SIGNIFICANT = 4


def beginnings(markers: Iterable[str]) -> str:
    """A pattern that matches the first character of each marker, wherever one may begin, and hardly anywhere else. A marker
    that the end of the text cuts off is one of those places."""
    by_first: dict[str, set[str]] = {}
    for marker in markers:
        by_first.setdefault(marker[0], set()).add(re.escape(marker[1:_SIGNIFICANT]))
    cut_off = rf"[\s\S]{{0,{_SIGNIFICANT - 2}}}\Z"
    return "|".join(rf"{re.escape(first)}(?={'|'.join(sorted(rests))}|{cut_off})" for first, rests in by_first.items())


ANYWHERE = Markers(MARKED)
AT_LINE = Markers(LINE_MARKED)


def marked_block(source: Source) -> Reading[Block | None]:
    """The block that begins here, if there is one. Its marker is not read."""
    while isinstance(found := ANYWHERE.at(source.text, source.at), Outcome):
        yield from source.more()
    return found
