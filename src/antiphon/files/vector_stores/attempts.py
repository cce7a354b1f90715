"""One attempt to index a file of a vector store: it is read, divided, and its chunks are added behind those that are there."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from msgspec import Struct

from antiphon.errors import ApiError, NotFound, StoreUnavailable
from antiphon.files.texts import UnreadableFile
from antiphon.files.vector_stores.chunking import chunks
from antiphon.files.vector_stores.interfaces import Files, Index, Texts, VectorStoreLimits
from antiphon.logs import log
from antiphon.store.files import indexing
from antiphon.store.files.records import FileRecord, IndexingJob
from antiphon.store.files.vector_store_files import NO_ROOM
from antiphon.store.files.vector_stores import Room, owner_of
from antiphon.store.operations import Operation
from antiphon.store.protocol import FileStore

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

    async def _texts(self) -> list[str]:
        file = await self._file()
        async with self._parts.files.local_copy(file) as path:
            text = await self._parts.texts.text_of(path, file.filename, file.content_type, self.record.owner)
        return await asyncio.to_thread(chunks, text, self.record.chunking)

    async def _file(self) -> FileRecord:
        id, owner = self.record.file, self.record.owner
        found = await self._parts.files.find(owner, [id])
        if id not in found and (now := await self._database.read(owner_of(self.record.store))) not in (None, owner):
            # The owner's key has got a name.
            found = await self._parts.files.find(now or "", [id])
        if id not in found:
            raise NotFound("The file was deleted, or has expired.")
        return found[id]

    async def _add(self, texts: Sequence[str]) -> bool:
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


def _bytes_of(texts: Sequence[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
