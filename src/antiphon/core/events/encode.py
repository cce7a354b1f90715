"""Events → bytes, the last step of all: frames of server-sent events, or messages of a WebSocket."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec
from msgspec import structs

from antiphon.core.events.json_pieces import JsonPieces, long_json
from antiphon.core.events.plain_deltas import AnyEvent, DeltaTemplate, PlainDelta
from antiphon.wire.events import Event, ResponseCreated, ResponseInProgress

DONE = b"data: [DONE]\n\n"
# A comment. It is nothing to a client, but it keeps the connection from being taken for dead.
STILL_HERE = b": still here\n\n"


class Encoder(Protocol):
    """Events → bytes, for one stream."""

    # What follows the last event.
    end: ClassVar[tuple[bytes, ...]]

    def encode(self, event: AnyEvent) -> bytes:
        """b"": the protocol has nothing for this event."""

    def heartbeat(self) -> bytes:
        """A sign of life for a client that has got nothing for a while, where `encode` has none for the event `Heartbeat`. b"":
        the connection has its own."""


# Stands for the text in a template; no JSON encoder leaves it as it is, so it is found again by its encoded form.
MARK = "\x00mark\x00"
ENCODED_MARK = b'"\\u0000mark\\u0000"'
to_json = msgspec.json.Encoder().encode


# What is around the data of an event that has no name.
FRAME_HEAD, FRAME_TAIL = b"data: ", b"\n\n"


class _Heads(dict[type[AnyEvent], bytes]):
    """The first line of a frame, by the type of its event."""

    def __missing__(self, kind: type[Event]) -> bytes:
        head = self[kind] = f"event: {kind.__struct_config__.tag}\ndata: ".encode()
        return head


_HEADS = _Heads()


def event_to_frame(event: Event) -> bytes:
    """One event as it is sent and stored. Joined in one go: the last event of a stream may be twice as large as its answer."""
    return b"".join((_HEADS[type(event)], to_json(event), FRAME_TAIL))


CREATED, IN_PROGRESS = b'{"type":"response.created"', b'{"type":"response.in_progress"'
NUMBER = b',"sequence_number":%d}'


def opening_frames(events: Sequence[AnyEvent]) -> list[bytes]:
    """What nearly every stream begins with: two events with the same response, which is encoded once. Or nothing."""
    if len(events) < 2 or type(created := events[0]) is not ResponseCreated:
        return []
    after = events[1]
    if type(after) is not ResponseInProgress or after.response is not created.response:
        return []
    first = to_json(created)
    response = first[len(CREATED) : -len(NUMBER % created.sequence_number)]
    second = b"".join((IN_PROGRESS, response, NUMBER % after.sequence_number))
    return [
        b"".join((_HEADS[ResponseCreated], first, FRAME_TAIL)),
        b"".join((_HEADS[ResponseInProgress], second, FRAME_TAIL)),
    ]


def long_frame(event: Event) -> JsonPieces | None:
    """The same bytes in pieces. None: the event has no long text."""
    return long_json(event, _HEADS[type(event)], FRAME_TAIL)


def to_frame(name: str, data: bytes) -> bytes:
    """Any JSON as an event of this name."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class MessageEncoder:
    """Encodes for a WebSocket, where a message has its own beginning and end."""

    __slots__ = ("head", "tail", "template")

    end: ClassVar[tuple[bytes, ...]] = ()
    # What is before the JSON of an event, if it is sent in a frame. None: its message is nothing else.
    _heads: ClassVar[Mapping[type[AnyEvent], bytes] | None] = None

    def __init__(self) -> None:
        # The template of the last delta, and its encoded form: the text goes between the two, the number into the tail. Parts
        # follow one another and never interleave, so no earlier one is needed again.
        self.template: DeltaTemplate | None = None
        self.head = self.tail = b""

    def encode(self, event: AnyEvent) -> bytes:
        if type(event) is not PlainDelta:
            # As `event_to_frame` does, which would be a call more for every event.
            heads = self._heads
            return to_json(event) if heads is None else b"".join((heads[type(event)], to_json(event), FRAME_TAIL))
        template = event.template
        if template is not self.template:
            self._encode_template(template)
        return self.head + to_json(event.delta) + self.tail % event.sequence_number

    def encode_all(self, events: Sequence[AnyEvent]) -> list[bytes]:
        """The same of each, without a call for most of them."""
        heads, encode = self._heads, self.encode
        if heads is None:
            return [encode(event) for event in events]
        opening = opening_frames(events)
        others = [
            encode(event) if type(event) is PlainDelta else b"".join((heads[type(event)], to_json(event), FRAME_TAIL))
            for event in events[len(opening) :]
        ]
        return opening + others

    def heartbeat(self) -> bytes:
        # A WebSocket is kept alive by its pings.
        return b""

    def _encode_template(self, template: DeltaTemplate) -> None:
        """The number is the last member of every event."""
        encoded = self.encode(structs.replace(template.event, delta=MARK, sequence_number=-1))
        self.head, _, tail = encoded.partition(ENCODED_MARK)
        self.tail = tail.replace(b"%", b"%%").replace(b"-1", b"%d")
        self.template = template


class SseEncoder(MessageEncoder):
    """Server-sent events: the type of an event in its own line, and `[DONE]` at the end."""

    __slots__ = ()

    end: ClassVar[tuple[bytes, ...]] = (DONE,)
    _heads = _HEADS

    def heartbeat(self) -> bytes:
        return STILL_HERE
