"""The responses of a gateway that run now, and how they end when it does."""

import asyncio
from contextlib import suppress

from antiphon.engines.upstream import Engine
from antiphon.errors import EngineUnavailable
from antiphon.gateway.runs.run import ResponseRun

SHUTTING_DOWN = "The gateway is shutting down."


class RunsInFlight:
    def __init__(self) -> None:
        self._runs: set[ResponseRun] = set()
        self._closing: set[asyncio.Task[None]] = set()
        # Made by the one that waits until nothing runs: mostly nobody does.
        self._idle: asyncio.Event | None = None

    def add(self, run: ResponseRun) -> None:
        self._runs.add(run)
        run.recorder.keep_lock()

    def remove(self, run: ResponseRun) -> None:
        """It has ended: nothing of it is left behind."""
        self._runs.discard(run)
        if self._idle is not None and not self._runs:
            self._idle.set()
        run.leave_places()
        if (closing := run.close()) is not None:
            # In a task of its own: a client that closes right after its last event cancels what is awaited here.
            task = asyncio.create_task(closing)
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    @property
    def runs(self) -> list[ResponseRun]:
        return list(self._runs)

    @property
    def count(self) -> int:
        return len(self._runs)

    def is_busy(self, engine: Engine) -> bool:
        return any(run.engine is engine for run in self._runs)

    async def drain(self, within: float) -> None:
        """Lets runs finish for so many seconds, and ends the others with a proper terminal event."""
        if self._runs:
            if self._idle is None or self._idle.is_set():
                self._idle = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._idle.wait()
        for run in self._runs:
            # Another gateway may take a background response over.
            if not run.in_background:
                run.abort(EngineUnavailable(SHUTTING_DOWN, retry_after=1))
        if self._closing:
            await asyncio.wait(self._closing)


class Running:
    """`async with` it while the response runs. A class, because a generator takes four times as long."""

    __slots__ = ("_in_flight", "_run")

    def __init__(self, in_flight: RunsInFlight, run: ResponseRun) -> None:
        self._in_flight = in_flight
        self._run = run

    async def __aenter__(self) -> None:
        self._in_flight.add(self._run)

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._run.recorder.unlock()
        finally:
            self._in_flight.remove(self._run)
