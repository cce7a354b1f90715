"""The fast path for plain deltas: the pieces of a stream that only continue the open part.

Most events of a stream differ from the one before them in text and number alone. Such an event is a `PlainDelta`: a template
that all of them share, the text, the number. An encoder splices text and number into the encoded template.

With a thousand streams, nothing of a stream is in the processor's caches when its next piece comes, and each object that the
piece has to visit costs more than a call does. So all that the fast path needs is in one small object, the `Continuation`.
"""

import sys

from msgspec import Struct, structs

from antiphon.core.events.deltas import Delta
from antiphon.wire.events import DeltaEvent, Event


class DeltaTemplate:
    """A delta event without its text and its number."""

    __slots__ = ("event",)

    def __init__(self, event: DeltaEvent) -> None:
        self.event = event


class PlainDelta(Struct, frozen=True, gc=False):
    """One of the event types: a delta event in its compact form."""

    template: DeltaTemplate
    delta: str
    sequence_number: int

    def expand(self) -> DeltaEvent:
        return structs.replace(self.template.event, delta=self.delta, sequence_number=self.sequence_number)


# What an exchange emits.
AnyEvent = Event | PlainDelta


def expand(event: AnyEvent) -> Event:
    """The event in its full form."""
    return event.expand() if isinstance(event, PlainDelta) else event


# So many pieces of a text are made one. Each takes 60 bytes beside its text.
MOST_PIECES = 16


def join_from(pieces: list[str], start: int) -> int:
    """Makes one piece of those from `start` on, so each is copied once. Returns where the next ones begin."""
    if len(pieces) - start < 2:
        return start
    pieces[start:] = ["".join(pieces[start:])]
    return start + 1


class FastPath:
    """Where the next piece of the same kind goes: kept in `pieces`, emitted by the template. A call has an index too."""

    __slots__ = ("_joined", "index", "kind", "pieces", "template")

    def __init__(self, kind: type[Delta], pieces: list[str], template: DeltaTemplate, *, index: int | None = None) -> None:
        self.kind = kind
        self.index = index
        self.pieces = pieces
        self.template = template
        self._joined = 0

    def join_pieces(self) -> None:
        """Makes one piece of all that have come since the last time: each takes far more memory than its text. Those of a
        call stay as they are: what looks for its end counts them."""
        if self.index is None:
            self._joined = join_from(self.pieces, self._joined)

    @property
    def join_at(self) -> int:
        """The number of pieces above which they are joined."""
        return self._joined + MOST_PIECES if self.index is None else sys.maxsize
