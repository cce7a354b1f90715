"""The events of a run on their way to its client."""

import asyncio
from collections.abc import Sequence

from antiphon.core.fast_path import AnyEvent
from antiphon.engines.upstream import Reply
from antiphon.gateway.exchange_calls import ExchangeCalls
from antiphon.gateway.observers import RunObservers
from antiphon.gateway.sinks import NoSink, Sink


class Outbox:
    """`add()` events, and `flush()` them. A client that does not keep up pauses the engine."""

    def __init__(self, observers: RunObservers, calls: ExchangeCalls) -> None:
        self.sink: Sink = NoSink()
        self.unsent: list[AnyEvent] = []
        # What has to pause for a slow client.
        self.reply: Reply | None = None
        self._observers = observers
        self._calls = calls
        self._resuming: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """The client has to read first."""
        return self._resuming is not None

    def add(self, events: list[AnyEvent]) -> None:
        self.unsent = self.unsent + events if self.unsent else events

    def take(self) -> list[AnyEvent]:
        events, self.unsent = self.unsent, []
        return events

    def flush(self) -> None:
        """Writes what there is, and pauses the engine if the client does not keep up."""
        events = self.unsent
        if not events:
            return
        self.unsent = []
        if self._observers.look:
            self._observers.see(events)
        if self.sink.write(events) and self._resuming is None and self.reply is not None:
            self.reply.pause()
            self._resuming = asyncio.create_task(self._resume(self.reply))

    def write_last(self, events: Sequence[AnyEvent]) -> None:
        """The terminal event is among them."""
        self._observers.see(events)
        self.sink.write(events, last=True)

    async def _resume(self, reply: Reply) -> None:
        await self.sink.drain()
        self._resuming = None
        self._calls.join_pieces()
        reply.resume()

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
