"""One worker process, as the supervisor sees it."""

import asyncio
import contextlib
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from itertools import chain

from antiphon.app.processes.channel import Channel
from antiphon.app.processes.messages import (
    Counts,
    Failed,
    Ready,
    Start,
    ToSupervisor,
    ToWorker,
)

MODULE = "antiphon.app.processes.worker"

Handle = Callable[["Supervised", ToSupervisor], None]


class Supervised:
    def __init__(self, process: Process, channel: Channel[ToSupervisor], start: Start, handle: Handle) -> None:
        self.slot = start.slot
        self.path = start.path
        self.pid = process.pid
        self.is_ready = False
        # It accepts no more connections.
        self.is_leaving = False
        self.failure: str | None = None
        # What it said of its counts last.
        self.counts = b""
        self._process = process
        self._channel = channel
        self._handle = handle
        self._started: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(channel.receive_all(self._receive))
        self._reading.add_done_callback(lambda _: self._resolve(False))

    @classmethod
    async def spawn(cls, start: Start, handle: Handle) -> "Supervised":
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", MODULE, str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *start.listening, *chain.from_iterable(start.others.values())),
            )
        channel: Channel[ToSupervisor] = await Channel.over(ours, ToSupervisor)
        channel.send(start)
        return cls(process, channel, start, handle)

    def send(self, message: ToWorker) -> None:
        self._channel.send(message)

    async def ready(self) -> bool:
        """False: it has ended before it was ready."""
        return await asyncio.shield(self._started)

    async def ended(self) -> str:
        """Waits for its end, and returns how it came."""
        code = await self._process.wait()
        # What it sent last.
        await asyncio.shield(self._reading)
        return self.failure or (f"it exited with code {code}" if code >= 0 else f"it was killed by signal {-code}")

    async def end(self, within: float) -> None:
        """It was asked to stop. Kills it if it does not."""
        try:
            async with asyncio.timeout(within):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def _receive(self, message: ToSupervisor) -> Awaitable[None] | None:
        match message:
            case Ready():
                self.is_ready = True
                self._resolve(True)
            case Failed(reason=reason):
                self.failure = reason
            case Counts(text=text):
                self.is_leaving, self.counts = True, text
        self._handle(self, message)
        return None

    def _resolve(self, started: bool) -> None:
        if not self._started.done():
            self._started.set_result(started)
