"""SQLite: one thread writes, a few read, and none of them is the event loop's."""

import asyncio
import contextlib
import logging
import os
import queue
import re
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.protocol import CannotOpen
from antiphon.store.records import Record
from antiphon.store.sql import responses, sweeper
from antiphon.store.sql.operations import Change, Many, Operation, Ring, Row, Statement
from antiphon.store.sql.schema import MIGRATIONS, NEWEST, too_new
from antiphon.store.wakeups import Belfry

T = TypeVar("T")

# "Antf": how a file says whose it is.
APPLICATION_ID = 0x416E7466
OLDEST_SQLITE = (3, 35, 0)  # knows RETURNING
READERS = 4
# No operation takes longer, from being asked for to its answer.
TIMEOUT = 10.0
# Everything is looked at; nobody waits for it.
SIZE_TIMEOUT = 120.0
# How long another process may hold the one lock for writing.
BUSY_TIMEOUT = 5.0
# So many operations share a transaction at most.
GROUP = 256
# Durable also past a power cut, if the disk does not lie: with FULL every commit waits for the disk. With NORMAL the last
# commits would be lost then (never by the death of a process, whose writes the system has). Operations that come at once
# share a commit, so that this wait is not paid by each.
PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
)


class Asked(NamedTuple):
    operation: Operation[Any]
    answer: asyncio.Future[Any]


class Outcome(NamedTuple):
    """What to tell whoever asked, once it is durable."""

    answer: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class SqliteDatabase:
    def __init__(self, path: str, bells: Belfry, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.bells = bells
        self._path = Path(path).expanduser()
        self._asked: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="antiphon-sqlite-writer", daemon=True)
        self._readers = ThreadPoolExecutor(READERS, "antiphon-sqlite-reader")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        await asyncio.to_thread(prepare, self._path)
        self._writer.start()

    async def close(self) -> None:
        self._asked.put(None)
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()

    async def read(self, operation: Operation[T]) -> T:
        return await self._look(operation, TIMEOUT)

    async def write(self, operation: Operation[T]) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()
        self._asked.put(Asked(operation, answer))
        return await self._answer(answer, TIMEOUT)

    async def put(self, record: Record) -> None:
        # The writer takes all that was asked for meanwhile into one transaction.
        await self.write(responses.put(record))

    async def size(self, limit: int) -> int:
        return await self._look(used_bytes(limit), SIZE_TIMEOUT)

    async def _look(self, operation: Operation[T], patience: float) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()
        self._readers.submit(self._read, Asked(operation, answer))
        return await self._answer(answer, patience)

    async def _answer(self, answer: asyncio.Future[T], patience: float) -> T:
        late = self._loop.call_later(patience, give_up, answer)
        try:
            return await answer
        except sqlite3.Error as error:
            log("store_error", level=logging.ERROR, store="sqlite", exc_info=error)
            raise StoreUnavailable from error
        finally:
            late.cancel()

    # --- In the readers' threads

    def _read(self, asked: Asked) -> None:
        if asked.answer.done():
            return
        try:
            outcome = Outcome(asked.answer, run(self._connection(), asked.operation)[0])
        except Exception as error:
            outcome = Outcome(asked.answer, error=error)
        self._pass_on([outcome], [])

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            self._connections.append(connection)
        return connection

    # --- In the writer's thread

    def _write_all(self) -> None:
        with contextlib.closing(connect(self._path)) as connection:
            while (group := self._next_group()) is not None:
                # Who has given up must not find it done.
                self._write_group(connection, [asked for asked in group if not asked.answer.done()])

    def _next_group(self) -> list[Asked] | None:
        """Waits for one, and takes all that have come meanwhile. None: it is over."""
        group: list[Asked] = []
        while len(group) < GROUP and not (group and self._asked.empty()):
            asked = self._asked.get()
            if asked is None:
                # What came before is written yet.
                self._asked.put(None)
                return group or None
            group.append(asked)
        return group

    def _write_group(self, connection: sqlite3.Connection, group: list[Asked]) -> None:
        outcomes: list[Outcome] = []
        rung: list[str] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for asked in group:
                outcomes.append(write_one(connection, asked, rung))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            outcomes = [Outcome(asked.answer, error=error) for asked in group]
            rung = []
        self._pass_on(outcomes, rung)

    # --- Back in the event loop

    def _pass_on(self, outcomes: list[Outcome], rung: list[str]) -> None:
        """The loop is woken once for all of them. It is gone if the gateway ended meanwhile."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, outcomes, rung)

    def _tell(self, outcomes: list[Outcome], rung: list[str]) -> None:
        for answer, result, error in outcomes:
            if answer.done():
                continue
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)
        for name in rung:
            self.bells.ring(name)


def used_bytes(limit: int) -> Operation[int]:
    """Pages that are free are used again before the file grows."""
    pages = yield Statement(
        "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
    )
    size: int = pages[0][0]
    if size > limit:
        weighed = yield Statement(sweeper.WEIGHT)
        size = min(size, weighed[0][0])
    return size


def give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        log("store_timeout", level=logging.WARNING, store="sqlite")
        answer.set_exception(StoreUnavailable())


def write_one(connection: sqlite3.Connection, asked: Asked, rung: list[str]) -> Outcome:
    """Its failure undoes it alone; that of the database undoes the group."""
    connection.execute("SAVEPOINT one")
    try:
        result, bells = run(connection, asked.operation)
    except sqlite3.OperationalError:
        raise
    except Exception as error:
        connection.execute("ROLLBACK TO one")
        return Outcome(asked.answer, error=error)
    finally:
        connection.execute("RELEASE one")
    rung += bells
    return Outcome(asked.answer, result)


def run(connection: sqlite3.Connection, operation: Operation[T]) -> tuple[T, list[str]]:
    """What it returns, and the bells that it rings."""
    rows: list[Row] = []
    rung: list[str] = []
    try:
        step = next(operation)
        while True:
            if isinstance(step, Ring):
                rung.append(step.name)
                rows = []
            elif isinstance(step, Change):
                rows = [(connection.execute(to_sqlite(step.text), step.values).rowcount,)]
            elif isinstance(step, Many):
                connection.executemany(to_sqlite(step.text), step.values)
                rows = []
            else:
                rows = connection.execute(to_sqlite(step.text), tuple(step.values)).fetchall()
            step = operation.send(rows)
    except StopIteration as end:
        return end.value, rung


_TRANSLATIONS = (
    (re.compile(r"\$(\d+)"), r"?\1"),
    # One process writes at a time, and what it has read in its transaction stands.
    (re.compile(r"\s+FOR UPDATE( OF \w+)?( SKIP LOCKED)?"), ""),
    (re.compile(r"\bbytea\b"), "blob"),
    (re.compile(r"\boctet_length\b"), "length"),
    (re.compile(r"\bbigint\b"), "integer"),
    (re.compile(r"\bbigserial PRIMARY KEY"), "integer PRIMARY KEY AUTOINCREMENT"),
)


@lru_cache(maxsize=512)
def to_sqlite(text: str) -> str:
    for pattern, replacement in _TRANSLATIONS:
        text = pattern.sub(replacement, text)
    return text


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


def prepare(path: Path) -> None:
    """Make the database and bring its tables up to date."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise CannotOpen(f"SQLite {sqlite3.sqlite_version} is too old; use 3.35 or newer, or another store")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Conversations are nobody else's business. What lies beside the database gets the same rights.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with contextlib.closing(connect(path)) as connection:
            use_wal(connection, path)
            migrate(connection, path)
    except OSError as error:
        raise CannotOpen(f"cannot open {path}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        raise CannotOpen(f"cannot use {path} as the store: {error}") from error


def use_wal(connection: sqlite3.Connection, path: Path) -> None:
    """With a write-ahead log, reads and the one write do not wait for each other."""
    until = time.monotonic() + BUSY_TIMEOUT
    while (mode := connection.execute("PRAGMA journal_mode").fetchone()[0]) != "wal":
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError:
            # Another gateway is opening it; this lock alone is not waited for by SQLite itself.
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
            continue
        if mode != "wal":
            raise CannotOpen(f"{path} lies where SQLite cannot keep a write-ahead log; use a local disk")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if tables and not ours:
        raise CannotOpen(f"{path} is another program's database")
    if version > NEWEST:
        raise CannotOpen(too_new(str(path), version))
    for migration in MIGRATIONS[version:]:
        for statement in migration:
            connection.execute(to_sqlite(statement))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {NEWEST}")
    connection.execute("COMMIT")


@contextlib.asynccontextmanager
async def open_sqlite(path: str, bells: Belfry, clock: Callable[[], float] | None) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(path, bells, clock or time.time)
    await database.open()
    try:
        yield database
    finally:
        await database.close()
