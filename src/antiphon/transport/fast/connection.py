"""One connection to an engine, and the answer that comes over it.

A body is pushed to its receiver as it comes from the socket. No task is woken for a piece of it, and no timer runs but for the
head of an answer.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import aiohttp
from msgspec import Struct

from antiphon.transport.fast.answers import Framing, Head, find_head_end, read_head
from antiphon.transport.fast.decompression import Decompression
from antiphon.transport.interfaces import HIGH_WATER, NO_RECEIVER, NotHttp, Receiver, Stale, WriteBatch

CLOSED = "The connection was closed."


def _size_line(length: int) -> bytes:
    """How a chunk begins whose size, data and line ends take so many bytes. None begins so if there is no such chunk."""
    for digits in range(1, 8):
        size = length - digits - 4
        if size > 0 and len(line := b"%x" % size) == digits:
            return line + b"\r\n"
    return b"\r\n"


class Usual(NamedTuple):
    """A chunk that comes alone in one read: how it begins, where that is, and where its data is."""

    size_line: bytes
    size_at: slice
    data_at: slice


# Nearly every delta comes as one chunk in one read. The length of the read says how that chunk has to begin, so it is compared
# and not parsed: with that, a delta takes 0.9 µs from the socket to its receiver, in place of 2.7.
LONGEST_USUAL = 1024
_PLACES = [(slice(length), slice(length, -2)) for length in range(len(_size_line(LONGEST_USUAL)) + 1)]
USUAL = [Usual(line, *_PLACES[len(line)]) for line in map(_size_line, range(LONGEST_USUAL))]
LINE_END, LINE_END_AT = b"\r\n", slice(-2, None)


class Connections(Protocol):
    """To one endpoint."""

    batch: WriteBatch

    def opened(self, connection: "EngineConnection") -> None: ...
    def lost(self, connection: "EngineConnection") -> None: ...

    def keep(self, connection: "EngineConnection") -> None:
        """It may be used again."""


class EngineConnection(asyncio.Protocol):
    """It is idle, or waits for the head of an answer (`_waiter`), or receives its body (`_framing`)."""

    __slots__ = (
        "_answer",
        "_between",
        "_connections",
        "_framing",
        "_keep",
        "_receiver",
        "_timer",
        "_unread",
        "_unsent",
        "_used",
        "_waiter",
        "idle_since",
        "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiter: asyncio.Future[PushedAnswer] | None = None
        # The request, until it is written.
        self._unsent: Sequence[bytes] = ()
        # For as long as it waits, or for the rest of a body that nobody reads.
        self._timer: asyncio.TimerHandle | None = None
        # The beginning of a head.
        self._unread = b""
        self._framing: Framing | None = None
        # The answer whose body is being received, and who receives it.
        self._answer: PushedAnswer | None = None
        self._receiver: Receiver = NO_RECEIVER
        # The same one, while a chunk may come next.
        self._between: Receiver | None = None
        # After this answer.
        self._keep = False
        # An earlier request was answered, and nothing has come since.
        self._used = False
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    # ---- asking ------------------------------------------------------------------------------------------------------

    def ask(self, request: Sequence[bytes], within: float, *, keep: bool) -> "asyncio.Future[PushedAnswer]":
        """Sends a request, together with others (`WriteBatch`). Who awaits its answer, and is cancelled, calls `give_up()`."""
        loop = asyncio.get_running_loop()
        self._keep = keep
        self._waiter = waiter = loop.create_future()
        self._timer = loop.call_later(within, self._fail, TimeoutError())
        self._unsent = request
        self._connections.batch.add(self)
        return waiter

    def flush(self) -> None:
        request, self._unsent = self._unsent, ()
        if self._waiter is not None and not self.transport.is_closing():
            self.transport.writelines(request)

    def give_up(self, waiter: "asyncio.Future[PushedAnswer]") -> None:
        if self._waiter is waiter:
            self.close()
        elif not waiter.cancelled() and waiter.exception() is None:
            # It came at the same time. The connection may be used by another request already, if the body ended with it.
            waiter.result().close()

    # ---- what the event loop calls -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._connections.opened(self)

    def data_received(self, data: bytes) -> None:
        receiver = self._between
        if receiver is not None and (size := len(data)) < LONGEST_USUAL:
            size_line, size_at, data_at = USUAL[size]
            if data[size_at] == size_line and data[LINE_END_AT] == LINE_END:
                receiver.receive(data[data_at])
                return
        if self._framing is not None:
            self._feed(self._framing, data)
        elif self._waiter is not None:
            self._read_head(self._waiter, data)
        else:
            # Nobody has asked.
            self.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.lost(self)
        if self._framing is not None:
            is_cut = exc is not None or not self._framing.ends_with_connection
            self._end(aiohttp.ClientPayloadError("The body is not complete.") if is_cut else None)
        elif self._waiter is not None:
            self._fail(self._lost_before_answer(exc))

    def _lost_before_answer(self, exc: BaseException | None) -> Exception:
        if self._used:
            return Stale()
        return aiohttp.ServerDisconnectedError() if exc is None else aiohttp.ClientOSError(*exc.args)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _read_head(self, waiter: "asyncio.Future[PushedAnswer]", data: bytes) -> None:
        self._used = False
        known = len(self._unread)
        data = self._unread + data
        try:
            # An answer may have others before it, such as 100 Continue.
            while (end := find_head_end(data, max(0, known - 3))) is not None:
                head = read_head(data[:end])
                data, known = data[end:], 0
                if head.is_final:
                    self._unread = b""
                    self._begin_body(waiter, head, data)
                    return
            self._unread = data
        except NotHttp as error:
            self._fail(error)

    def _begin_body(self, waiter: "asyncio.Future[PushedAnswer]", head: Head, data: bytes) -> None:
        if head.length is not None and len(data) > head.length:
            # What is too much belongs to no answer.
            raise NotHttp
        if waiter.done():
            # Cancelled.
            self.close()
            return
        answer = PushedAnswer(head.status, head.headers, self, self)
        receiver: Receiver = answer
        if head.compression is not None:
            receiver = answer.decompression = Decompression(answer, head.compression)
        self._answer, self._receiver, self._waiter = answer, receiver, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._keep = self._keep and head.keeps_alive
        self._framing = head.framing()
        waiter.set_result(answer)
        if self._framing.ended:
            self._end(None)
        else:
            self._feed(self._framing, data)

    def _feed(self, framing: Framing, data: bytes) -> None:
        receiver = self._receiver
        if content := framing.feed(data):
            receiver.receive(content)
        if self._framing is not framing:
            # Its receiver has closed it.
            return
        if framing.ended:
            self._keep = self._keep and not framing.rest
            self._end(None)
        elif framing.error is not None:
            self._keep = False
            self._end(framing.error)
        else:
            self._between = self._receiver if framing.between_chunks else None

    def push_to(self, receiver: Receiver) -> None:
        """From now on."""
        self._receiver = receiver
        if self._between is not None:
            self._between = receiver

    # ---- ends --------------------------------------------------------------------------------------------------------

    def _end(self, error: BaseException | None) -> None:
        """Of the body. An idle connection refers to nothing of it."""
        self._framing = self._between = None
        if self._timer is not None:
            self._stop_timer()
        receiver, self._receiver = self._receiver, NO_RECEIVER
        answer, self._answer = self._answer, None
        # What is left to write belongs to a request that was answered before it was read.
        is_written = not self._unsent and not self.transport.get_write_buffer_size()
        if error is None and self._keep and not self.transport.is_closing() and is_written:
            self._used = True
            self.transport.resume_reading()
            self._connections.keep(self)
        else:
            self.transport.abort()
        if answer is not None:
            answer.leave()
        receiver.ended(error)

    def _fail(self, error: Exception) -> None:
        """No answer comes."""
        waiter = self._waiter
        self._stop_waiting()
        self.transport.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _stop_waiting(self) -> None:
        self._waiter = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close_after(self, seconds: float) -> None:
        """Unless the body ends before."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.close)

    def close(self) -> None:
        """At once. A body that has not ended ends with an error."""
        if self._framing is not None:
            self._end(aiohttp.ClientConnectionError(CLOSED))
        else:
            self._fail(aiohttp.ClientConnectionError(CLOSED))

    def close_if_idle(self) -> None:
        if self._framing is None and self._waiter is None:
            self.close()

    # ---- the flow ----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        if self.is_open:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.is_open:
            self.transport.resume_reading()


class PushedAnswer(Struct, eq=False):
    """An answer, from its head to the end of its body. Until the body is pushed to a receiver, it is received here."""

    status: int
    headers: Mapping[str, str]
    _former: EngineConnection
    # The same one until the end of the body: others use it after that.
    _connection: EngineConnection | None
    # Between the connection and who receives the body.
    decompression: Decompression | None = None
    # Done when it has left the connection.
    _left: asyncio.Future[None] | None = None
    # What came before it was pushed: its beginning, and its end.
    _arrived: list[bytes] = []
    _end: tuple[BaseException | None] | None = None

    def leave(self) -> None:
        """The connection has no more for it."""
        self._connection = None
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    # ---- before it is pushed -----------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self._arrived.append(data)
        if sum(map(len, self._arrived)) > HIGH_WATER:
            self.pause()

    def ended(self, error: BaseException | None) -> None:
        self._end = (error,)

    # ---- what its reader calls ---------------------------------------------------------------------------------------

    def push(self, receiver: Receiver) -> None:
        arrived, self._arrived = self._arrived, []
        if self._end is None:
            if self.decompression is not None:
                self.decompression.receiver = receiver
            elif self._connection is not None:
                self._connection.push_to(receiver)
        if arrived:
            receiver.receive(b"".join(arrived))
        if self._end is None:
            self.resume()
        else:
            receiver.ended(self._end[0])

    def pause(self) -> None:
        if self.decompression is not None:
            self.decompression.pause()
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()
        if self.decompression is not None:
            self.decompression.resume()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self.decompression is not None:
            self.decompression.close(aiohttp.ClientConnectionError(CLOSED))

    def discard(self) -> None:
        self.close()
        self._former.close_if_idle()

    def release(self, within: float) -> bool:
        if self._connection is not None or self.decompression is not None:
            # An engine often sends the last chunk by itself, a moment after the last delta. No task has to wait for that.
            self.push(NO_RECEIVER)
            if self._connection is not None:
                self._connection.close_after(within)
        return True

    async def finish(self, within: float) -> None:
        if self._connection is not None:
            self._left = asyncio.get_running_loop().create_future()
            self._connection.close_after(within)
            try:
                await self._left
            finally:
                self.close()
