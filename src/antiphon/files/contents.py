"""The contents of files: in a folder, or in the database that several gateways share."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.store.files import files
from antiphon.store.files.opened import TemporaryFolder, remove_leftovers
from antiphon.store.operations import Database

T = TypeVar("T")

# Contents are written and read in pieces of this size, in bytes.
PIECE = 256 * 1024
# How many contents without a file are removed at a time.
MOST_LOST = 100
# Of the folder for the copy of a file that is in the database.
LOCAL_COPY = "antiphon-file-"

NOT_WRITTEN = "The file could not be stored: {reason}."
NOT_COPIED = "The file could not be copied to the disk of the gateway: {reason}."
GONE = "The contents of the file are not all there: it is being deleted."


class ContentWriter(Protocol):
    async def write(self, piece: bytes) -> None: ...

    async def finish(self) -> None:
        """All of it is there, and stays there."""

    async def discard(self) -> None:
        """Removes what was written."""


class Contents(Protocol):
    async def begin(self, id: str) -> ContentWriter: ...

    def read(self, id: str) -> AsyncIterator[bytes]: ...

    async def part(self, id: str, start: int, size: int) -> bytes:
        """So many bytes of it, from this place on: fewer, if it ends before."""

    def local_copy(self, id: str) -> AbstractAsyncContextManager[Path]:
        """A path under which it can be read, and must not be changed."""

    async def remove(self, id: str) -> None: ...

    async def remove_lost(self, age: float) -> int:
        """Removes contents that have no file, and were written longer ago than this, in seconds. Returns how many."""


async def in_thread(work: Callable[[], T]) -> T:
    """Waits for the end of the work also if it is cancelled: what the thread uses must not be closed before."""
    task = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


# ---- in a folder -----------------------------------------------------------------------------------------------------

# In the folder of the files; and the end of a name while its contents arrive.
FOLDER = "contents"
UNFINISHED = ".part"


class FolderContents:
    """The name of a file in the folder is its id, whatever its owner calls it."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._folder = folder / FOLDER
        self._database = database

    def _path(self, id: str) -> Path:
        return self._folder / id

    async def begin(self, id: str) -> ContentWriter:
        try:
            return FolderWriter(self._path(id), await in_thread(lambda: self._create(id)))
        except OSError as failed:
            raise StoreUnavailable(NOT_WRITTEN.format(reason=failed.strerror)) from failed

    def _create(self, id: str) -> BinaryIO:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(id + UNFINISHED)
        return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb", buffering=0)

    async def read(self, id: str) -> AsyncIterator[bytes]:
        try:
            file = await in_thread(lambda: self._path(id).open("rb", buffering=0))
        except OSError as gone:
            raise StoreUnavailable(GONE) from gone
        try:
            while piece := await in_thread(lambda: file.read(PIECE)):
                yield piece
        finally:
            file.close()

    async def part(self, id: str, start: int, size: int) -> bytes:
        try:
            return await in_thread(lambda: _read_part(self._path(id), start, size))
        except OSError as gone:
            raise StoreUnavailable(GONE) from gone

    @contextlib.asynccontextmanager
    async def local_copy(self, id: str) -> AsyncIterator[Path]:
        yield self._path(id)

    async def remove(self, id: str) -> None:
        await in_thread(lambda: self._path(id).unlink(missing_ok=True))

    async def remove_lost(self, age: float) -> int:
        old = await in_thread(lambda: list(self._older_than(time.time() - age)))
        whole = [name for name in old if not name.endswith(UNFINISHED)]
        known = await self._database.read(files.existing(whole)) if whole else set()
        lost = [name for name in old if name not in known]
        for name in lost:
            await self.remove(name)
        return len(lost)

    def _older_than(self, until: float) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime <= until:
                        yield entry.name


def _read_part(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _write(file: BinaryIO, piece: bytes) -> None:
    """All of it: the system may take only a part, such as on a disk that is almost full."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


class FolderWriter:
    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    async def write(self, piece: bytes) -> None:
        await self._within(lambda: _write(self._file, piece))

    async def finish(self) -> None:
        await self._within(self._finish)

    async def discard(self) -> None:
        self._file.close()
        # At once: who discards it may have been cancelled.
        for path in (self._unfinished, self._path):
            path.unlink(missing_ok=True)

    @property
    def _unfinished(self) -> Path:
        return self._path.with_name(self._path.name + UNFINISHED)

    async def _within(self, work: Callable[[], None]) -> None:
        try:
            await in_thread(work)
        except OSError as failed:
            raise StoreUnavailable(NOT_WRITTEN.format(reason=failed.strerror)) from failed

    def _finish(self) -> None:
        # What was acknowledged survives a power cut.
        os.fsync(self._file.fileno())
        self._file.close()
        self._unfinished.replace(self._path)


# ---- in the database -------------------------------------------------------------------------------------------------


class DatabaseContents:
    def __init__(self, database: Database) -> None:
        remove_leftovers(LOCAL_COPY)
        self._database = database

    async def begin(self, id: str) -> ContentWriter:
        return DatabaseWriter(self, id, self._database)

    async def read(self, id: str) -> AsyncIterator[bytes]:
        number = 0
        while (piece := await self._database.read(files.read_part(id, number))) is not None:
            yield piece
            number += 1

    async def part(self, id: str, start: int, size: int) -> bytes:
        # Every piece but the last has this size.
        number, end, pieces = start // PIECE, start + size, list[bytes]()
        while number * PIECE < end and (piece := await self._database.read(files.read_part(id, number))) is not None:
            first = number * PIECE
            pieces.append(piece[max(0, start - first) : end - first])
            number += 1
        return b"".join(pieces)

    @contextlib.asynccontextmanager
    async def local_copy(self, id: str) -> AsyncIterator[Path]:
        folder = TemporaryFolder(LOCAL_COPY)
        try:
            path = folder.path / id
            try:
                with path.open("wb", buffering=0) as copy:
                    async for piece in self.read(id):
                        await in_thread(lambda piece=piece: _write(copy, piece))  # type: ignore[misc]
            except OSError as failed:
                raise StoreUnavailable(NOT_COPIED.format(reason=failed.strerror)) from failed
            yield path
        finally:
            folder.remove()

    async def remove(self, id: str) -> None:
        while await self._database.write(files.remove_parts(id)):
            pass

    async def remove_lost(self, age: float) -> int:
        lost = await self._database.read(files.lost_parts(int(self._database.clock() - age), MOST_LOST))
        for id in lost:
            await self.remove(id)
        return len(lost)


class DatabaseWriter:
    def __init__(self, contents: DatabaseContents, id: str, database: Database) -> None:
        self._contents = contents
        self._id = id
        self._database = database
        self._parts = 0

    async def write(self, piece: bytes) -> None:
        await self._database.write(files.add_part(self._id, self._parts, piece, int(self._database.clock())))
        self._parts += 1

    async def finish(self) -> None:
        """Every part was written durably. But an upload that took too long may have been swept meanwhile."""
        if await self._database.read(files.count_parts(self._id)) != self._parts:
            raise StoreUnavailable(NOT_WRITTEN.format(reason="it took too long to arrive"))

    async def discard(self) -> None:
        await self._contents.remove(self._id)
