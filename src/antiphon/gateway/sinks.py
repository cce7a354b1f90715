"""Where the events of a response go, and when they are written."""

import asyncio
from collections.abc import Sequence
from typing import Protocol


class Sink(Protocol):
    """Where the events go."""

    def write(self, events: Sequence[bytes]) -> bool:
        """At least one event, encoded. True: more has been written than the client reads, and the engine should pause until
        `drain()` returns.
        """

    async def drain(self) -> None: ...


class Nobody:
    """For an answer that is not streamed: only the response counts."""

    def write(self, events: Sequence[bytes]) -> bool:
        return False

    async def drain(self) -> None: ...


class Writer(Protocol):
    def flush(self) -> None: ...


class Batch:
    """Those that have something to write. They write together, once every socket that was ready has been read.

    A write wakes the process that reads it, which costs more than the write does; writes that follow one another at once wake
    it once. What several reads of one brought becomes one write.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._writers: list[Writer] = []

    def add(self, writer: Writer) -> None:
        if not self._writers:
            self._loop.call_soon(self._flush)
        self._writers.append(writer)

    def _flush(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.flush()
