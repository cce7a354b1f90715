"""The workers of one gateway: they claim background responses, and make so many of them at once."""

import asyncio
import logging
from contextlib import suppress

from antiphon.background.attempts import Attempt
from antiphon.background.places import Place
from antiphon.errors import ApiError, EngineUnavailable, StoreUnavailable
from antiphon.gateway.gateway import SHUTTING_DOWN, Gateway
from antiphon.gateway.ids import new_id
from antiphon.logs import log
from antiphon.store.records import Job
from antiphon.store.wakeups import Wakeup

# How long it may take to give responses back, or to end those that nobody can take over, in seconds.
LAST_WORDS = 2.0
# For each that is made, so many are held: the others wait for their turn in a conversation, or for an engine.
HELD = 4


class Workers:
    """`start()`, then `stop()`, and `close()` once those that run have had their time."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._name = new_id("worker")
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._places = asyncio.Semaphore(gateway.settings.background_workers)
        self._wakeup: Wakeup | None = None
        self._stopped = False
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._gateway.settings.background_workers:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        with self._gateway.store.follow_jobs() as wakeup:
            self._wakeup = wakeup
            while not self._stopped:
                try:
                    await self._claim()
                except ApiError as away:
                    log("no_background_work", level=logging.WARNING, reason=away.message)
                await wakeup.wait()

    def stop(self) -> None:
        """Nothing more is begun; what waits need not wait for what runs."""
        self._stopped = True
        self._wake()
        for task, attempt in self._running.items():
            if not attempt.place.taken:
                self._let_go(task)

    async def close(self) -> None:
        if self._working is not None:
            await self._working
        tasks = list(self._running)
        for task in tasks:
            self._let_go(task)
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WORDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        """Gives it back, so that another gateway takes it at once; ends it properly where none can."""
        if not self._gateway.store.survives_restart:
            self._running[task].end(EngineUnavailable(SHUTTING_DOWN))
        elif not task.cancelling():
            task.cancel()

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.wake()

    async def _claim(self) -> None:
        most = HELD * self._gateway.settings.background_workers
        while not self._places.locked() and len(self._running) < most and not self._stopped:
            await self._places.acquire()
            job = None
            try:
                job = await self._ask()
            finally:
                if job is None:
                    self._places.release()
            if job is None:
                return
            attempt = Attempt(self._gateway, job, self._name, Place(self._places, self._wake))
            task = asyncio.create_task(self._run(attempt))
            self._running[task] = attempt
            task.add_done_callback(self._over)

    async def _ask(self) -> Job | None:
        settings = self._gateway.settings
        return await self._gateway.store.claim(self._name, settings.background_lease, settings.background_attempts)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._wake()

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
        finally:
            attempt.place.leave()
