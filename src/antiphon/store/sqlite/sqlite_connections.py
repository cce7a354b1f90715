"""The connections to one SQLite file, and whether it is still the file at its path.

A file that is deleted or replaced stays readable and writable for those who have it open. What is written to it then would
never be found again, so it must not be acknowledged.
"""

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.protocol import CannotOpen
from antiphon.store.sql.schema import Migrations
from antiphon.store.sqlite.sqlite_file import Connect, prepare

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
        # How many files have been opened. What is known of the contents of one does not hold for the next.
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
