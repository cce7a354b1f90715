"""An engine that misbehaves as a row of the table says, byte by byte, and is well again after that."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum

from support.engine import text
from support.raw_server import CHUNKED, chunked, sized

MODELS = sized(b'{"object": "list", "data": [{"id": "mock", "object": "model", "owned_by": "mock"}]}')
WELL = CHUNKED + chunked(text("Hello", " world"))
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


# So many turns of the event loop let the gateway, in the same loop, read what was sent, and act on it.
TURNS_TO_READ = 10


class Act(Enum):
    REFUSE = "nobody listens on its port"
    RESET = "the connection is reset"
    CLOSE = "the connection is closed"
    PAUSE = "what was sent is read before the rest is sent"
    STALL = "nothing more comes, and the connection stays open"


@dataclass(frozen=True, slots=True)
class Forever:
    """Sent again and again, until the gateway has enough of it."""

    piece: bytes


Step = bytes | Forever | Act


class FaultyEngine:
    def __init__(self) -> None:
        self.url = ""
        # What the next chat requests are answered with. None: as a good engine does.
        self.fault: Sequence[Step] | None = None
        self.chats = 0
        # Requests to the address that a redirect names.
        self.redirected = 0
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    @property
    def connections(self) -> int:
        """Those that are open."""
        return len(self._open)

    async def start(self) -> None:
        port = int(self.url.rpartition(":")[2]) if self.url else 0
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.close()
        await asyncio.gather(*self._open.values())

    async def misbehave(self, fault: Sequence[Step]) -> None:
        self.fault, self.chats = fault, 0
        if Act.REFUSE in fault:
            await self.stop()

    async def behave(self) -> None:
        refused = self.fault is not None and Act.REFUSE in self.fault
        self.fault = None
        if refused:
            await self.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[writer] = task
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await self._answer(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            del self._open[writer]

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ", 2)[1]
        if path == b"/v1/chat/completions":
            self.chats += 1
            for step in [WELL] if self.fault is None else self.fault:
                await _take(step, reader, writer)
            return
        self.redirected += path.startswith(b"/elsewhere")
        writer.write(MODELS if path == b"/v1/models" else NOT_FOUND)


async def _take(step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if isinstance(step, bytes):
        writer.write(step)
        await writer.drain()
    elif isinstance(step, Forever):
        while True:
            writer.write(step.piece)
            await writer.drain()
    elif step is Act.STALL:
        # The gateway is to close it.
        await reader.read()
    else:
        # What was sent before is read first, so that the outcome does not depend on which is faster.
        for _ in range(TURNS_TO_READ):
            await asyncio.sleep(0)
        if step is Act.RESET:
            end: socket.socket = writer.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif step is Act.CLOSE:
            writer.close()


@contextlib.asynccontextmanager
async def faulty_engine() -> AsyncIterator[FaultyEngine]:
    engine = FaultyEngine()
    await engine.start()
    try:
        yield engine
    finally:
        await engine.behave()
        await engine.stop()
