"""Events sent to a client by a task that waits where the client is slow."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from antiphon.transport.interfaces import HIGH_WATER
from antiphon.transport.websocket import Socket


@asynccontextmanager
async def open_events(request: web.Request, response: web.StreamResponse) -> AsyncIterator["PlainEventStream"]:
    await response.prepare(request)
    stream = PlainEventStream(response)
    try:
        yield stream
        await stream.drain()
        await response.write_eof()
    finally:
        await stream.cancel()


@asynccontextmanager
async def open_messages(request: web.Request, socket: Socket) -> AsyncIterator["PlainMessageStream"]:
    await socket.prepare(request)
    stream = PlainMessageStream(socket)
    socket.before_close = stream.finish
    try:
        yield stream
    finally:
        await stream.cancel()


class QueuedStream(ABC):
    """Sends what is written, in order. Its one task exists only while there is something to send."""

    def __init__(self) -> None:
        self._queued: list[bytes] = []
        # In bytes, with what is being sent.
        self._size = 0
        self._ended = False
        self._sending: asyncio.Task[None] | None = None

    @abstractmethod
    async def _send(self, events: list[bytes]) -> None: ...

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool:
        if self._ended:
            return False
        self._queued += events
        self._size += sum(map(len, events))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
        return self._size > HIGH_WATER

    def write_event(self, event: bytes) -> bool:
        return self.write((event,))

    async def drain(self) -> None:
        if (task := self._sending) is not None and not task.done():
            # Not awaited itself: a wait that is cancelled must not cancel the sending.
            await asyncio.wait({task})
        if task is not None and not task.cancelled():
            task.result()

    def end(self) -> None:
        self._ended = True

    async def finish(self) -> None:
        self.end()
        await self.drain()

    async def cancel(self) -> None:
        """Drops what has not been sent."""
        self.end()
        if (task := self._sending) is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})

    async def _send_all(self) -> None:
        try:
            while events := self._queued:
                self._queued = []
                await self._send(events)
                self._size -= sum(map(len, events))
        except ConnectionError:
            # The client is gone.
            self.end()


class PlainEventStream(QueuedStream):
    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__()
        self._response = response

    async def _send(self, events: list[bytes]) -> None:
        # One write is one HTTP chunk: it may contain several events, but no part of one.
        await self._response.write(b"".join(events))


class PlainMessageStream(QueuedStream):
    def __init__(self, socket: Socket) -> None:
        super().__init__()
        self._socket = socket

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool:
        return not self._socket.closed and super().write(events)

    async def _send(self, events: list[bytes]) -> None:
        for event in events:
            await self._socket.send_str(event.decode())
