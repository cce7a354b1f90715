"""Events written to a client's socket at once."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from msgspec import Struct

from antiphon.transport.interfaces import HIGH_WATER
from antiphon.transport.internals import DirectRequest, StreamWriter, prepare, take_end, take_head
from antiphon.transport.websocket import Socket

TEXT_FRAME = 0x81


class open_events(Struct, eq=False):
    """A stream of events as the body of a response."""

    _request: web.Request
    _response: web.StreamResponse

    async def __aenter__(self) -> "FastEventStream":
        request, response = self._request, self._response
        if isinstance(request, DirectRequest):
            return FastEventStream(await prepare(request, response))
        writer = await response.prepare(request)
        assert isinstance(writer, StreamWriter)
        return FastEventStream(writer)

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            await self._response.write_eof()
        elif isinstance(self._request, DirectRequest):
            # The head may still wait for the first events. What follows the error expects it to be sent.
            with suppress(ConnectionError):
                self._request.writer.send_headers()


def _descriptor(transport: asyncio.BaseTransport) -> int | None:
    """Of a socket that can be written to directly. None: only its transport knows how, as it is with TLS."""
    # Other loops send at once what is written, so there would be nothing to gain.
    if not type(transport).__module__.startswith("uvloop.") or transport.get_extra_info("sslcontext") is not None:
        return None
    socket = transport.get_extra_info("socket")
    return None if socket is None else int(socket.fileno())


class FastEventStream:
    """uvloop queues what is written, and sends it at the end of the loop's turn. Here that is now anyway: what writes has
    waited for it (`WriteBatch`). While nothing is queued, the events go straight to the socket, which takes 1.5 µs less."""

    __slots__ = ("_begun", "_chunked", "_descriptor", "_direct", "_transport", "_writer")

    def __init__(self, writer: StreamWriter) -> None:
        if writer.transport is None:
            raise ConnectionResetError("The client is gone.")
        self._writer = writer
        self._transport = writer.transport
        self._chunked = writer.chunked
        self._descriptor = _descriptor(writer.transport)
        # The same one, once the head is sent, for as long as the transport has nothing queued.
        self._direct: int | None = None
        self._begun = False

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool:
        if self._transport.is_closing():
            return False
        data = events[0] if len(events) == 1 else b"".join(events)
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        # The head is sent with the first events, and the end of the body with the last ones: each write wakes the client.
        if not self._begun:
            self._begun = True
            data = take_head(self._writer) + data
        if last:
            data += take_end(self._writer)
        if self._descriptor is None or self._transport.get_write_buffer_size():
            return self._queue(data)
        self._direct = self._descriptor
        try:
            sent = os.write(self._descriptor, data)
        except OSError:
            # It is full, or broken: the transport finds that out itself, and knows what to do.
            sent = 0
        return sent < len(data) and self._queue(data[sent:])

    def write_event(self, event: bytes) -> bool:
        descriptor = self._direct
        if descriptor is None or not self._chunked:
            return self.write((event,))
        if self._transport.is_closing():
            return False
        data = b"%x\r\n%b\r\n" % (len(event), event)
        try:
            # As above.
            sent = os.write(descriptor, data)
        except OSError:
            sent = 0
        return sent < len(data) and self._queue(data[sent:])

    def _queue(self, data: bytes) -> bool:
        self._direct = None
        self._transport.write(data)
        return self._transport.get_write_buffer_size() > HIGH_WATER

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

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool:
        transport = self._transport
        # Nothing may follow the last message, nor the frame that closes.
        if self._ended or transport.is_closing() or self._socket.closed:
            return False
        transport.write(b"".join([piece for event in events for piece in (_text_head(len(event)), event)]))
        return transport.get_write_buffer_size() > HIGH_WATER

    def write_event(self, event: bytes) -> bool:
        return self.write((event,))

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
