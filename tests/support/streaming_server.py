"""A server whose handler is the test's own, and clients that read from it byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from support.servers import running_app

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StreamingServer:
    def __init__(self, handler: Handler) -> None:
        self.port = 0
        self.done = asyncio.Event()
        self.error: BaseException | None = None
        self._handler = handler

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._handler(request)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.done.set()

    async def get(self, version: str = "1.1", limit: int = 2**16) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that has sent its request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        writer.write(f"GET / HTTP/{version}\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
        return reader, writer


@asynccontextmanager
async def streaming_server(handler: Handler) -> AsyncIterator[StreamingServer]:
    server = StreamingServer(handler)
    app = web.Application()
    app.router.add_get("/", server.handle)
    async with running_app(app) as url:
        server.port = int(url.rpartition(":")[2])
        yield server


async def read_chunks(reader: asyncio.StreamReader) -> list[bytes]:
    """The HTTP chunks of an answer, to its end."""
    await reader.readuntil(b"\r\n\r\n")
    chunks = []
    while size := int(await reader.readline(), 16):
        chunks.append(await reader.readexactly(size))
        assert await reader.readexactly(2) == b"\r\n"
    return chunks


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()
