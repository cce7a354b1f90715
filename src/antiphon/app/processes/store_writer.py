"""The process that writes for several workers, where the store is SQLite: it is started, started again when it dies, and
replaced."""

import asyncio
import contextlib
import logging
import os
import socket
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec

from antiphon.app.processes.listening import bind_private
from antiphon.child_processes.child import Child, RestartPauses, Restarts, lines_of, python_command
from antiphon.logs import log
from antiphon.settings.settings import Settings, data_directory
from antiphon.store import default_url, sqlite_file
from antiphon.store.sqlite.writer_process import END, READY, Begin
from antiphon.transport import BACKLOG

MODULE = "antiphon.store.sqlite.writer_process"
# Of one that dies soon after its start. The workers write by themselves meanwhile, so they do not grow long.
PAUSES = RestartPauses(first=0.1, longest=5.0, stable_after=10.0)
# Seconds that one may take to write what it has.
ENDED_WITHIN = 15.0


class WriterProcess(Child):
    def __init__(self, process: Process, orders: int) -> None:
        """`orders`: the file descriptor of the pipe to its standard input."""
        super().__init__(process)
        self._orders: int | None = orders
        assert process.stdout is not None
        self.follow(self._read(process.stdout))

    @classmethod
    async def spawn(cls, begin: Begin, listening: socket.socket) -> "WriterProcess":
        descriptor = listening.fileno()
        # A pipe of our own: it can be written to before there is a process, and also if that has died at once.
        its_end, orders = os.pipe()
        os.write(orders, msgspec.json.encode(begin) + b"\n")
        try:
            process = await asyncio.create_subprocess_exec(
                *python_command(MODULE, str(descriptor)), stdin=its_end, stdout=PIPE, pass_fds=(descriptor,)
            )
        except BaseException:
            os.close(orders)
            raise
        finally:
            os.close(its_end)
        return cls(process, orders)

    async def _read(self, output: asyncio.StreamReader) -> None:
        async for line in lines_of(output):
            if line == READY.decode().strip():
                self.mark_ready()

    async def leave(self, *, at_once: bool) -> None:
        """`at_once`: also if workers are connected. They connect to the next one."""
        if at_once and self._orders is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._orders, END)
        self._close_orders()
        await self.end_within(ENDED_WITHIN)

    async def end(self) -> str:
        how = await super().end()
        self._close_orders()
        return how

    def _close_orders(self) -> None:
        if self._orders is not None:
            os.close(self._orders)
            self._orders = None


class StoreWriter:
    """One process at a time. Its socket stays open while there is none, so who connects waits for the next one."""

    def __init__(self, folder: Path, pauses: RestartPauses = PAUSES) -> None:
        self.path = str(folder / "store")
        self._pauses = pauses
        self._listening = bind_private(Path(self.path))
        self._listening.listen(BACKLOG)
        self._process: WriterProcess | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self, settings: Settings) -> None:
        """In place of the one that there is. Where the store is another one, none is needed."""
        old = self._process
        await self._keep_no_longer()
        file = sqlite_file(settings.store or default_url(data_directory(settings)))
        self._process = None
        if file is not None:
            begin = Begin(str(file), settings.log_level, settings.log_format)
            self._process = await WriterProcess.spawn(begin, self._listening)
            self._keeping = asyncio.create_task(self._keep_running(self._process, begin))
        if old is not None:
            if self._process is not None:
                await self._process.ready()
            await old.leave(at_once=True)

    async def stop(self) -> None:
        """Once the workers have ended."""
        await self._keep_no_longer()
        self._listening.close()
        if self._process is not None:
            await self._process.leave(at_once=False)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def _keep_no_longer(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
            self._keeping = None

    async def _keep_running(self, process: WriterProcess, begin: Begin) -> None:
        restarts = Restarts(self._pauses)
        while True:
            restarts.begin()
            reason = await process.end()
            pause = restarts.pause()
            log("store writer died", level=logging.WARNING, reason=reason, restarts_in=pause)
            await asyncio.sleep(pause)
            process = self._process = await WriterProcess.spawn(begin, self._listening)
