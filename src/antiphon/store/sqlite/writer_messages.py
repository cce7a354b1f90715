"""What worker processes and the process that writes for them send each other: the length of a message, and the message as
MessagePack.

The writer begins with a `Hello`. A worker sends each `Put`; the writer answers with lists of `Written`, in any order, each
after the commit.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from antiphon.store.account_records import Counts, Delivery, UsageEntry, UsageKind
from antiphon.store.accounts import usage
from antiphon.store.operations import Operation
from antiphon.store.records import Item, Record
from antiphon.store.sql import conversations, item_index, responses

Message = TypeVar("Message")

# The bytes of the length.
LENGTH = 4
# To be changed with anything that the fields and statements below do not show.
REVISION = "1"


class Hello(Struct, frozen=True):
    """The first message of the writer."""

    # Those whose formats differ do not understand each other.
    format: str
    # The path of the file that it writes to.
    database: str


class Put(Struct, frozen=True, array_like=True):
    # By which it is answered.
    number: int
    record: Record
    # What it adds to its conversation, which it unlocks. None: it has none.
    items: tuple[Item, ...] | None
    # The time, as the worker has it.
    now: float
    # When its caller has given it up, by the monotonic clock: it must not be written then.
    until: float
    # It was sent before, and nobody knows whether it was written.
    again: bool = False

    def operation(self) -> Operation[bool]:
        return finish(self.record, self.items, self.now, again=self.again)


def finish(record: Record, items: Sequence[Item] | None, now: float, *, again: bool) -> Operation[bool]:
    """Without items, it fails before its first change, if it fails."""
    if again and (yield from responses.was_put(record)):
        return True
    if items is not None:
        return (yield from conversations.put_and_unlock(record, items, now))
    yield from responses.put(record, now)
    return True


# What became of a put. "refused": the response does not have the lock of its conversation. "taken": the id exists. "lost": the
# file was deleted or replaced.
Result: TypeAlias = Literal["done", "refused", "taken", "late", "lost", "unavailable"]


class Written(Struct, frozen=True, array_like=True):
    number: int
    result: Result


def _format() -> str:
    """Of the messages, and of what is written for them: a process with newer code has another one if they differ."""
    structs: tuple[type[Struct], ...] = (Hello, Put, Written, Record, Item, UsageEntry, Delivery)
    fields = [*(",".join(each.__struct_fields__) for each in structs), *UsageKind._fields, *Counts._fields]
    parts = (REVISION, *fields, responses.INSERT, item_index.ADD, usage.ADD)
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


FORMAT = _format()
_encoder = msgspec.msgpack.Encoder()


def encode(message: Any) -> bytes:
    encoded = _encoder.encode(message)
    return len(encoded).to_bytes(LENGTH) + encoded


class Messages(Generic[Message]):
    """Whole messages of one type from the bytes of a connection."""

    def __init__(self, received: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(received)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """To be iterated over to its end."""
        buffer = self._buffer
        buffer += data
        start, size = 0, len(buffer)
        while size - start >= LENGTH:
            end = start + LENGTH + int.from_bytes(buffer[start : start + LENGTH])
            if end > size:
                break
            with memoryview(buffer) as view:
                message = self._decoder.decode(view[start + LENGTH : end])
            yield message
            start = end
        del buffer[:start]
