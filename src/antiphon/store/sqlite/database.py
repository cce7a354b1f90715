"""SQLite: one thread writes and a few threads read, so that the event loop never waits for the disk."""

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.accounts import deliveries
from antiphon.store.operations import Operation, Statement
from antiphon.store.records import Item, Record
from antiphon.store.sql import sweeper
from antiphon.store.sql.schema import MIGRATIONS, Migrations
from antiphon.store.sqlite.connections import Connect, FileLost, SqliteConnections, connect
from antiphon.store.sqlite.transactions import MAX_GROUP_SIZE, Outcome, Pending, commit, run
from antiphon.store.sqlite.writer_client import Unanswered, WriterClient
from antiphon.store.sqlite.writer_messages import finish
from antiphon.store.wakeups import Wakeups

T = TypeVar("T")

READERS = 4
# How long an operation may take, with its time in the queue, in seconds.
OPERATION_TIMEOUT = 10.0
# Longer, because the size is summed over all rows. No client waits for it.
SIZE_TIMEOUT = 120.0
# An operation in the queue with the future of its caller, and what the caller gets.
WaitingOperation: TypeAlias = Pending[asyncio.Future[Any]]
OutcomeOfOperation: TypeAlias = Outcome[asyncio.Future[Any]]


class SqliteDatabase:
    def __init__(
        self,
        path: str,
        wakeups: Wakeups,
        clock: Callable[[], float],
        *,
        operation_timeout: float,
        connect: Connect,
        migrations: Migrations,
        writer: str | None = None,
    ) -> None:
        self.clock = clock
        self.wakeups = wakeups
        self.operation_timeout = operation_timeout
        self._path = Path(path).expanduser()
        self._connections = SqliteConnections(self._path, connect, migrations)
        self._writes: queue.SimpleQueue[list[WaitingOperation] | None] = queue.SimpleQueue()
        # The writes of this turn of the loop, which are handed over together.
        self._unsent: list[WaitingOperation] = []
        self._writer = threading.Thread(target=self._write_all, name="antiphon-sqlite-writer", daemon=True)
        self._readers = ThreadPoolExecutor(READERS, "antiphon-sqlite-reader")
        self._loop = asyncio.get_running_loop()
        # The socket of the process that writes for several workers.
        self._writer_path = writer
        self._client: WriterClient | None = None

    @property
    def generation(self) -> int:
        return self._connections.generation

    async def open(self) -> None:
        await asyncio.to_thread(self._connections.open)
        self._writer.start()
        if self._writer_path is not None:
            self._client = WriterClient(self._writer_path, str(self._path.absolute()), self._finish_here)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        self._hand_over()
        self._writes.put(None)
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        self._connections.close()

    async def read(self, operation: Operation[T]) -> T:
        return await self._read_within(self.operation_timeout, operation)

    async def write(self, operation: Operation[T], *, fails_first: bool = False) -> T:
        """`fails_first`: if it fails, then before its first change."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._queue(Pending(operation, answer, fails_first))
        return await self._wait_for(answer, self.operation_timeout)

    def _queue(self, pending: WaitingOperation) -> None:
        if not self._unsent:
            # What others write in this turn of the loop goes into the same transaction, and wakes the thread once.
            self._loop.call_soon(self._hand_over)
        self._unsent.append(pending)

    async def maintain(self, operation: Operation[T]) -> T:
        return await self.write(operation)

    def _hand_over(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._writes.put(unsent)

    async def put(self, record: Record) -> None:
        await self._finish(record, None)

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        return await self._finish(record, tuple(items))

    async def _finish(self, record: Record, items: tuple[Item, ...] | None) -> bool:
        # The writer puts all waiting operations into one transaction.
        if self._client is None or not self._client.is_used:
            return await self.write(finish(record, items, self.clock(), again=False), fails_first=items is None)
        answer: asyncio.Future[bool] = self._loop.create_future()
        self._client.put(Unanswered(record, items, self.clock(), time.monotonic() + self.operation_timeout, answer))
        try:
            is_done = await self._wait_for(answer, self.operation_timeout)
        except StoreUnavailable:
            self._client.check()
            raise
        if record.deliveries:
            self.wakeups.publish(deliveries.DELIVERIES)
        return is_done

    def _finish_here(self, puts: Sequence[Unanswered]) -> None:
        """The process that writes for several is away."""
        for put in puts:
            operation = finish(put.record, put.items, put.now, again=put.again)
            self._queue(Pending(operation, put.answer, fails_first=put.items is None))

    async def size(self, limit: int) -> int:
        return await self._read_within(SIZE_TIMEOUT, used_bytes(limit))

    async def check(self) -> None:
        await self.read(nothing())

    async def _read_within(self, seconds: float, operation: Operation[T]) -> T:
        try:
            return await self._submit(seconds, operation)
        except FileLost:
            # A write opens the file that is at the path now. The operation has not begun, so it can be run.
            await self.write(nothing())
            return await self._submit(seconds, operation)

    async def _submit(self, seconds: float, operation: Operation[T]) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()
        self._readers.submit(self._read, Pending(operation, answer))
        return await self._wait_for(answer, seconds)

    async def _wait_for(self, answer: asyncio.Future[T], seconds: float) -> T:
        timer = self._loop.call_later(seconds, time_out, answer)
        try:
            return await answer
        except sqlite3.Error as error:
            log("store_error", level=logging.ERROR, store="sqlite", exc_info=error)
            raise StoreUnavailable from error
        finally:
            timer.cancel()

    # --- In the threads of the readers

    def _read(self, pending: WaitingOperation) -> None:
        if pending.answer.done():
            return
        try:
            with self._connections.reader() as connection:
                outcome = Outcome(pending.answer, run(connection, pending.operation)[0])
        except Exception as error:
            outcome = Outcome(pending.answer, error=error)
        self._return_to_loop([outcome], [])

    # --- In the thread of the writer

    def _write_all(self) -> None:
        while (group := self._next_group()) is not None:
            for start in range(0, len(group), MAX_GROUP_SIZE):
                # A write whose caller has timed out must not happen.
                self._write_group([each for each in group[start : start + MAX_GROUP_SIZE] if not each.answer.done()])

    def _next_group(self) -> list[WaitingOperation] | None:
        """Wait for one write, and take all others that are in the queue by then. None: the database is closing."""
        group: list[WaitingOperation] = []
        while len(group) < MAX_GROUP_SIZE and not (group and self._writes.empty()):
            handed_over = self._writes.get()
            if handed_over is None:
                # Write this group first, and find the end of the queue again.
                self._writes.put(None)
                return group or None
            group += handed_over
        return group

    def _write_group(self, group: list[WaitingOperation]) -> None:
        topics: list[str] = []
        try:
            outcomes = commit(self._connections.writer(), group, topics)
            # Only now it is known that the commit went to the file at the path.
            self._connections.check()
        except (sqlite3.Error, StoreUnavailable) as error:
            outcomes = [Outcome(pending.answer, error=error) for pending in group]
            topics = []
        self._return_to_loop(outcomes, topics)

    # --- Back in the event loop

    def _return_to_loop(self, outcomes: list[OutcomeOfOperation], topics: list[str]) -> None:
        """Wakes the loop once for all outcomes. The loop is closed if the gateway has ended in the meantime."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, outcomes, topics)

    def _deliver(self, outcomes: list[OutcomeOfOperation], topics: list[str]) -> None:
        for answer, result, error in outcomes:
            # The caller has timed out or was cancelled.
            if answer.done():
                continue
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)
        for topic in topics:
            self.wakeups.publish(topic)


def nothing() -> Operation[None]:
    yield from ()


def used_bytes(limit: int) -> Operation[int]:
    """Free pages do not count, because SQLite uses them again before the file grows."""
    pages = yield Statement(
        "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
    )
    size: int = pages[0][0]
    if size > limit:
        total = yield Statement(sweeper.TOTAL_SIZE)
        size = min(size, total[0][0])
    return size


def time_out(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        log("store_timeout", level=logging.WARNING, store="sqlite")
        answer.set_exception(StoreUnavailable())


@contextlib.asynccontextmanager
async def open_sqlite(
    path: str,
    wakeups: Wakeups,
    clock: Callable[[], float] | None = None,
    *,
    operation_timeout: float = OPERATION_TIMEOUT,
    connect: Connect = connect,
    migrations: Migrations = MIGRATIONS,
    writer: str | None = None,
) -> AsyncIterator[SqliteDatabase]:
    """`writer`: the socket of the process that writes finished responses. `clock` and the other keyword arguments are for
    tests."""
    database = SqliteDatabase(
        path,
        wakeups,
        clock or time.time,
        operation_timeout=operation_timeout,
        connect=connect,
        migrations=migrations,
        writer=writer,
    )
    await database.open()
    try:
        yield database
    finally:
        await database.close()
