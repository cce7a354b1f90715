"""The files of vector stores are indexed in the background: claimed with a lease, several at once, their owners in turn. A file
is read, divided, and its chunks are added behind those that are there.

A gateway that dies leaves its files to the next one, which continues behind the last chunk that was written. Beside that, what
was deleted is removed, part by part.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from msgspec import Struct

from antiphon.errors import ApiError, NotFound, StoreUnavailable
from antiphon.files.file_inputs import UnreadableFile
from antiphon.files.vector_stores.chunking import pieces
from antiphon.files.vector_stores.interfaces import Files, Index, Texts, VectorStoreLimits
from antiphon.files.vector_stores.search.found import Piece
from antiphon.logs import log
from antiphon.store.files import indexing
from antiphon.store.files import vector_stores as operations
from antiphon.store.files.records import FileRecord, IndexingJob
from antiphon.store.files.vector_store_files import NO_ROOM
from antiphon.store.files.vector_stores import INDEXING, Room, owner_of
from antiphon.store.operations import Operation
from antiphon.store.protocol import FileStore
from antiphon.store.wakeups import Wakeup

NOT_READ = "The file could not be read: {reason}."
BUG = "The file could not be indexed because of an error in the gateway. Its log has the details."


class IndexerOptions(Struct, frozen=True):
    # Files that one gateway indexes at once. One owner has all of these places but one.
    workers: int = 3
    # Seconds after which a file of a gateway that has died is taken over.
    lease: float = 30.0
    # Attempts without a result after which a file has failed.
    attempts: int = 3
    # Seconds until a file is tried again, after an error that may pass.
    retry_interval: float = 10.0
    # Chunks that are written at once.
    chunks: int = 100


DEFAULT_INDEXING = IndexerOptions()


class IndexerParts(Struct, frozen=True):
    """What every attempt uses. `name`: of this gateway, among all that use the store."""

    name: str
    stored: FileStore
    files: Files
    texts: Texts
    index: Index
    options: IndexerOptions = DEFAULT_INDEXING
    room: Room = VectorStoreLimits().room


class IndexingAttempt:
    def __init__(self, parts: IndexerParts, job: IndexingJob) -> None:
        self._parts = parts
        self._database = parts.stored.database
        self._job = job
        self.record = job.record
        # It is not wanted any more, or another gateway has taken it over.
        self.is_lost = False

    async def run(self) -> None:
        try:
            await self._run()
        except asyncio.CancelledError:
            with suppress(StoreUnavailable):
                await self._leave()
            raise
        except UnreadableFile as unreadable:
            await self._end(self._fail(unreadable.code, unreadable.message))
        except ApiError as away:
            await self._end(self._try_again(away))
        except OSError as failed:
            await self._end(self._try_again(ApiError(NOT_READ.format(reason=failed.strerror or failed))))
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug, vector_store=self.record.store, file=self.record.file)
            await self._end(self._fail("server_error", BUG))

    async def _end(self, ending: Awaitable[None]) -> None:
        """If the store is away, the lease ends by itself."""
        with suppress(StoreUnavailable):
            await ending

    async def _run(self) -> None:
        if self._job.lost >= self._parts.options.attempts:
            message = f"The gateway ended {self._job.lost} times while it read this file."
            await self._fail("server_error", message)
            return
        texts = await self._texts()
        size = await asyncio.to_thread(_bytes_of, texts)
        if not await self._database.write(indexing.reserve(self._parts.name, self.record, size, self._parts.room)):
            await self._fail("server_error", NO_ROOM)
        elif await self._add(texts):
            await self._keep(indexing.finish(self._parts.name, self.record))

    async def _texts(self) -> list[Piece]:
        file = await self._file()
        async with self._parts.files.local_copy(file) as path:
            text = await self._parts.texts.text_of(path, file.filename, file.content_type, self.record.owner)
        return await asyncio.to_thread(pieces, text, self.record.chunking)

    async def _file(self) -> FileRecord:
        id, owner = self.record.file, self.record.owner
        found = await self._parts.files.find(owner, [id])
        if id not in found and (now := await self._database.read(owner_of(self.record.store))) not in (None, owner):
            # The owner's key has got a name.
            found = await self._parts.files.find(now or "", [id])
        if id not in found:
            raise NotFound("The file was deleted, or has expired.")
        return found[id]

    async def _add(self, texts: Sequence[Piece]) -> bool:
        """False: it is lost."""
        store, document, most = self.record.store, self.record.document, self._parts.options.chunks
        done = await self._parts.index.count(store, document)
        for first in range(done, len(texts), most):
            await self._parts.index.add(store, document, texts[first : first + most], first=first)
            is_last = first + most >= len(texts)
            if not is_last and not await self._keep(self._report()):
                return False
        return True

    def _report(self) -> Operation[bool]:
        return indexing.report(self._parts.name, self.record, self._parts.options.lease, self._database.clock())

    async def _keep(self, operation: Operation[bool]) -> bool:
        if await self._database.write(operation):
            return True
        self.is_lost = True
        await self._leave()
        return False

    async def _leave(self) -> None:
        """Another gateway may continue with it, unless it is not wanted any more."""
        if self.is_lost:
            await self._database.write(indexing.discard(self.record))
        else:
            now = self._database.clock()
            await self._database.write(indexing.give_back(self._parts.name, self.record, now, is_lost=False))

    async def _fail(self, code: str, message: str) -> None:
        await self._database.write(indexing.fail(self._parts.name, self.record, code, message))

    async def _try_again(self, away: ApiError) -> None:
        is_counted = not isinstance(away, StoreUnavailable)
        if is_counted and self._job.lost + 1 >= self._parts.options.attempts:
            code = "invalid_file" if isinstance(away, NotFound) else "server_error"
            await self._fail(code, away.message)
            return
        available_at = self._database.clock() + self._parts.options.retry_interval
        await self._database.write(indexing.give_back(self._parts.name, self.record, available_at, is_lost=is_counted))


def _bytes_of(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.text.encode("utf-8", "surrogatepass")) for piece in pieces)


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
        self._parts.index.arrange()
        # A change of the model may take hours.
        while not self._stopped and await self._parts.index.embed_later():
            self._parts.index.arrange()
        self._embedding_at = now + self._options.retry_interval

    async def _remove(self, store: str, document: str) -> None:
        if document:
            await self._parts.index.remove(store, document)
        else:
            await self._parts.index.remove_store(store)
            while await self._database.write(operations.remove_some(store)):
                pass
        await self._database.write(operations.is_removed(store, document))
