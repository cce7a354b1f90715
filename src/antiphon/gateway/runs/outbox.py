"""The events of a run on their way to its client."""

import asyncio
from collections.abc import Sequence

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.gateway.runs.engine_flow import EngineFlow
from antiphon.gateway.runs.exchange_calls import ExchangeCalls
from antiphon.gateway.runs.observers import RunObservers
from antiphon.gateway.runs.sinks import NoSink, Sink


class Outbox:
    """`add()` events, and `flush()` them. A client that does not keep up pauses the engine."""

    __slots__ = ("_calls", "_is_observed", "_observers", "_resuming", "flow", "sink", "unsent")

    def __init__(self, observers: RunObservers, calls: ExchangeCalls, flow: EngineFlow) -> None:
        self.sink: Sink = NoSink()
        self.unsent: list[AnyEvent] = []
        self._observers = observers
        # Most runs have nobody who looks after the first of the output; then the observers need not be visited.
        self._is_observed = True
        self._calls = calls
        self.flow = flow
        self._resuming: asyncio.Task[None] | None = None

    def add(self, events: list[AnyEvent]) -> None:
        self.unsent += events

    def take(self) -> list[AnyEvent]:
        events, self.unsent = self.unsent, []
        return events

    def flush(self) -> None:
        """Writes what there is, and pauses the engine if the client does not keep up."""
        events = self.unsent
        if not events:
            return
        self.unsent = []
        if self._is_observed:
            self._observers.see(events)
            self._is_observed = self._observers.look
        if self.sink.write(events) and self._resuming is None:
            self.flow.pause()
            self._resuming = asyncio.create_task(self._resume())

    def write_last(self, events: Sequence[AnyEvent]) -> bool:
        """The terminal event is among them. True: the client has not read as much as was written."""
        self._observers.see(events)
        return self.sink.write(events, last=True)

    async def _resume(self) -> None:
        await self.sink.drain()
        self._resuming = None
        self._calls.join_pieces()
        self.flow.resume()

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
