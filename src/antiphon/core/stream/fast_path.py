"""How the next read of a stream looks if it only continues the open part, and the event that it becomes then."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from antiphon.core.events.deltas import Delta
from antiphon.core.events.lifecycle import Numbering
from antiphon.core.events.plain_deltas import AnyEvent, FastPath, PlainDelta
from antiphon.errors import UNREADABLE

# As nearly all engines end a frame. Those of others are received one by one.
FRAME_END = b"\n\n"

# Whether a text may be taken without being received. None: any text may.
Takes = Callable[[str], bool]

# To compare a slice takes half as long as `startswith` and `endswith`. Streams have the same ones: they stay in the processor's
# caches.
shared_slice = lru_cache(maxsize=1024)(slice)

_to_text = msgspec.json.Decoder(str).decode


class Continues(NamedTuple):
    """Pieces that are nothing but their text become deltas of this kind, if it takes them. They need not be received."""

    kind: type[Delta]
    takes: Takes | None = None
    # None with this in it is taken. A call less for every delta than `takes`.
    without: str | None = None


class Continuation:
    """How the next read looks if it only continues the open part, and the event that it becomes then.

    `head` and `tail` are all of the read but the text. They end and begin with the quotation marks around it.
    """

    __slots__ = (
        "_head", "_head_at", "_join_at", "_numbering", "_path", "_pieces", "_tail", "_tail_at", "_takes", "_template",
        "_text_at", "_without",
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
        self._head_at, self._tail_at = shared_slice(0, len(head)), shared_slice(-len(tail), None)
        self._text_at = shared_slice(len(head) - 1, 1 - len(tail))
        self._takes, self._without = takes, without
        self._path, self._pieces, self._join_at = path, path.pieces, path.join_at
        self._template, self._numbering = path.template, numbering

    def take(self, data: bytes) -> PlainDelta | None:
        """The event of a read, whose text then is one of the pieces. None: the read has to be received."""
        if data[self._head_at] != self._head or data[self._tail_at] != self._tail:
            return None
        try:
            # Exactly one JSON string, or an error. So the text is what the full decoding would find, whatever is in it.
            text = _to_text(data[self._text_at])
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
