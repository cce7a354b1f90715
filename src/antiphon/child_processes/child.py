"""A child process: how it is started, when it is ready, what it prints, how it ends; and when one that has died is started
again."""

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec import Struct


def python_command(module: str, *arguments: str) -> list[str]:
    """Runs a module by the Python that runs this."""
    return [sys.executable, "-m", module, *arguments]


class Child:
    """`follow()` what it says, until it is `ready()`; wait for its `end()`, or `stop()` it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.pid = process.pid
        self._is_ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._following: asyncio.Future[Any] | None = None

    def follow(self, *readers: Awaitable[None]) -> None:
        """`readers` read all that it says. One of them calls `mark_ready()`; if none has when all are at their end, it never
        will be."""
        self._following = asyncio.gather(*readers)
        self._following.add_done_callback(lambda _: self._resolve(False))

    def mark_ready(self) -> None:
        self._resolve(True)

    def _resolve(self, is_ready: bool) -> None:
        if not self._is_ready.done():
            self._is_ready.set_result(is_ready)

    async def ready(self) -> bool:
        """False: it has ended before it was ready."""
        return await asyncio.shield(self._is_ready)

    async def end(self) -> str:
        """Waits for its end, and for what it said last. Returns how it came."""
        code = await self.process.wait()
        if self._following is not None:
            await asyncio.shield(self._following)
        return f"it exited with code {code}" if code >= 0 else f"it was killed by signal {-code}"

    async def end_within(self, seconds: float) -> None:
        """It was asked to stop. Kills it if it does not."""
        try:
            async with asyncio.timeout(seconds):
                await self.end()
        except TimeoutError:
            self.kill()
            await self.end()

    async def stop(self, within: float) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        await self.end_within(within)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()


@contextlib.asynccontextmanager
async def killed_if_cancelled(process: Process) -> AsyncIterator[None]:
    """While somebody waits for the result of a program that runs to its end."""
    try:
        yield
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Those that are not empty. One that is longer than the limit of the stream is skipped."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        if text := line.decode(errors="replace").strip():
            yield text


class RestartPauses(Struct, frozen=True):
    """Seconds before a dead process is restarted. The pause doubles with every death, and starts over once a process has run
    for `stable_after` seconds."""

    first: float = 0.5
    longest: float = 30.0
    stable_after: float = 60.0


class Restarts:
    """Of one process: `begin()` when it runs, and ask for the `pause()` when it has died."""

    def __init__(self, pauses: RestartPauses, now: Callable[[], float] = time.monotonic) -> None:
        self._pauses = pauses
        self._now = now
        self._began = 0.0
        self._next = pauses.first
        # The last one had run for so long that its death is no sign of the next one's.
        self.was_stable = False

    def begin(self) -> None:
        self._began = self._now()

    def pause(self) -> float:
        """In seconds."""
        pauses = self._pauses
        self.was_stable = self._now() - self._began >= pauses.stable_after
        pause = pauses.first if self.was_stable else self._next
        self._next = min(2 * pause, pauses.longest)
        return pause
