"""An engine's body, pulled by a task and passed on piece by piece."""

import asyncio
import math
from collections.abc import Mapping

import aiohttp

from antiphon.transport.connections import CLOSE_CONNECTION
from antiphon.transport.interfaces import NO_RECEIVER, EndpointOptions, NotHttp, Receiver

# Seconds without a byte after which it is looked whether there is a connection at all.
LOOK_INTERVAL = 0.5


async def next_piece(answer: aiohttp.ClientResponse, within: float = math.inf) -> bytes:
    """The next piece of a body, b"" at its end. A connection that stays closed has no more to give. Raises TimeoutError if
    nothing comes within so many seconds."""
    if answer.content.is_eof():
        # All of it has come, as of most whole answers: to wait for it would cost a timer.
        return await answer.content.readany()
    was_closed = False
    until = asyncio.get_running_loop().time() + within
    while True:
        try:
            async with asyncio.timeout(min(LOOK_INTERVAL, within)):
                return await answer.content.readany()
        except TimeoutError:
            if asyncio.get_running_loop().time() >= until:
                raise
            is_closed = answer.connection is not None and answer.connection.closed
            if was_closed and is_closed:
                raise NotHttp from None
            was_closed = is_closed


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
        while data := await next_piece(self._answer):
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
