"""The files of vector stores are indexed in the background: claimed with a lease, several at once, their owners in turn.

A gateway that dies leaves its files to the next one, which continues behind the last chunk that was written. Beside that, what
was deleted is removed, part by part.
"""

import asyncio
import logging
from contextlib import suppress

from antiphon.errors import ApiError
from antiphon.files.vector_stores.attempts import IndexerParts, IndexingAttempt
from antiphon.logs import log
from antiphon.store.files import indexing
from antiphon.store.files import vector_stores as operations
from antiphon.store.files.records import IndexingJob
from antiphon.store.files.vector_stores import INDEXING
from antiphon.store.wakeups import Wakeup

# How many documents are looked up at once to be removed.
DISCARDED_AT_ONCE = 50
# Seconds that it may take to give files back.
CLOSING_TIME = 2.0


class Indexer:
    """`start()`, then `stop()`, and `close()`."""

    def __init__(self, parts: IndexerParts) -> None:
        self._parts = parts
        self._options = parts.options
        self._database = parts.stored.database
        self._running: dict[asyncio.Task[None], IndexingAttempt] = {}
        # The owner that was served last.
        self._served: str | None = None
        self._wakeup: Wakeup | None = None
        self._stopped = False
        # When leases are renewed next, by the clock of the loop.
        self._renew_at = 0.0
        # When vectors that are missing are made, at the earliest.
        self._embedding_at = 0.0
        self._working: asyncio.Task[None] | None = None
        self._cleaning: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._options.workers:
            self._working = asyncio.create_task(self._work())

    def stop(self) -> None:
        """Nothing more is begun. What runs is given back, so that another gateway takes it at once."""
        self._stopped = True
        self._wake()
        for task in self._running:
            if not task.cancelling():
                task.cancel()

    async def close(self) -> None:
        self.stop()
        if self._working is not None:
            await self._working
        # It may have claimed one more.
        self.stop()
        tasks = [*self._running, *([self._cleaning] if self._cleaning is not None else ())]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_TIME)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.wake()

    async def _work(self) -> None:
        with self._database.wakeups.subscribe(INDEXING) as wakeup:
            self._wakeup = wakeup
            while not self._stopped:
                # Where there is nothing yet, nothing is opened.
                if self._parts.stored.is_used():
                    await self._look()
                # Leases are renewed in time, whatever the poll interval is.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._options.lease / 3):
                        await wakeup.wait()

    async def _look(self) -> None:
        try:
            await self._renew()
            await self._claim()
        except ApiError as away:
            log("not_indexing", level=logging.WARNING, reason=away.message)
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = asyncio.create_task(self._clean())

    # ---- claims ------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        attempts = dict(self._running)
        if not attempts:
            return
        records = [attempt.record for attempt in attempts.values()]
        kept = await self._database.read(indexing.still_leased(self._parts.name, records))
        for task, attempt in attempts.items():
            if attempt.record.document not in kept and not task.cancelling():
                attempt.is_lost = True
                task.cancel()
        # Not at each of the many looks: a write waits for the disk.
        if (now := asyncio.get_running_loop().time()) >= self._renew_at:
            lease = self._options.lease
            await self._database.write(indexing.renew(self._parts.name, records, lease, self._database.clock()))
            self._renew_at = now + lease / 3

    async def _claim(self) -> None:
        while len(self._running) < self._options.workers and not self._stopped:
            # A look does not wait for those who write.
            if not await self._database.read(indexing.is_work_left(self._database.clock())):
                return
            job = await self._next()
            if job is None:
                return
            self._served = job.record.owner
            attempt = IndexingAttempt(self._parts, job)
            task = asyncio.create_task(attempt.run())
            self._running[task] = attempt
            task.add_done_callback(self._over)

    async def _next(self) -> IndexingJob | None:
        """Owners take turns. One of them may have all places but one, so that nobody waits for all of another's files."""
        owners = [attempt.record.owner for attempt in self._running.values()]
        own_places = max(1, self._options.workers - 1)
        full = {owner for owner in owners if owners.count(owner) >= own_places}
        now = self._database.clock()
        return await self._database.write(indexing.claim(self._parts.name, self._options.lease, self._served, full, now))

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._wake()

    # ---- what was deleted --------------------------------------------------------------------------------------------

    async def _clean(self) -> None:
        try:
            while not self._stopped and (found := await self._database.read(operations.discarded(DISCARDED_AT_ONCE))):
                for store, document in found:
                    await self._remove(store, document)
            await self._embed_later()
        except ApiError as away:
            log("not_removed", level=logging.WARNING, reason=away.message)
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug)

    async def _embed_later(self) -> None:
        """If that could not be done, it is not tried again at once."""
        now = self._database.clock()
        if now < self._embedding_at:
            return
        while not self._stopped and await self._parts.index.embed_later():
            pass
        self._embedding_at = now + self._options.retry_interval

    async def _remove(self, store: str, document: str) -> None:
        if document:
            await self._parts.index.remove(store, document)
        else:
            await self._parts.index.remove_store(store)
            while await self._database.write(operations.remove_some(store)):
                pass
        await self._database.write(operations.is_removed(store, document))
