"""The process that writes for several workers, in a thread, where a test can see what it does; and those who connect to it."""

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from antiphon.app.processes.listening import bind_private
from antiphon.store import Store
from antiphon.store.sql.schema import MIGRATIONS
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite.connections import Connect, SqliteConnections, connect
from antiphon.store.sqlite.database import SqliteDatabase
from antiphon.store.sqlite.writer_process import END, Writer
from support.ways_in import until


class WriterThreads:
    """One at a time, at one socket, which stays open."""

    def __init__(self, database: Path, folder: Path) -> None:
        self._database = database
        self.path = str(folder / "store")
        self._listening = bind_private(Path(self.path))
        self._listening.listen()
        self._thread: threading.Thread | None = None
        self._orders = -1

    def start(self, connect: Connect = connect) -> None:
        opened = SqliteConnections(self._database, connect, MIGRATIONS)
        opened.open()
        orders, self._orders = os.pipe()
        writer = Writer(opened, self._listening.dup(), orders, str(self._database))
        self._thread = threading.Thread(target=_run, args=(writer, opened, orders))
        self._thread.start()

    def end(self, *, at_once: bool = True) -> None:
        """`at_once`: also while somebody is connected."""
        if self._thread is not None:
            if at_once:
                os.write(self._orders, END)
            os.close(self._orders)
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        self.end()
        self._listening.close()


def _run(writer: Writer, opened: SqliteConnections, orders: int) -> None:
    writer.run()
    opened.close()
    os.close(orders)


@contextmanager
def writer_thread(database: Path, connect: Connect = connect) -> Iterator[WriterThreads]:
    # Paths of Unix sockets must be short.
    with tempfile.TemporaryDirectory() as folder, closing(WriterThreads(database, Path(folder))) as writer:
        writer.start(connect)
        yield writer


def database_of(store: Store) -> SqliteDatabase:
    assert isinstance(store, SqlStore)
    assert isinstance(store._database, SqliteDatabase)
    return store._database


async def until_writer_is_used(store: Store) -> None:
    client = database_of(store)._client
    assert client is not None
    await until(lambda: client.is_used)


def connect_watched(watch: Callable[[str], None]) -> Connect:
    """`watch` is called with each statement, before it is executed."""

    def watched(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(watch)
        return connection

    return watched
