"""Writes to sockets that are made together."""

import asyncio
from typing import Protocol


class Writer(Protocol):
    def flush(self) -> None: ...


class WriteBatch:
    """Those that have something to write. They write together, once every socket that was ready has been read, and what was
    waiting for that has gone on.

    A write wakes the process that reads it, which costs more than the write itself. Writes that follow one another at once
    wake it once, and several reads of one stream become one write.
    """

    __slots__ = ("_loop", "writers")

    def __init__(self) -> None:
        # Known from its first use: to ask for it takes a system call in Python 3.11.
        self._loop: asyncio.AbstractEventLoop | None = None
        # To add one: `append`, and `begin` if it is the first.
        self.writers: list[Writer] = []

    def begin(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._flush)

    def add(self, writer: Writer) -> None:
        if not self.writers:
            self.begin()
        self.writers.append(writer)

    def _flush(self) -> None:
        writers, self.writers = self.writers, []
        for writer in writers:
            writer.flush()
