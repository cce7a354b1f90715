"""What both transports offer, and writes to sockets that are made together."""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import aiohttp
from aiohttp import web
from msgspec import Struct

from antiphon.transport.connections import EngineConnector, WrapServer
from antiphon.transport.websocket import Socket

# Above this many buffered bytes the engine should pause. It is asyncio's own limit for a socket.
HIGH_WATER = 64 * 1024
# Seconds that an idle connection to an engine is kept.
IDLE_LIMIT = 60.0
# Of every request to an engine. Compressing a stream of deltas costs more than it saves, and delays them.
REQUEST_HEADERS: Mapping[str, str] = {"User-Agent": "antiphon", "Accept-Encoding": "identity"}


class Receiver(Protocol):
    """Takes the body of an engine's answer. Neither method may raise."""

    def receive(self, data: bytes) -> None: ...
    def ended(self, error: BaseException | None) -> None:
        """Called once: the body is complete, or the connection is lost or closed."""


class NotHttp(aiohttp.ClientPayloadError):
    """What was sent, or the rest of it, is not HTTP."""

    def __init__(self) -> None:
        super().__init__("The answer is not HTTP.")


class NotReachable(aiohttp.ClientConnectionError):
    """No connection can be made."""


class Stale(aiohttp.ServerDisconnectedError):
    """A connection that was kept from an earlier request was lost before a byte of the answer came: most likely the engine had
    closed it before it got this request."""


class NoReceiver:
    """Takes the place of a receiver that has been called for the last time."""

    def receive(self, data: bytes) -> None: ...
    def ended(self, error: BaseException | None) -> None: ...


NO_RECEIVER = NoReceiver()


class Body(Protocol):
    """The body of one engine answer."""

    def push(self, receiver: Receiver) -> None:
        """From here on the body goes to the receiver, beginning with what has arrived already."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def close(self) -> None:
        """Closes the connection, which ends the engine's work. A body that has not ended yet ends with an error."""

    def release(self, within: float) -> bool:
        """Nobody reads the rest. Keeps the connection for the next request if the body ends within so many seconds, and closes
        it otherwise. False: the caller has to await `finish()` for that."""

    async def finish(self, within: float) -> None:
        """Does the same, and waits for it."""


class Answer(Body, Protocol):
    """The answer to a request: its head, and the body that is still to be pushed."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Looked up in any case."""

    def discard(self) -> None:
        """Closes the connection, also where the body is at its end, or seems to be: what may still come of it would be read as
        the beginning of the next answer."""


class EndpointOptions(NamedTuple):
    # http or https.
    url: str
    # Of every request. A `Host` among them takes the place of the URL's.
    headers: Mapping[str, str]
    # Seconds to connect, and from a request to the end of its answer's head.
    connect_timeout: float
    first_byte_timeout: float
    # For https: whom the certificate is for. None: the host of the URL.
    server_name: str | None = None
    # Whose certificates are trusted. None: those that the system trusts.
    ssl_context: ssl.SSLContext | None = None
    # Seconds after which a connection that is not used is closed.
    idle_limit: float = IDLE_LIMIT


class Endpoint(Protocol):
    """One URL of an engine, to which requests are posted."""

    async def post(self, body: bytes, headers: Mapping[str, str], *, keep: bool = True) -> Answer:
        """Sends a request, and waits for the head of its answer. `headers`: beside those of every request. `keep`: whether the
        connection may be used again. Raises aiohttp's errors, OSError, and ValueError for headers that cannot be sent."""


class EventStream(Protocol):
    """The client's side of a stream of server-sent events. One event is never split over two HTTP chunks."""

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool:
        """At least one event. `last`: nothing follows them. True: more is buffered than the client reads, and the engine should
        pause until `drain()` returns. Never raises for a client that is gone: its handler is cancelled in a moment."""

    def write_event(self, event: bytes) -> bool:
        """The same for one event that is not the last: what most writes are."""

    async def drain(self) -> None: ...


class MessageStream(Protocol):
    """The client's side of a WebSocket: each event is one text message. Otherwise like an EventStream."""

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool: ...
    def write_event(self, event: bytes) -> bool: ...
    async def drain(self) -> None: ...

    def end(self) -> None:
        """Later writes are ignored: nothing may follow the last message."""


class Transport(Struct, frozen=True):
    """One implementation. The streams are context managers: leaving one sends what is left, or drops it after an error."""

    name: str
    connector: type[EngineConnector]
    open_endpoint: Callable[[aiohttp.ClientSession, EndpointOptions], Endpoint]
    open_events: Callable[[web.Request, web.StreamResponse], AbstractAsyncContextManager[EventStream]]
    open_messages: Callable[[web.Request, Socket], AbstractAsyncContextManager[MessageStream]]
    wrap_server: WrapServer


class Writer(Protocol):
    def flush(self) -> None: ...


class WriteBatch:
    """Those that have something to write. They write together, once every socket that was ready has been read, and what was
    waiting for that has gone on.

    A write wakes the process that reads it, which costs more than the write itself. Writes that follow one another at once
    wake it once, and several reads of one stream become one write.
    """

    __slots__ = ("_loop", "writers")

    def __init__(self) -> None:
        # Known from its first use: to ask for it takes a system call in Python 3.11.
        self._loop: asyncio.AbstractEventLoop | None = None
        # To add one: `append`, and `begin` if it is the first.
        self.writers: list[Writer] = []

    def begin(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._flush)

    def add(self, writer: Writer) -> None:
        if not self.writers:
            if self._loop is not None:
                self._loop.call_soon(self._flush)
            else:
                self.begin()
        self.writers.append(writer)

    def _flush(self) -> None:
        writers, self.writers = self.writers, []
        for writer in writers:
            writer.flush()
