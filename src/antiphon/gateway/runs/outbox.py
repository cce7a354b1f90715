"""The client's side of a run: its events on their way, and what pauses the engine meanwhile."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.core.events.encode import Encoder, MessageEncoder, to_json
from antiphon.core.events.lifecycle import Heartbeat
from antiphon.core.events.plain_deltas import AnyEvent, DeltaTemplate, PlainDelta
from antiphon.core.exchange.exchange import Exchange
from antiphon.engines.replies import Reply
from antiphon.errors import ApiError
from antiphon.gateway.limits.threads import run_aside
from antiphon.gateway.runs.observers import RunObservers
from antiphon.transport.interfaces import WriteBatch

# ---- An exchange that a thread may be using --------------------------------------------------------------------------


class ExchangeCalls(Struct, eq=False):
    """The calls of an exchange. One that may take long is made in a thread: until it returns, nobody else may call the
    exchange, and an abort waits."""

    _exchange: Exchange
    # What takes as long as its items are many is done in a thread.
    is_large: bool
    # The exchange is in use there.
    in_thread: bool = False
    # With which the response was aborted, and an abort that waits until the exchange may be called again.
    aborted: ApiError | None = None
    late_abort: ApiError | None = None

    async def make(self, call: Callable[[], list[AnyEvent]], *, in_thread: bool) -> list[AnyEvent]:
        self.in_thread = in_thread
        try:
            return await run_aside(call, large=in_thread)
        finally:
            self.in_thread = False

    def join_pieces(self) -> None:
        if not self.in_thread:
            self._exchange.join_pieces()

    def heartbeat(self) -> list[AnyEvent]:
        """None while a thread uses the exchange."""
        return [] if self.in_thread else self._exchange.heartbeat()


# ---- Whether the engine may send: not while its client has to read, and not while a thread has to. Each of them pauses it ----


class EngineFlow(Struct, eq=False):
    """Every `pause()` is followed by one `resume()`. They count for whichever answer is being read."""

    _reply: Reply | None = None
    _pauses: int = 0

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    def begin(self, reply: Reply) -> None:
        """This answer is read from now on."""
        self._reply = reply
        if self._pauses:
            reply.pause()

    def end(self) -> None:
        """The rest of the answer does not go to the client, so nobody has to wait for it."""
        reply, self._reply = self._reply, None
        if reply is not None and self._pauses:
            reply.resume()

    def pause(self) -> None:
        self._pauses += 1
        if self._reply is not None:
            self._reply.pause()

    def resume(self) -> None:
        self._pauses -= 1
        if self._reply is not None and not self._pauses:
            self._reply.resume()


# ---- Where the events of a response go -------------------------------------------------------------------------------


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


class EncodedSink(Struct, eq=False):
    """Events to a client, encoded as its protocol has them."""

    _stream: ByteStream
    _encoder: Encoder
    # The template of the last delta, as the encoder has it.
    _template: DeltaTemplate | None = None
    _head: bytes = b""
    _tail: bytes = b""

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
        if not data and type(event) is Heartbeat:
            data = encoder.heartbeat()
        return self._stream.write_event(data) if data else False

    def _write_all(self, events: Sequence[AnyEvent], *, last: bool) -> bool:
        encoder = self._encoder
        if isinstance(encoder, MessageEncoder):
            encoded = encoder.encode_all(events)
        else:
            # A protocol need not have a form for every event.
            encoded = [data for event in events if (data := encoder.encode(event))]
        if last:
            encoded += self._encoder.end
        elif not encoded and Heartbeat in map(type, events) and (alive := self._encoder.heartbeat()):
            encoded.append(alive)
        return self._stream.write(encoded, last=last) if encoded else False

    async def drain(self) -> None:
        await self._stream.drain()


class Outbox:
    """`begin()` with a sink, `add()` events, and `flush()` them. A client that does not keep up pauses the engine."""

    __slots__ = ("_calls", "_is_observed", "_resuming", "batch", "begun", "flow", "observers", "receivers", "sink", "unsent")

    def __init__(self, observers: RunObservers, calls: ExchangeCalls, batch: WriteBatch) -> None:
        """`batch`: of all that is written at about the same time."""
        self.sink: Sink = NoSink()
        self.unsent: list[AnyEvent] = []
        # The first events have been written.
        self.begun = False
        self.observers = observers
        # Their list, at hand: every piece of the engine's body looks at it.
        self.receivers = observers.receivers
        # Most runs have nobody who looks after the first of the output; then the observers need not be visited.
        self._is_observed = True
        self._calls = calls
        self.batch = batch
        self.flow = EngineFlow()
        self._resuming: asyncio.Task[None] | None = None

    def begin(self, sink: Sink, events: list[AnyEvent]) -> None:
        self.sink = sink
        self.begun = True
        self.unsent += events
        self.flush()

    def add(self, events: list[AnyEvent]) -> None:
        self.unsent += events

    def flush(self) -> None:
        """Writes what there is, and pauses the engine if the client does not keep up."""
        events = self.unsent
        if not events:
            return
        self.unsent = []
        if self._is_observed:
            self.observers.see(events)
            self._is_observed = self.observers.look
        if self.sink.write(events) and self._resuming is None:
            self.flow.pause()
            self._resuming = asyncio.create_task(self._resume())

    async def drain(self, until: float | None, response_id: str) -> None:
        """A client that does not read gets no more time than others. Raises ConnectionResetError: it has to be left.
        `until`: by the loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                await self.sink.drain()
        except TimeoutError:
            raise ConnectionResetError(f"The client did not read the end of {response_id}.") from None

    async def _resume(self) -> None:
        await self.sink.drain()
        self._resuming = None
        self._calls.join_pieces()
        self.flow.resume()

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
