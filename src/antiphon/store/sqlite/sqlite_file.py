"""The file of a SQLite database: opening it, and bringing its tables up to date."""

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from antiphon.store.protocol import CannotOpen
from antiphon.store.sql.schema import Migrations, note_oldest, pending
from antiphon.store.sql.statements_for_one import PostgresOnly

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
