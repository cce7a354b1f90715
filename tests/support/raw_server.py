"""An HTTP server whose every byte the test writes itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*pieces: bytes) -> bytes:
    """A body of these HTTP chunks, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def sized(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def read_by_others() -> None:
    """Gives all that was written the time to be read."""
    for _ in range(4):
        await asyncio.sleep(0)


async def write_in_pieces(writer: asyncio.StreamWriter, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        writer.write(data[at : at + size])
        await writer.drain()
        await read_by_others()


class RawServer:
    def __init__(self, answer: Callable[[bytes], Answer]) -> None:
        """`answer` gets the head of a request, and returns what writes the answer."""
        self.url = ""
        # Of the connections that were made.
        self.connections = 0
        self.client_left = asyncio.Event()
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await self._answer(head)(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.client_left.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def settle(self) -> None:
        """Waits for the ends of all connections."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def raw_server(answer: Callable[[bytes], Answer]) -> AsyncIterator[RawServer]:
    """Its client must be closed before it."""
    serving = RawServer(answer)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0)
    serving.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield serving
    finally:
        server.close()
        await serving.settle()
