"""The workers of one gateway: they claim background responses, and make so many of them at once."""

import asyncio
import logging
from contextlib import suppress

from antiphon.background.attempts import Attempt
from antiphon.errors import ApiError, EngineUnavailable, StoreUnavailable
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.service import SHUTTING_DOWN, Gateway
from antiphon.store.bells import Bell
from antiphon.store.memory import MemoryStore

# How long the ends of responses may take that nobody can take over, in seconds.
LAST_WORDS = 2.0


class Workers:
    """`start()`, then `stop()`, and `close()` once those that run have had their time."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._name = new_id("worker")
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._bell: Bell | None = None
        self._stopped = False
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._gateway.settings.background_workers:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        with self._gateway.store.follow_jobs() as bell:
            self._bell = bell
            while not self._stopped:
                try:
                    await self._claim()
                except ApiError as away:
                    log("no_background_work", level=logging.WARNING, reason=away.message)
                await bell.wait()

    def stop(self) -> None:
        """Nothing more is begun."""
        self._stopped = True
        self._ring()

    async def close(self) -> None:
        """Gives back at once what still runs, so that another gateway takes it; ends it properly where none can."""
        if self._working is not None:
            await self._working
        if self._running and isinstance(self._gateway.store, MemoryStore):
            for attempt in self._running.values():
                attempt.end(EngineUnavailable(SHUTTING_DOWN))
            await asyncio.wait(self._running, timeout=LAST_WORDS)
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    async def _claim(self) -> None:
        settings = self._gateway.settings
        while len(self._running) < settings.background_workers and not self._stopped:
            job = await self._gateway.store.claim(self._name, settings.background_lease, settings.background_attempts)
            if job is None:
                return
            attempt = Attempt(self._gateway, job, self._name)
            task = asyncio.create_task(self._run(attempt))
            self._running[task] = attempt
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._ring()

    async def _run(self, attempt: Attempt) -> None:
        id = attempt.job.record.id
        try:
            await attempt.run()
        except asyncio.CancelledError:
            # That costs it no attempt, however often. It cannot keep one alive for ever that brings its gateways down: only
            # one that shuts down in order gives anything back, and what brings a gateway down is lost with it.
            with suppress(StoreUnavailable):
                await self._gateway.store.give_back(self._name, [id])
            raise
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug, response_id=id)
