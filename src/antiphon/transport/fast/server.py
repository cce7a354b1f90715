"""Events written to a client's socket at once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import StreamWriter

from antiphon.transport.interfaces import HIGH_WATER
from antiphon.transport.websocket import Socket

TEXT_FRAME = 0x81


@asynccontextmanager
async def open_events(request: web.Request, response: web.StreamResponse) -> AsyncIterator["FastEventStream"]:
    writer = await response.prepare(request)
    assert isinstance(writer, StreamWriter)
    yield FastEventStream(writer)
    await response.write_eof()


class FastEventStream:
    __slots__ = ("_chunked", "_transport", "_writer")

    def __init__(self, writer: StreamWriter) -> None:
        if writer.transport is None:
            raise ConnectionResetError("The client is gone.")
        writer.send_headers()
        self._writer = writer
        self._transport = writer.transport
        self._chunked = writer.chunked

    def write(self, events: Sequence[bytes]) -> bool:
        transport = self._transport
        if transport.is_closing():
            return False
        data = events[0] if len(events) == 1 else b"".join(events)
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        return transport.get_write_buffer_size() > HIGH_WATER

    async def drain(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()


@asynccontextmanager
async def open_messages(request: web.Request, socket: Socket) -> AsyncIterator["FastMessageStream"]:
    yield FastMessageStream(socket, await socket.prepare(request))


class FastMessageStream:
    def __init__(self, socket: Socket, writer: AbstractStreamWriter) -> None:
        assert isinstance(writer, StreamWriter)
        if writer.transport is None:
            raise ConnectionResetError("The client is gone.")
        self._socket = socket
        self._writer = writer
        self._transport = writer.transport
        self._ended = False

    def write(self, events: Sequence[bytes]) -> bool:
        transport = self._transport
        # Nothing may follow the last message, nor the frame that closes.
        if self._ended or transport.is_closing() or self._socket.closed:
            return False
        transport.write(b"".join([piece for event in events for piece in (_text_head(len(event)), event)]))
        return transport.get_write_buffer_size() > HIGH_WATER

    def end(self) -> None:
        self._ended = True

    async def drain(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()


def _text_head(size: int) -> bytes:
    """RFC 6455, 5.2: a final text frame, not masked."""
    if size < 126:
        return bytes((TEXT_FRAME, size))
    if size < 1 << 16:
        return bytes((TEXT_FRAME, 126)) + size.to_bytes(2, "big")
    return bytes((TEXT_FRAME, 127)) + size.to_bytes(8, "big")
