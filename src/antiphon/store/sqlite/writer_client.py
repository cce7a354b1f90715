"""The worker's side of the process that writes for several workers."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.protocol import IdTaken
from antiphon.store.records import Item, Record
from antiphon.store.sqlite.connections import LOST, FileLost
from antiphon.store.sqlite.writer_messages import FORMAT, Hello, Messages, Put, Result, Written, encode

# Seconds for which a put waits for a writer that is gone, before the worker writes it itself.
AWAY_WITHIN = 2.0
# Seconds before the next attempt to connect, where there is no socket any more, or a writer that cannot be used.
RETRY_AFTER = 1.0
# The most bytes that are sent and not answered. One put may be larger.
MOST_BYTES = 8 * 1024 * 1024


class Unanswered(NamedTuple):
    """A put, and the future of its caller: whether it was done, or an error."""

    record: Record
    items: tuple[Item, ...] | None
    now: float
    # When the caller gives it up, by the monotonic clock.
    until: float
    answer: asyncio.Future[Any]
    # It was sent to a writer that is gone.
    again: bool = False


class WriterClient:
    """Sends puts to the writer. When it goes away they wait for the next one, for a short time. Those that have waited for that
    long are given to `write_here`, and so are those that come until it is there: at the beginning, too."""

    def __init__(
        self, path: str, database: str, write_here: Callable[[Sequence[Unanswered]], None], *, away_within: float = AWAY_WITHIN
    ) -> None:
        """`path`: of its socket. `database`: of the file that it must write to."""
        self._path = path
        self._database = database
        self._write_here = write_here
        self._away_within = away_within
        self._loop = asyncio.get_running_loop()
        self._connection: WriterConnection | None = None
        # Its time is over when the puts that wait are written here.
        self._away: asyncio.TimerHandle | None = None
        # What is not sent yet, and what is not answered yet, by its number, with its size.
        self._unsent: list[Unanswered] = []
        self._sent: dict[int, tuple[Unanswered, int]] = {}
        self._sent_bytes = 0
        self._number = 0
        self._connecting = asyncio.create_task(self._stay_connected())

    @property
    def is_used(self) -> bool:
        """Whether it takes puts. Otherwise they are written here."""
        return self._connection is not None or self._away is not None

    def put(self, unanswered: Unanswered) -> None:
        if not self._unsent:
            # What others put in this turn of the loop is sent with it.
            self._loop.call_soon(self._send)
        self._unsent.append(unanswered)

    async def close(self) -> None:
        """Waits for the answers. Each comes, or is given up by its caller."""
        self._send()
        while waiting := [each.answer for each in self._all() if not each.answer.done()]:
            await asyncio.wait(waiting)
        self._connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._connecting
        if self._away is not None:
            self._away.cancel()
        if self._connection is not None:
            self._connection.close()

    def check(self) -> None:
        """Called when a put has failed. A writer that did not answer one in time has stopped: the next one may be better."""
        if self._connection is not None and any(each.answer.done() for each, _ in self._sent.values()):
            self._connection.close()

    def _all(self) -> list[Unanswered]:
        return [*(each for each, _ in self._sent.values()), *self._unsent]

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        while True:
            connection = await self._connect()
            if connection is not None:
                self._begin(connection)
                await connection.ended
                self._end()
                continue
            if self._away is not None:
                self._away.cancel()
                self._stop_waiting()
            await asyncio.sleep(RETRY_AFTER)

    async def _connect(self) -> "WriterConnection | None":
        """None: there is no writer, or not one for this file and this version of the program."""
        connection = WriterConnection(self)
        try:
            await self._loop.create_unix_connection(lambda: connection, self._path)
            # The supervisor keeps the socket open: while there is no writer, the connection waits for the next one.
            hello = await connection.hello
        except OSError:
            return None
        except asyncio.CancelledError:
            connection.close()
            raise
        if hello == Hello(FORMAT, self._database):
            return connection
        connection.close()
        return None

    def _begin(self, connection: "WriterConnection") -> None:
        self._connection = connection
        if self._away is not None:
            self._away.cancel()
            self._away = None
        self._send()

    def _end(self) -> None:
        self._connection = None
        self._unsent = [*(each._replace(again=True) for each, _ in self._sent.values()), *self._unsent]
        self._sent.clear()
        self._sent_bytes = 0
        self._away = self._loop.call_later(self._away_within, self._stop_waiting)

    def _stop_waiting(self) -> None:
        log("store writer is away", level=logging.WARNING, waiting=len(self._unsent))
        self._away = None
        self._send()

    # ---- puts --------------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        unsent = [each for each in self._unsent if not each.answer.done()]
        self._unsent = []
        if not self.is_used:
            self._write_here(unsent)
        elif self._connection is None:
            self._unsent = unsent
        else:
            self._connection.write(b"".join(self._to_send(unsent)))

    def _to_send(self, unsent: list[Unanswered]) -> list[bytes]:
        """As much as may be sent now. The rest is sent when some of it is answered."""
        encoded = []
        for place, each in enumerate(unsent):
            if self._sent_bytes > MOST_BYTES:
                self._unsent = unsent[place:]
                break
            self._number += 1
            message = encode(Put(self._number, each.record, each.items, each.now, each.until, each.again))
            self._sent[self._number] = each, len(message)
            self._sent_bytes += len(message)
            encoded.append(message)
        return encoded

    def answered(self, written: Written) -> None:
        put, size = self._sent.pop(written.number)
        self._sent_bytes -= size
        if put.answer.done():
            return
        if written.result in ("done", "refused"):
            put.answer.set_result(written.result == "done")
        else:
            put.answer.set_exception(_error(put.record.id, written.result))

    def continue_sending(self) -> None:
        if self._unsent and self._sent_bytes <= MOST_BYTES:
            self._send()


def _error(id: str, result: Result) -> Exception:
    match result:
        case "taken":
            return IdTaken(id)
        case "lost":
            return FileLost(LOST)
    return StoreUnavailable()


class WriterConnection(asyncio.Protocol):
    def __init__(self, client: WriterClient) -> None:
        loop = asyncio.get_running_loop()
        # None: it ended before that.
        self.hello: asyncio.Future[Hello | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._client = client
        self._messages: Messages[Hello | list[Written]] = Messages(Hello | list[Written])
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for message in self._messages.feed(data):
            if isinstance(message, Hello):
                self.hello.set_result(message)
            else:
                for written in message:
                    self._client.answered(written)
        self._client.continue_sending()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.hello.done():
            self.hello.set_result(None)
        if not self.ended.done():
            self.ended.set_result(None)

    def write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            # Nothing that it has not sent yet is of use to anybody.
            self._transport.abort()
