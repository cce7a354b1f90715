"""The rows of events: those of one append as a MessagePack list, each with its number and its bytes.

A long event has a row of its own. Its bytes are the end of the row, so that parts of them can be read.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec

from antiphon.store.records import Event, LongEvent, Pieces

# How MessagePack writes bytes: none, and the head of any number.
_NO_BYTES = b"\xc4\x00"
_LONG_BYTES = struct.Struct(">BI")
_LONG = 0xC6
# The most bytes before those of a long event: two lists, its number, and the head of its bytes.
LONGEST_HEAD = 2 + 9 + _LONG_BYTES.size

_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[Event]).decode


class LongRow:
    """The row of a long event, in pieces."""

    def __init__(self, number: int, data: Pieces) -> None:
        self._head = _number_head(number) + _LONG_BYTES.pack(_LONG, len(data))
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        yield from self._data

    def __len__(self) -> int:
        return len(self._head) + len(self._data)


def encode(events: Sequence[Event | LongEvent]) -> bytes | LongRow:
    first = events[0]
    return LongRow(first.number, first.data) if isinstance(first, LongEvent) else _encode(events)


def long_event_start(number: int, row: bytes) -> int | None:
    """Where the bytes of this event begin in its row, of which this is the beginning. None: the row has other events too."""
    head = _number_head(number)
    return len(head) + _LONG_BYTES.size if row.startswith(head + bytes([_LONG])) else None


def _number_head(number: int) -> bytes:
    return _encode([(number, b"")]).removesuffix(_NO_BYTES)
