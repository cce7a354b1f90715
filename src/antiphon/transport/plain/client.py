"""An engine's body, pulled by a task and passed on piece by piece."""

import asyncio
import math
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import aiohttp

from antiphon.transport.connections import CLOSE_CONNECTION
from antiphon.transport.interfaces import NO_RECEIVER, EndpointOptions, NotHttp, Receiver

# Seconds without a byte after which it is looked whether there is a connection at all.
LOOK_INTERVAL = 0.5


class PieceReader:
    """Reads a body piece by piece. One timer watches all waits: one for each piece would cost more than the reading itself.

    A connection that stays closed has no more to give, which is NotHttp.
    """

    __slots__ = ("_answer", "_began", "_error", "_loop", "_timer", "_waits", "_was_closed", "_within")

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waits = False
        # Why the answer was closed here.
        self._error: Exception | None = None
        # Of the wait that goes on: when it began, how long it may take, and whether the connection was closed at the last look.
        self._began, self._within, self._was_closed = 0.0, math.inf, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def next(self, within: float = math.inf) -> bytes:
        """The next piece, b"" at the end. Raises TimeoutError if nothing comes within so many seconds."""
        content = self._answer.content
        if content.is_eof():
            # All of it has come, as of most whole answers.
            return await content.readany()
        self._began, self._within, self._was_closed = self._loop.time(), within, False
        if self._timer is None or within < LOOK_INTERVAL:
            self._look_in(min(LOOK_INTERVAL, within))
        self._waits = True
        try:
            return await content.readany()
        except aiohttp.ClientError:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            self._waits = False

    def _look_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waits:
            # The next wait begins with a timer.
            return
        now = self._loop.time()
        until = self._began + self._within
        if now >= until:
            self._give_up(TimeoutError())
            return
        waits_until = self._began + LOOK_INTERVAL
        if now >= waits_until:
            is_closed = self._answer.connection is not None and self._answer.connection.closed
            if self._was_closed and is_closed:
                self._give_up(NotHttp())
                return
            self._was_closed, waits_until = is_closed, now + LOOK_INTERVAL
        self._look_in(min(waits_until, until) - now)

    def _give_up(self, error: Exception) -> None:
        """Ends the wait with this error. A later read from the closed answer raises one, too."""
        self._error = error
        self._answer.close()


class PulledAnswer:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._answer = answer
        self._receiver: Receiver = NO_RECEIVER
        self._pulling: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._wanted.set()

    def push(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._pulling = asyncio.create_task(self._pull())
        self._pulling.add_done_callback(self._pulled)

    def pause(self) -> None:
        # What arrives now stays in aiohttp's buffer; when that is full, aiohttp stops reading from the socket.
        self._wanted.clear()

    def resume(self) -> None:
        self._wanted.set()

    def close(self) -> None:
        self._answer.close()
        if self._pulling is not None:
            self._pulling.cancel()
        self._end(aiohttp.ClientConnectionError("The connection was closed."))

    def discard(self) -> None:
        # aiohttp keeps the connection of a body that has ended.
        self.close()

    def release(self, within: float) -> bool:
        ended = self._answer.content.at_eof()
        if ended:
            self._answer.release()
        return ended

    async def finish(self, within: float) -> None:
        try:
            if self._pulling is not None:
                await asyncio.wait({self._pulling}, timeout=within)
        finally:
            if not self.release(0):
                self.close()

    async def _pull(self) -> None:
        with PieceReader(self._answer) as pieces:
            while data := await pieces.next():
                await self._wanted.wait()
                self._receiver.receive(data)

    def _pulled(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self.close()
        else:
            self._end(task.exception())

    def _end(self, error: BaseException | None) -> None:
        """A connection may keep its last body, and a receiver all that its request was made of: they are parted here."""
        receiver, self._receiver = self._receiver, NO_RECEIVER
        receiver.ended(error)


class PlainEndpoint:
    def __init__(self, session: aiohttp.ClientSession, options: EndpointOptions) -> None:
        self._session = session
        self._options = options

    async def post(self, body: bytes, headers: Mapping[str, str], *, keep: bool = True) -> PulledAnswer:
        options = self._options
        closing = {} if keep else CLOSE_CONNECTION
        async with asyncio.timeout(options.first_byte_timeout):
            answer = await self._session.post(
                options.url,
                data=body,
                headers={**options.headers, **closing, **headers},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=options.connect_timeout),
                allow_redirects=False,
                server_hostname=options.server_name,
            )
        return PulledAnswer(answer)


def open_endpoint(session: aiohttp.ClientSession, options: EndpointOptions) -> PlainEndpoint:
    return PlainEndpoint(session, options)
