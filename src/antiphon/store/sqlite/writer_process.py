"""The process that writes the finished responses of all worker processes, so that they share transactions: each transaction
waits for the disk once. Its argument is the file descriptor of the Unix socket at which they connect.

It does one thing after another: it reads what has arrived, writes all of it in one transaction, and answers once that is
durable. What arrives meanwhile is the next transaction.
"""

import contextlib
import gc
import logging
import os
import selectors
import signal
import socket
import sqlite3
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from antiphon import logs
from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.protocol import CannotOpen, IdTaken
from antiphon.store.sql.schema import MIGRATIONS
from antiphon.store.sqlite.connections import FileLost, SqliteConnections, connect
from antiphon.store.sqlite.transactions import MAX_GROUP_SIZE, Outcome, Pending, commit
from antiphon.store.sqlite.writer_messages import FORMAT, Hello, Messages, Put, Result, Written, encode

# How much is read from a connection at once.
READ_BYTES = 256 * 1024
# Seconds for which a worker that does not read its answers can delay the end.
FLUSHED_WITHIN = 1.0

# The second line of its standard input: write what was read, and end. If the input ends without it, the supervisor is gone or
# about to end, and the process stays for as long as a worker is connected.
END = b"end\n"
READY = b"ready\n"


class Begin(Struct, frozen=True):
    """The first line of its standard input, as JSON."""

    database: str
    log_level: str
    log_format: str


class Worker:
    """The connection of a worker process."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.is_open = True
        self._messages: Messages[Put] = Messages(Put)
        self._unsent = bytearray()

    def read(self) -> list[Put]:
        """What has arrived. At its end, the connection is no longer open."""
        try:
            data = self.connection.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            return []
        try:
            return list(self._messages.feed(data))
        except msgspec.DecodeError as error:
            log("store_error", level=logging.ERROR, store="sqlite", exc_info=error)
            self.is_open = False
            return []

    def send(self, data: bytes = b"") -> bool:
        """Returns whether all was sent. The rest is sent by the next call."""
        self._unsent += data
        try:
            while self._unsent:
                del self._unsent[: self.connection.send(self._unsent)]
        except BlockingIOError:
            return False
        except OSError:
            self.is_open = False
        return True


class Waiting(NamedTuple):
    """By whom a put was sent."""

    worker: Worker
    put: Put


class Writer:
    def __init__(
        self,
        connections: SqliteConnections,
        listening: socket.socket,
        orders: int,
        database: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`orders`: the file descriptor of its standard input."""
        self._connections = connections
        self._listening = listening
        self._orders = orders
        self._hello = encode(Hello(FORMAT, database))
        self._monotonic = monotonic
        self._selector = selectors.DefaultSelector()
        self._workers: set[Worker] = set()
        self._waiting: deque[Waiting] = deque()
        # Nobody connects any more whom it would have to wait for.
        self._is_left = False
        self._is_ending = False

    def run(self) -> None:
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._orders, selectors.EVENT_READ, self._read_orders)
        while not self._is_ending and (self._workers or not self._is_left):
            for key, events in self._selector.select(0 if self._waiting else None):
                key.data(events)
            self._write_some()
        while self._waiting:
            self._write_some()
        for worker in self._workers:
            worker.connection.settimeout(FLUSHED_WITHIN)
            worker.send()
            worker.connection.close()
        self._selector.close()
        self._listening.close()

    def _accept(self, events: int) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            # The one that replaces this process has accepted it.
            return
        worker = Worker(connection)
        self._workers.add(worker)
        self._selector.register(connection, selectors.EVENT_READ, partial(self._serve, worker))
        self._answer(worker, self._hello)

    def _read_orders(self, events: int) -> None:
        read = os.read(self._orders, 4096)
        if read:
            self._is_ending = True
        else:
            self._is_left = True
            self._selector.unregister(self._orders)

    def _serve(self, worker: Worker, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._answer(worker, b"")
        if events & selectors.EVENT_READ:
            self._waiting += [Waiting(worker, put) for put in worker.read()]
            self._close_if_over(worker)

    def _answer(self, worker: Worker, data: bytes) -> None:
        wanted = selectors.EVENT_READ if worker.send(data) else selectors.EVENT_READ | selectors.EVENT_WRITE
        if worker.is_open:
            key = self._selector.get_key(worker.connection)
            if key.events != wanted:
                self._selector.modify(worker.connection, wanted, key.data)
        self._close_if_over(worker)

    def _close_if_over(self, worker: Worker) -> None:
        if not worker.is_open and worker in self._workers:
            self._workers.discard(worker)
            self._selector.unregister(worker.connection)
            worker.connection.close()

    # ---- one transaction ---------------------------------------------------------------------------------------------

    def _write_some(self) -> None:
        now = self._monotonic()
        group: list[Pending[Waiting]] = []
        answers: defaultdict[Worker, list[Written]] = defaultdict(list)
        while self._waiting and len(group) < MAX_GROUP_SIZE:
            waiting = self._waiting.popleft()
            if waiting.put.until <= now:
                answers[waiting.worker].append(Written(waiting.put.number, "late"))
            else:
                group.append(Pending(waiting.put.operation(), waiting, fails_first=waiting.put.items is None))
        for (worker, put), is_done, error in self._write(group):
            answers[worker].append(Written(put.number, _to_result(is_done, error)))
        for worker, written in answers.items():
            if worker.is_open:
                self._answer(worker, encode(written))

    def _write(self, group: list[Pending[Waiting]]) -> list[Outcome[Waiting]]:
        if not group:
            return []
        try:
            # Nobody follows what these records wake here: their workers wake them.
            outcomes = commit(self._connections.writer(), group, [])
            # Only now it is known that the commit went to the file at the path.
            self._connections.check()
        except (sqlite3.Error, StoreUnavailable) as error:
            if not isinstance(error, StoreUnavailable):
                log("store_error", level=logging.ERROR, store="sqlite", exc_info=error)
            return [Outcome(pending.answer, error=error) for pending in group]
        return outcomes


def _to_result(is_done: bool, error: Exception | None) -> Result:
    match error:
        case None:
            return "done" if is_done else "refused"
        case IdTaken():
            return "taken"
        case FileLost():
            return "lost"
    return "unavailable"


def main() -> None:
    # They reach every process of a terminal, or of a service. The supervisor says what is to be done.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    line = bytearray()
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            # The supervisor has ended already.
            return
        line += read
    begin = msgspec.json.decode(line, type=Begin)
    logs.configure(begin.log_level, begin.log_format)
    listening = socket.socket(fileno=int(sys.argv[1]))
    listening.setblocking(False)
    connections = SqliteConnections(Path(begin.database), connect, MIGRATIONS)
    try:
        connections.open()
    except CannotOpen as reason:
        log("writer cannot open the store", level=logging.ERROR, reason=str(reason))
        sys.exit(2)
    gc.freeze()
    with contextlib.suppress(BrokenPipeError):
        os.write(1, READY)
    Writer(connections, listening, 0, begin.database).run()
    connections.close()


if __name__ == "__main__":
    main()
