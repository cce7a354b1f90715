"""Where the events of a response go."""

from collections.abc import Sequence
from typing import Protocol

from antiphon.core.events.encode import Encoder, MessageEncoder, to_json
from antiphon.core.events.plain_deltas import AnyEvent, DeltaTemplate, PlainDelta


class Sink(Protocol):
    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        """At least one event. `last`: the terminal event is among them. True: more has been written than the client reads,
        and the engine should pause until `drain()` returns.
        """

    async def drain(self) -> None: ...


class NoSink:
    """For an answer that is not streamed: only the response counts, and no event is encoded."""

    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        return False

    async def drain(self) -> None: ...


class ByteStream(Protocol):
    """The client's side of a connection, as the transport offers it."""

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool: ...
    def write_event(self, event: bytes) -> bool: ...
    async def drain(self) -> None: ...


class EncodedSink:
    """Events to a client, encoded as its protocol has them."""

    __slots__ = ("_encoder", "_head", "_stream", "_tail", "_template")

    def __init__(self, stream: ByteStream, encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder
        # The template of the last delta, as the encoder has it.
        self._template: DeltaTemplate | None = None
        self._head = self._tail = b""

    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        if len(events) > 1 or last:
            return self._write_all(events, last=last)
        event = events[0]
        if type(event) is PlainDelta and event.template is self._template:
            # What the encoder would do, without visiting it.
            return self._stream.write_event(self._head + to_json(event.delta) + self._tail % event.sequence_number)
        return self._write_other(event)

    def _write_other(self, event: AnyEvent) -> bool:
        encoder = self._encoder
        data = encoder.encode(event)
        if isinstance(encoder, MessageEncoder):
            self._template, self._head, self._tail = encoder.template, encoder.head, encoder.tail
        return self._stream.write_event(data) if data else False

    def _write_all(self, events: Sequence[AnyEvent], *, last: bool) -> bool:
        # A protocol need not have a form for every event.
        encode = self._encoder.encode
        encoded = [data for event in events if (data := encode(event))]
        if last:
            encoded += self._encoder.end
        return self._stream.write(encoded, last=last) if encoded else False

    async def drain(self) -> None:
        await self._stream.drain()
