"""The fast path for plain deltas: the pieces of a stream that only continue the open part.

Most events of a stream differ from the one before them in text and number alone. Such an event is a `PlainDelta`: a template
that all of them share, the text, the number. An encoder splices text and number into the encoded template.

With a thousand streams, nothing of a stream is in the processor's caches when its next piece comes, and each object that the
piece has to visit costs more than a call does. So all that the fast path needs is in one small object, the `Continuation`.
"""

import sys
from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from antiphon.core.events.deltas import Delta
from antiphon.core.events.numbering import Numbering
from antiphon.wire import UNREADABLE
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
        """So many pieces are too many."""
        return self._joined + MOST_PIECES if self.index is None else sys.maxsize


# As nearly all engines end a frame. Those of others are received one by one.
FRAME_END = b"\n\n"

# Whether a text may be taken without being received. None: any text may.
Takes = Callable[[str], bool]

_to_text = msgspec.json.Decoder(str).decode


class Continuation:
    """How the next read looks if it only continues the open part, and the event that it becomes then.

    `head` and `tail` are all of the read but the text. They end and begin with the quotation marks around it.
    """

    __slots__ = (
        "_end", "_head", "_join_at", "_numbering", "_path", "_pieces", "_start", "_tail", "_takes", "_template", "_without",
    )  # fmt: skip

    def __init__(
        self,
        head: bytes,
        tail: bytes,
        path: FastPath,
        numbering: Numbering,
        takes: Takes | None = None,
        without: str | None = None,
    ) -> None:
        """`without`: what no text may have in it."""
        self._head, self._tail = head, tail
        self._start, self._end = len(head) - 1, 1 - len(tail)
        self._takes, self._without = takes, without
        self._path, self._pieces, self._join_at = path, path.pieces, path.join_at
        self._template, self._numbering = path.template, numbering

    def take(self, data: bytes) -> PlainDelta | None:
        """The event of a read, whose text then is one of the pieces. None: the read has to be received."""
        if not (data.startswith(self._head) and data.endswith(self._tail)):
            return None
        try:
            # Exactly one JSON string, or an error. So the text is what the full decoding would find, whatever is in it.
            text = _to_text(data[self._start : self._end])
        except UNREADABLE:
            return None
        without, takes = self._without, self._takes
        if not text or (without is not None and without in text) or (takes is not None and not takes(text)):
            return None
        pieces = self._pieces
        pieces.append(text)
        if len(pieces) > self._join_at:
            self._path.join_pieces()
            self._join_at = self._path.join_at
        numbering = self._numbering
        number = numbering.next
        numbering.next = number + 1
        return PlainDelta(self._template, text, number)

    def take_burst(self, data: bytes) -> tuple[list[AnyEvent], bytes]:
        """The events of several frames that have come in one read, up to one that has to be received; and the rest."""
        events: list[AnyEvent] = []
        at = 0
        while (end := data.find(FRAME_END, at) + len(FRAME_END)) > 1:
            if (event := self.take(data[at:end])) is None:
                break
            events.append(event)
            at = end
        return events, data[at:]

    @property
    def last(self) -> str:
        """The last character so far."""
        return self._pieces[-1][-1:] if self._pieces else ""
