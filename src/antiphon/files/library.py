"""The files that clients have uploaded: their rows in the database, their contents beside it, and how much may be stored."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path

from msgspec import Struct

from antiphon.errors import BodyTooLarge, StoreUnavailable, counted
from antiphon.files.contents import GONE, PIECE, Contents, ContentWriter, DatabaseContents, FolderContents
from antiphon.store.files import files as operations
from antiphon.store.files.files import BytesUsed
from antiphon.store.files.records import NEVER, FileRecord
from antiphon.store.protocol import FileStore

TOO_LARGE = "The file is larger than {most}, the most that one file may have here (`files.max_file_bytes`)."
KEY_IS_FULL = (
    "There is no room for this file: the files of this key may have {most} (`files.key_bytes`), and have {used} without it. "
    "Delete some of them first."
)
ALL_IS_FULL = (
    "There is no room for this file: all files of this gateway may have {most} (`files.max_bytes`). Delete some files, or ask "
    "the operator for more room."
)


class FileLimits(Struct, frozen=True):
    """In bytes: of one file; of the files of one key, None for no limit; of all files."""

    file: int = 512 * 1024**2
    key: int | None = None
    all: int = 10 * 1024**3

    def check_size(self, size: int) -> None:
        if size > self.file:
            raise BodyTooLarge(TOO_LARGE.format(most=counted(self.file, "byte")), param="file", code="file_too_large")

    def check_room(self, used: BytesUsed, more: BytesUsed) -> None:
        """Raises if there is no room for so many more bytes, those of others that arrive now included."""
        if self.key is not None and used.owner + more.owner > self.key:
            words = KEY_IS_FULL.format(most=counted(self.key, "byte"), used=counted(used.owner, "byte"))
            raise BodyTooLarge(words, param="file", code="file_storage_full")
        if used.all + more.all > self.all:
            raise BodyTooLarge(ALL_IS_FULL.format(most=counted(self.all, "byte")), param="file", code="file_storage_full")


# Seconds after which contents without a file are not expected to get one: an upload may take its time.
LOST_AGE = 3600.0
# How many files are removed at a time.
SWEPT_FILES = 100

OnDelete = Callable[[str], Awaitable[None]]


class FileLibrary:
    """The files of every owner. What belongs to another owner is not found."""

    def __init__(
        self, files: FileStore, limits: FileLimits, new_id: Callable[[str], str], *, lost_age: float = LOST_AGE
    ) -> None:
        """`lost_age`: how old contents without a file are before they are removed, in seconds."""
        self._files = files
        self._database = files.database
        self.limits = limits
        self._new_id = new_id
        self._lost_age = lost_age
        self._opened: Contents | None = None
        # The bytes of uploads that have not ended, by their owners.
        self._arriving: Counter[str] = Counter()
        # Called with the id of each file that is about to be removed. May be called again for the same one.
        self.on_delete: list[OnDelete] = []

    @property
    def _contents(self) -> Contents:
        if self._opened is None:
            folder = self._files.folder()
            database = self._database
            self._opened = DatabaseContents(database) if folder is None else FolderContents(folder, database)
        return self._opened

    def _now(self) -> int:
        return int(self._database.clock())

    # ---- adding ------------------------------------------------------------------------------------------------------

    async def create(
        self,
        owner: str,
        filename: str,
        purpose: str,
        content: AsyncIterator[bytes],
        *,
        expires_after: int | None = None,
        content_type: str | None = None,
    ) -> FileRecord:
        """`expires_after`: in seconds."""
        async with self.receiving(owner) as upload:
            async for piece in content:
                await upload.write(piece)
            return await upload.finish(filename, purpose, expires_after=expires_after, content_type=content_type)

    @contextlib.asynccontextmanager
    async def receiving(self, owner: str, *, is_ours: bool = False) -> AsyncIterator["Upload"]:
        """A file that arrives: `write()` its pieces, then `finish()` it. Nothing is left of one that is not finished.
        `is_ours`: the gateway writes it, and no limit counts: what it has would be lost."""
        used = await self._database.read(operations.bytes_used(owner, self._now()))
        # As OpenAI writes them.
        id = self._new_id("file").replace("_", "-", 1)
        upload = Upload(self, id, owner, None if is_ours else used, await self._contents.begin(id))
        try:
            yield upload
        finally:
            if not is_ours:
                self._arriving[owner] -= upload.size
                self._arriving += Counter()
            await upload.leave()

    def count(self, owner: str, size: int, used: BytesUsed) -> None:
        """So many bytes have come. Raises if there is no room for them, and all others that have come meanwhile."""
        self._arriving[owner] += size
        self.limits.check_room(used, BytesUsed(self._arriving[owner], self._arriving.total()))

    async def add(
        self, id: str, owner: str, size: int, filename: str, purpose: str, expires_after: int | None, content_type: str | None
    ) -> FileRecord:
        """Its contents are there. Raises if there is no room for them."""
        record = self.record_of(id, owner, size, filename, purpose, expires_after, content_type)
        used = await self._database.write(operations.add(record, self.limits.key, self.limits.all, record.created_at))
        if used is not None:
            self.limits.check_room(used, BytesUsed(size, size))
        return record

    def record_of(
        self, id: str, owner: str, size: int, filename: str, purpose: str, expires_after: int | None, content_type: str | None
    ) -> FileRecord:
        now = self._now()
        return FileRecord(
            id=id,
            owner=owner,
            created_at=now,
            expires_at=NEVER if expires_after is None else now + expires_after,
            size=size,
            purpose=purpose,
            filename=filename,
            content_type=content_type,
        )

    async def check_room(self, owner: str) -> None:
        """Raises if there is no room for anything more of this owner."""
        self.limits.check_room(await self._database.read(operations.bytes_used(owner, self._now())), BytesUsed(1, 1))

    # ---- finding -----------------------------------------------------------------------------------------------------

    async def get(self, owner: str, id: str) -> FileRecord | None:
        """None: it is not there, has expired, or is another owner's."""
        return (await self.find(owner, [id])).get(id)

    async def find(self, owner: str, ids: Collection[str]) -> dict[str, FileRecord]:
        if not ids or not self._files.is_used():
            return {}
        return await self._database.read(operations.find(owner, ids, self._now()))

    async def owner_of(self, id: str) -> str | None:
        return await self._database.read(operations.owner_of(id, self._now())) if self._files.is_used() else None

    async def list(
        self, owner: str, *, purpose: str | None = None, after: str | None = None, limit: int, ascending: bool = False
    ) -> list[FileRecord]:
        """By default the newest come first."""
        if not self._files.is_used():
            return []
        page = operations.page(owner, purpose, after, limit, self._now(), ascending=ascending)
        return await self._database.read(page)

    async def read(self, record: FileRecord) -> AsyncIterator[bytes]:
        """The contents, in pieces. Raises StoreUnavailable if they are not all there: the file is being deleted."""
        size = 0
        async for piece in self._contents.read(record.id):
            size += len(piece)
            yield piece
        _check_whole(record, size)

    async def part(self, record: FileRecord, start: int, size: int) -> bytes:
        """So many bytes of the contents. Raises StoreUnavailable if they are not there."""
        part = await self._contents.part(record.id, start, size)
        if len(part) != size:
            raise StoreUnavailable(GONE)
        return part

    @contextlib.asynccontextmanager
    async def local_copy(self, record: FileRecord) -> AsyncIterator[Path]:
        """A path under which the contents can be read, until the end of the block. It must not be changed. Raises like
        `read`."""
        async with self._contents.local_copy(record.id) as path:
            _check_whole(record, path.stat().st_size if path.exists() else 0)
            yield path

    # ---- removing ----------------------------------------------------------------------------------------------------

    async def delete(self, owner: str, id: str) -> bool:
        if await self.get(owner, id) is None:
            return False
        return await self._remove(owner, id)

    async def _remove(self, owner: str, id: str) -> bool:
        """What was made of it goes first: if that fails, the file can be removed again."""
        for forget in self.on_delete:
            await forget(id)
        removed = await self._database.write(operations.delete(owner, id))
        await self._contents.remove(id)
        return removed

    async def remove_contents(self, id: str) -> None:
        """Of what is no file."""
        await self._contents.remove(id)

    async def sweep(self) -> int:
        """Removes files that have expired, and what uploads that died have left. Returns how many."""
        if not self._files.is_used():
            return 0
        swept = await self._contents.remove_lost(self._lost_age)
        while expired := await self._database.read(operations.expired(self._now(), SWEPT_FILES)):
            for record in expired:
                await self._remove(record.owner, record.id)
            swept += len(expired)
        return swept

    async def move_owner(self, earlier: str, owner: str) -> int:
        """Gives all files of an owner to another one. Returns how many."""
        count = 0
        while self._files.is_used() and (moved := await self._database.write(operations.move(earlier, owner))):
            count += moved
        return count


def _check_whole(record: FileRecord, size: int) -> None:
    if size != record.size:
        raise StoreUnavailable(GONE)


class Upload:
    """A file that arrives."""

    def __init__(self, library: FileLibrary, id: str, owner: str, used: BytesUsed | None, writer: ContentWriter) -> None:
        """`used`: None if there is no limit."""
        self._library = library
        self.id = id
        self._owner = owner
        self._used = used
        self._writer = writer
        self._waiting = bytearray()
        self._is_finished = False
        # In bytes, so far.
        self.size = 0

    async def write(self, piece: bytes) -> None:
        """Raises as soon as it is too large."""
        self.size += len(piece)
        if self._used is not None:
            self._library.count(self._owner, len(piece), self._used)
            self._library.limits.check_size(self.size)
        self._waiting += piece
        while len(self._waiting) >= PIECE:
            await self._flush()

    async def _flush(self) -> None:
        waiting = bytes(self._waiting[:PIECE])
        del self._waiting[:PIECE]
        if waiting:
            await self._writer.write(waiting)

    async def finish(
        self, filename: str, purpose: str, *, expires_after: int | None = None, content_type: str | None = None
    ) -> FileRecord:
        await self._close()
        # To its end, also if the client leaves now: a row without contents would be worse than a file that nobody asked for.
        adding = asyncio.create_task(self._add(filename, purpose, expires_after, content_type))
        try:
            return await asyncio.shield(adding)
        except asyncio.CancelledError:
            await asyncio.wait({adding})
            raise

    async def _close(self) -> None:
        await self._flush()
        await self._writer.finish()

    async def close(self, filename: str, purpose: str, expires_after: int | None, content_type: str | None) -> FileRecord:
        """All of it is there. Its row is still to be written; then it is `added()`."""
        await self._close()
        return self._library.record_of(self.id, self._owner, self.size, filename, purpose, expires_after, content_type)

    def added(self) -> None:
        self._is_finished = True

    async def _add(self, filename: str, purpose: str, expires_after: int | None, content_type: str | None) -> FileRecord:
        given = filename, purpose, expires_after, content_type
        record = await self._library.add(self.id, self._owner, self.size, *given)
        self.added()
        return record

    async def leave(self) -> None:
        if not self._is_finished:
            await self._writer.discard()
