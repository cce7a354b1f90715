"""The workers of one gateway: they claim background responses, and run several of them at once."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from antiphon.errors import ApiError, ShuttingDown, StoreUnavailable
from antiphon.gateway.background.attempts import Attempt, BackgroundOptions, job_to_arrival, read_request
from antiphon.gateway.limits.places import Place, PlaceQueue
from antiphon.gateway.runs.gateway import Gateway
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.store.records import Job
from antiphon.store.wakeups import Wakeup

# How long it may take to give responses back, or to end those that nobody can take over, in seconds.
CLOSING_TIME = 2.0
# For each response that runs, so many are claimed: the others wait for a conversation or an engine.
CLAIMED_PER_PLACE = 4


class Workers:
    """`start()`, then `stop()`, and `close()` once those that run have had their time."""

    def __init__(self, gateway: Gateway, options: BackgroundOptions) -> None:
        self._gateway = gateway
        self._options = options
        self._name = new_id("worker")
        self._running: dict[asyncio.Task[None], Attempt] = {}
        # Places at the engines: so many background responses run at once. One that waits for something else leaves its own.
        self._places = PlaceQueue(options.workers, self._wake)
        self._wakeup: Wakeup | None = None
        self._stopped = False
        # The owners that have been served.
        self._served: set[str] = set()
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._options.workers:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        with self._gateway.store.follow_jobs() as wakeup:
            self._wakeup = wakeup
            # A job that was left alone because of its owner may be claimed now.
            self._gateway.admission.owners.when_freed = wakeup.wake
            while not self._stopped:
                try:
                    await self._claim()
                except ApiError as away:
                    log("no_background_work", level=logging.WARNING, reason=away.message)
                await wakeup.wait()

    def stop(self) -> None:
        """Nothing more is begun. What waits is given back at once."""
        self._stopped = True
        self._wake()
        for task, attempt in self._running.items():
            if not attempt.place.taken:
                self._release(task)

    async def close(self) -> None:
        if self._working is not None:
            await self._working
        tasks = list(self._running)
        for task in tasks:
            self._release(task)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_TIME)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _release(self, task: asyncio.Task[None]) -> None:
        """Gives it back, so that another gateway takes it at once, or ends it properly where none can."""
        if not self._gateway.store.survives_restart:
            self._running[task].end(ShuttingDown())
        elif not task.cancelling():
            task.cancel()

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.wake()

    async def _claim(self) -> None:
        most = CLAIMED_PER_PLACE * self._options.workers
        now = self._gateway.admission.now
        while not self._places.is_full and len(self._running) < most and not self._stopped:
            place = Place(self._places, "", now, patient=True)
            place.take_at_once()
            job = None
            try:
                job = await self._ask()
            finally:
                if job is None:
                    self._places.give_back(place, now())
            if job is None:
                return
            arrival = job_to_arrival(job)
            read = await read_request(arrival, self._gateway)
            attempt = Attempt(self._gateway, self._options, job, self._name, place, arrival, read)
            task = asyncio.create_task(self._run(attempt))
            self._running[task] = attempt
            task.add_done_callback(self._over)

    async def _ask(self) -> Job | None:
        """A job of an owner that may begin a response. Owners take turns, so that nobody's jobs wait until all of another's
        have been run."""
        claim = partial(self._gateway.store.claim, self._name, self._options.lease, self._options.attempts)
        full = self._gateway.admission.owners.full_owners()
        job = await claim(self._served | full) if self._served else None
        if job is None:
            self._served.clear()
            job = await claim(full)
        if job is not None:
            self._served.add(job.record.owner)
        return job

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._wake()

    async def _run(self, attempt: Attempt) -> None:
        id = attempt.job.record.id
        try:
            await attempt.run()
        except asyncio.CancelledError:
            # Giving it back uses up no attempt. A response that crashes its gateways still comes to an end: only a gateway
            # that shuts down in order gives anything back.
            with suppress(StoreUnavailable):
                await self._gateway.store.give_back(self._name, [id])
            raise
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug, response_id=id)
        finally:
            attempt.place.leave()
