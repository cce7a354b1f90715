"""An engine's body pushed to its receiver, instead of pulled by a task that sleeps and wakes for every piece.

At a thousand streams the waking is most of what a delta costs. aiohttp has no public way to push a client's body, but its
parser only knows the reader's `feed_data`: a reader of our class, put in place of its own, hands each piece on at once. And
where one read is exactly one HTTP chunk, as nearly every delta's is, the parser has nothing to find out, and is passed by.
"""

import asyncio
import functools
from contextlib import suppress
from typing import Any, ClassVar

import aiohttp
from aiohttp import StreamReader
from aiohttp.client_proto import ResponseHandler

from antiphon.transport.interfaces import NO_RECEIVER, NotHttp, Receiver, Transport

# The hexadecimal size of a chunk and its line end take at most so many bytes.
LONGEST_SIZE = 10


class PushingConnection(ResponseHandler):
    """A connection that can skip its parser while that is between two chunks of a pushed body."""

    between: Receiver | None = None

    def data_received(self, data: bytes) -> None:
        receiver = self.between
        if receiver is not None:
            end = data.find(b"\r\n", 0, LONGEST_SIZE)
            size = data[:end]
            try:
                is_one_chunk = size.isalnum() and data.endswith(b"\r\n") and int(size, 16) == len(data) - end - 4 > 0
            except ValueError:
                # Not a size: the parser reports it.
                is_one_chunk = False
            if is_one_chunk:
                receiver.receive(data[end + 2 : -2])
                return
            self.between = None
        super().data_received(data)
        if isinstance(self._payload, PushingReader) and not self._reading_paused and self.exception() is None:
            # A parser that was paused between two chunks notices it in the next one, and keeps back what follows. aiohttp's own
            # reader would ask for that when it is read from; nobody reads from a pushed one.
            super().data_received(b"")
        if self.exception() is not None:
            self._fail_body()
        # A piece of the next chunk's size may have been read already.
        if self.between is not None and not data.endswith(b"\r\n"):
            self.between = None

    def _fail_body(self) -> None:
        """aiohttp has given the connection up."""
        body = self._payload
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(NotHttp())

    def connection_lost(self, exc: BaseException | None) -> None:
        self.between = None
        super().connection_lost(exc)


class PushingConnector(aiohttp.TCPConnector):
    """Makes such connections. aiohttp has no option for it."""

    # Sessions know their transport by their connector.
    transport: ClassVar[Transport]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = functools.partial(PushingConnection, loop=self._loop)  # type: ignore[assignment]


class PushingReader(StreamReader):
    __slots__ = ()

    # The layout must stay StreamReader's, so there is no slot of our own; this one is only read by `readchunk()`.
    @property
    def receiver(self) -> Any:
        return self._http_chunk_splits

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        self.receiver.receive(data)
        return False

    def begin_http_chunk_receiving(self) -> None:
        self._protocol.between = None  # type: ignore[attr-defined]

    def end_http_chunk_receiving(self) -> None:
        self._protocol.between = self.receiver  # type: ignore[attr-defined]

    def feed_eof(self) -> None:
        self._protocol.between = None  # type: ignore[attr-defined]
        super().feed_eof()
        self._let_go(None)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        self._let_go(exc)

    def _let_go(self, error: BaseException | None) -> None:
        """A connection keeps its last body until it has another, and a receiver refers to all that its request was made of."""
        receiver, self._http_chunk_splits = self.receiver, NO_RECEIVER  # type: ignore[assignment]
        receiver.ended(error)


class PushingDecompressedReader(PushingReader):
    """What it is fed has been decompressed on the way: its chunks cannot be taken straight from the socket."""

    __slots__ = ()

    def end_http_chunk_receiving(self) -> None:
        self._protocol.between = None  # type: ignore[attr-defined]


class PushedBody:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def push(self, receiver: Receiver) -> None:
        push(self._answer.content, receiver, compressed="Content-Encoding" in self._answer.headers)

    def pause(self) -> None:
        if (connection := self._open_connection) is not None:
            connection.pause_reading()

    def resume(self) -> None:
        if (connection := self._open_connection) is not None:
            connection.resume_reading()

    @property
    def _open_connection(self) -> ResponseHandler | None:
        """None: it was given back, or is lost. One that is lost has no parser left that could be paused."""
        connection = self._answer.connection
        protocol = connection.protocol if connection is not None else None
        return protocol if protocol is not None and protocol.connected else None

    def close(self) -> None:
        self._answer.close()

    def release(self) -> bool:
        ended = self._answer.content.is_eof()
        if ended:
            self._answer.release()
        return ended

    async def finish(self, within: float) -> None:
        try:
            with suppress(TimeoutError, aiohttp.ClientError):
                async with asyncio.timeout(within):
                    await self._answer.content.wait_eof()
        finally:
            if not self.release():
                self._answer.close()


def push(body: StreamReader, receiver: Receiver, *, compressed: bool = False) -> None:
    error = body.exception()
    arrived = []
    # Reading what has arrived lets in more that aiohttp kept back, into a buffer that is not read again.
    while error is None and not body.at_eof() and (piece := body.read_nowait(-1)):
        arrived.append(piece)
        error = body.exception()
    # An answer without a body has a reader that all such answers share.
    pushed = type(body) is StreamReader and not body.is_eof() and error is None
    if pushed:
        body._http_chunk_splits = receiver  # type: ignore[assignment]
        body.__class__ = PushingDecompressedReader if compressed else PushingReader
    if arrived:
        receiver.receive(b"".join(arrived))
    if not pushed:
        receiver.ended(error)
