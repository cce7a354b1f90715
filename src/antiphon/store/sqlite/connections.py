"""One SQLite file: opening it, its connections, and whether it is still the file at its path."""

import contextlib
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.operations import LongRead, LongWrite, PostgresOnly, Row
from antiphon.store.protocol import CannotOpen
from antiphon.store.sql.schema import Migrations, note_oldest, pending

Connect: TypeAlias = Callable[[Path], sqlite3.Connection]

# "Antf": marks the file as ours.
APPLICATION_ID = 0x416E7466
OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
# How long to wait for another process that is writing, in seconds.
BUSY_TIMEOUT = 5.0
# With FULL, every commit waits for the disk, so that it survives a power cut too. With NORMAL, a power cut could lose the last
# commits (the death of a process could not, because the system has its writes). Concurrent operations share a commit, so not
# each of them waits for the disk.
# The cache is of the connection that writes, in KiB; the system has the same pages in its own.
PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -4096",
)
_TRANSLATIONS = (
    (re.compile(r"\bposition\((\$\d+) IN (\w+)\)"), r"instr(\2, \1)"),
    (re.compile(r"\$(\d+)"), r"?\1"),
    # Not needed: only one transaction at a time can write, so the rows that it has read do not change.
    (re.compile(r"\s+FOR UPDATE( OF \w+)?( SKIP LOCKED)?"), ""),
    # To Postgres, a comment.
    (re.compile(r"/\* SQLite: (.*?) \*/"), r"\1"),
    (re.compile(r"\bbytea\b"), "blob"),
    (re.compile(r"\boctet_length\b"), "length"),
    (re.compile(r"\bbigint\b"), "integer"),
    (re.compile(r"\bbigserial PRIMARY KEY"), "integer PRIMARY KEY AUTOINCREMENT"),
)


@lru_cache(maxsize=512)
def to_sqlite(text: str) -> str:
    """A statement for Postgres, as SQLite spells it."""
    for pattern, replacement in _TRANSLATIONS:
        text = pattern.sub(replacement, text)
    return text


def connect(path: Path, busy_timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


def prepare(path: Path, connect: Connect, migrations: Migrations, *, create: bool = True) -> None:
    """Create the database if it does not exist (and if that is wanted), and bring its tables up to date. Raises CannotOpen."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise CannotOpen(f"SQLite {sqlite3.sqlite_version} is too old; use 3.35 or newer, or another store")
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        # Only the user may read conversations. SQLite gives the files beside the database the same permissions.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR if create else os.O_RDWR, 0o600))
        with contextlib.closing(connect(path)) as connection:
            _use_wal(connection, path)
            _migrate(connection, path, migrations)
    except OSError as error:
        raise CannotOpen(f"cannot open {path}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        raise CannotOpen(f"cannot use {path} as the store: {error}") from error


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    """With a write-ahead log, readers and the writer do not wait for each other."""
    until = time.monotonic() + BUSY_TIMEOUT
    while (mode := connection.execute("PRAGMA journal_mode").fetchone()[0]) != "wal":
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError:
            # Another gateway is opening the database. SQLite does not wait for this lock by itself.
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
            continue
        if mode != "wal":
            raise CannotOpen(f"SQLite cannot keep a write-ahead log for {path}; use a path on a local disk")


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Migrations) -> None:
    connection.execute("BEGIN IMMEDIATE")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    is_ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if tables and not is_ours:
        raise CannotOpen(f"{path} is another program's database; use another path")
    needed = pending(version, _oldest(connection), migrations, str(path))
    for migration in needed:
        for statement in migration:
            if not isinstance(statement, PostgresOnly):
                connection.execute(to_sqlite(statement))
    if needed:
        for statement in note_oldest(migrations):
            connection.execute(to_sqlite(statement))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
    connection.execute("COMMIT")


def _oldest(connection: sqlite3.Connection) -> int | None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'compatibility'").fetchone():
        return None
    oldest: int | None = connection.execute("SELECT max(oldest) FROM compatibility").fetchone()[0]
    return oldest


# ---- long values -----------------------------------------------------------------------------------------------------
# They are written and read part by part. Bound like others, each would be in memory several times at once.


def write_long(connection: sqlite3.Connection, step: LongWrite) -> None:
    """In a transaction: the row is written with zeros in place of the value, which are then overwritten."""
    text = f"{step.text.format(long=f'zeroblob(${step.long + 1})')} RETURNING rowid"
    pieces, values = step.values[step.long], list(step.values)
    values[step.long] = len(pieces)
    for (row,) in connection.execute(to_sqlite(text), values).fetchall():
        with connection.blobopen(step.table, step.column, row) as blob:
            for piece in pieces:
                blob.write(piece)


def read_long(connection: sqlite3.Connection, step: LongRead) -> list[Row]:
    text = f"SELECT rowid FROM {step.table} WHERE {step.condition}"
    with _one_state(connection):
        found = connection.execute(to_sqlite(text), tuple(step.values)).fetchall()
        return [(_part(connection, step, row),) for (row,) in found]


def _part(connection: sqlite3.Connection, step: LongRead, row: int) -> bytes:
    with connection.blobopen(step.table, step.column, row, readonly=True) as blob:
        blob.seek(step.start)
        return blob.read(step.size)


@contextlib.contextmanager
def _one_state(connection: sqlite3.Connection) -> Iterator[None]:
    """The number of a row that is deleted may become that of another one, so nothing may change in between."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


# ---- connections -----------------------------------------------------------------------------------------------------
# A file that is deleted or replaced stays readable and writable for those who have it open. What is written to it then would
# never be found again, so it must not be acknowledged.

# The device and the inode of a file: no other file has the same while it is open. None: there is no file.
Identity: TypeAlias = tuple[int, int] | None

# The cache of a connection that reads, in KiB. It is small: there are several, and the system has the same pages in its own.
READER_CACHE = 1024

LOST = (
    "The database file of the store was deleted or replaced while the gateway was running, so nothing can be stored. "
    "Restore the file, or restart the gateway."
)


class FileLost(StoreUnavailable):
    """Nothing was read, or what was written would not be found again."""


class Files(NamedTuple):
    """Which files there are. What was committed last is in the write-ahead log."""

    database: Identity
    log: Identity


class SqliteConnections:
    def __init__(self, path: Path, connect: Connect, migrations: Migrations) -> None:
        self._path = str(path)
        self._log_path = f"{path}-wal"
        self._connect = connect
        self._migrations = migrations
        self._opened: Files | None = None
        self._lost = False
        self._writer: sqlite3.Connection | None = None
        # Guards what follows: readers that are waiting for a read, and how many are reading.
        self._condition = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._reading = 0
        self._opening = False
        # How many files have been opened. What is known of the contents of one is not true of the next.
        self.generation = 0

    def open(self) -> None:
        """Create the database if it does not exist. Raises CannotOpen."""
        self._open(create=True)

    def close(self) -> None:
        if self._lost and self._writer is not None:
            # SQLite does not do this for a file that has moved: wherever it is now, it gets what is in its log.
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for connection in (self._writer, *self._idle):
            if connection is not None:
                connection.close()
        self._writer = None
        self._idle = []
        self._opened = None

    def check(self) -> None:
        """Raises FileLost if what is written now would not be found again."""
        if self._opened is None or self._files() != self._opened:
            self._report_loss()
            raise FileLost(LOST)

    def writer(self) -> sqlite3.Connection:
        """The one connection that writes. A file in place of the one that was opened is opened first. For one thread only."""
        if self._opened is None or self._writer is None or self._files() != self._opened:
            self._report_loss()
            self._reopen()
        assert self._writer is not None
        return self._writer

    @contextlib.contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for one read. Raises FileLost, as `check` does."""
        with self._condition:
            self._condition.wait_for(lambda: not self._opening)
            self.check()
            connection = self._idle.pop() if self._idle else self._new_reader()
            self._reading += 1
        try:
            yield connection
        finally:
            with self._condition:
                self._idle.append(connection)
                self._reading -= 1
                self._condition.notify_all()

    def _new_reader(self) -> sqlite3.Connection:
        connection = self._connect(Path(self._path))
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = -{READER_CACHE}")
        return connection

    def _reopen(self) -> None:
        """Open the file that is at the path now. Raises FileLost if there is none, or if it cannot be used."""
        if identity(self._path) is None:
            raise FileLost(LOST)
        with self._condition:
            self._opening = True
            # SQLite shares its state between the connections of a process, so none to the old file may be left.
            self._condition.wait_for(lambda: not self._reading)
        try:
            self._leave()
            self._open(create=False)
        except (CannotOpen, OSError, sqlite3.Error) as error:
            log("store_not_reopened", level=logging.ERROR, store="sqlite", path=self._path, error=str(error))
            raise FileLost(LOST) from error
        finally:
            with self._condition:
                self._opening = False
                self._condition.notify_all()

    def _leave(self) -> None:
        """Close the old file. If another one took its place, the log beside it belongs to the old one, and would damage it."""
        opened = self._opened
        self.close()
        if opened is None or identity(self._path) == opened.database:
            return
        if opened.log is not None and identity(self._log_path) == opened.log:
            for name in (self._log_path, f"{self._path}-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)

    def _open(self, *, create: bool) -> None:
        path = Path(self._path)
        prepare(path, self._connect, self._migrations, create=create)
        self._writer = self._connect(path)
        # The first read opens the write-ahead log, or creates it.
        self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self._opened = self._files()
        self.generation += 1
        if self._lost:
            log("store_reopened", level=logging.WARNING, store="sqlite", path=self._path)
        self._lost = False

    def _report_loss(self) -> None:
        if not self._lost:
            self._lost = True
            log("store_lost", level=logging.ERROR, store="sqlite", path=self._path, reason=LOST)

    def _files(self) -> Files:
        return Files(identity(self._path), identity(self._log_path))


def identity(path: str) -> Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
