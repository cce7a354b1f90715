"""Events sent to a client by a task that waits where the client is slow."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from antiphon.transport.interfaces import HIGH_WATER
from antiphon.transport.websocket import Socket


@asynccontextmanager
async def open_events(request: web.Request, response: web.StreamResponse) -> AsyncIterator["SendQueue"]:
    await response.prepare(request)

    async def send(events: list[bytes]) -> None:
        await response.write(b"".join(events))

    queue = SendQueue(send)
    try:
        yield queue
        await queue.drain()
        await response.write_eof()
    finally:
        await queue.cancel()


@asynccontextmanager
async def open_messages(request: web.Request, socket: Socket) -> AsyncIterator["SendQueue"]:
    await socket.prepare(request)

    async def send(events: list[bytes]) -> None:
        for event in events:
            await socket.send_str(event.decode())

    queue = SendQueue(send)
    socket.before_close = queue.finish
    try:
        yield queue
    finally:
        await queue.cancel()


class SendQueue:
    """Sends what is written, in order. Its one task exists only while there is something to send."""

    def __init__(self, send: Callable[[list[bytes]], Awaitable[None]]) -> None:
        self._send = send
        self._queued: list[bytes] = []
        # In bytes, with what is being sent.
        self._size = 0
        self._ended = False
        self._sending: asyncio.Task[None] | None = None

    def write(self, events: Sequence[bytes]) -> bool:
        if self._ended:
            return False
        self._queued += events
        self._size += sum(map(len, events))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
        return self._size > HIGH_WATER

    async def drain(self) -> None:
        task = self._sending
        if task is not None:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    def end(self) -> None:
        self._ended = True

    async def finish(self) -> None:
        self.end()
        await self.drain()

    async def cancel(self) -> None:
        """Drops what has not been sent."""
        self.end()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait({self._sending})

    async def _send_all(self) -> None:
        try:
            while events := self._queued:
                self._queued = []
                await self._send(events)
                self._size -= sum(map(len, events))
        except ConnectionError:
            # The client is gone.
            self.end()
