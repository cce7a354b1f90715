"""What both transports offer."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from aiohttp import web

from antiphon.transport.websocket import Socket

# Above this many buffered bytes the engine should pause. It is asyncio's own limit for a socket.
HIGH_WATER = 64 * 1024


class Receiver(Protocol):
    """Takes the body of an engine's answer. Neither method may raise."""

    def receive(self, data: bytes) -> None: ...
    def ended(self, error: BaseException | None) -> None:
        """Called once: the body is complete, or the connection is lost or closed."""


class NotHttp(aiohttp.ClientPayloadError):
    """The middle of a body is not HTTP. aiohttp closes such a connection, and forgets those who wait for its body."""

    def __init__(self) -> None:
        super().__init__("The body is not HTTP.")


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

    def release(self) -> bool:
        """Keeps the connection for the next request if the body has ended; false if it has not."""

    async def finish(self, within: float) -> None:
        """Keeps the connection for the next request if the body ends within so many seconds. Closes it otherwise."""


class EventStream(Protocol):
    """The client's side of a stream of server-sent events. One event is never split over two HTTP chunks."""

    def write(self, events: Sequence[bytes]) -> bool:
        """At least one event. True: more is buffered than the client reads, and the engine should pause until `drain()`
        returns. Never raises for a client that is gone: its handler is cancelled in a moment.
        """

    async def drain(self) -> None: ...


class MessageStream(Protocol):
    """The client's side of a WebSocket: each event is one text message. `write` and `drain` are those of an EventStream."""

    def write(self, events: Sequence[bytes]) -> bool: ...
    async def drain(self) -> None: ...

    def end(self) -> None:
        """Later writes are ignored: nothing may follow the last message."""


@dataclass(frozen=True, slots=True)
class Transport:
    """One implementation. The streams are context managers: leaving one sends what is left, or drops it after an error."""

    name: str
    connector: type[aiohttp.TCPConnector]
    open_body: Callable[[aiohttp.ClientResponse], Body]
    open_events: Callable[[web.Request, web.StreamResponse], AbstractAsyncContextManager[EventStream]]
    open_messages: Callable[[web.Request, Socket], AbstractAsyncContextManager[MessageStream]]
