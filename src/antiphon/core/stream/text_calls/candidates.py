"""What may become a call. A candidate matches the text from a position on, as often as more of it arrives."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from antiphon.core.stream.text_calls.shapes import Call, ToolNames
from antiphon.core.stream.text_calls.source import NotACall, Reading, Source


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
