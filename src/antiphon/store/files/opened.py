"""The database of files and the folder of their contents, opened when they are first used; and folders that go with their
process. If it was killed, the next one removes them: a lock says whether it still lives."""

import asyncio
import contextlib
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.files.schema import FILE_MIGRATIONS
from antiphon.store.operations import Database, Operation
from antiphon.store.protocol import CannotOpen, FileStore
from antiphon.store.sqlite.database import open_sqlite
from antiphon.store.wakeups import Wakeups

LOCK = "lock"


class TemporaryFolder:
    def __init__(self, prefix: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=prefix)
        self.path = Path(self._folder.name)
        # It gets its name when it is locked: before that, others would take it for one that was left.
        unlocked = self.path / "unlocked"
        self._lock = unlocked.open("wb")
        with suppress(OSError):
            _try_to_lock(self._lock)
            unlocked.rename(self.path / LOCK)

    def remove(self) -> None:
        self._lock.close()
        self._folder.cleanup()


def remove_leftovers(prefix: str) -> int:
    """What killed processes of this user have left. How many there were."""
    if os.name != "posix":
        return 0
    count = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        # Not there any more, another user's, or in use.
        with suppress(OSError):
            if _is_own(folder):
                with (folder / LOCK).open("rb") as lock:
                    _try_to_lock(lock)
                    shutil.rmtree(folder)
                    count += 1
    return count


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _try_to_lock(file: BinaryIO) -> None:
    """Raises OSError if another process has it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


T = TypeVar("T")


class LazyDatabase:
    def __init__(
        self, open: Callable[[], AbstractAsyncContextManager[Database]], wakeups: Wakeups, clock: Callable[[], float]
    ) -> None:
        """`clock`: as long as it is not open."""
        self.wakeups = wakeups
        self._open = open
        self._clock = clock
        self._opened: Database | None = None
        self._opening = asyncio.Lock()
        self._resources = AsyncExitStack()

    def clock(self) -> float:
        return self._clock() if self._opened is None else self._opened.clock()

    async def read(self, operation: Operation[T]) -> T:
        return await (await self.opened()).read(operation)

    async def write(self, operation: Operation[T]) -> T:
        return await (await self.opened()).write(operation)

    async def maintain(self, operation: Operation[T]) -> T:
        return await (await self.opened()).maintain(operation)

    async def opened(self) -> Database:
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    try:
                        self._opened = await self._resources.enter_async_context(self._open())
                    except (CannotOpen, OSError) as reason:
                        # Where the database is, is not for clients.
                        log("store_error", level=logging.WARNING, store="files", error=str(reason))
                        raise StoreUnavailable from reason
        return self._opened

    async def close(self) -> None:
        await self._resources.aclose()
        self._opened = None


# ---- where the files of a store are ----------------------------------------------------------------------------------

# In the folder of the files.
DATABASE = "files.db"
# Of the folder beside a store in memory.
IN_MEMORY = "antiphon-files-"
# Of the folder beside a SQLite file.
FILES_SUFFIX = ".files"


def files_in_memory(clock: Callable[[], float] = time.time, wakeups: Wakeups | None = None) -> FileStore:
    """Beside a store in memory: in a folder that is removed at the end."""
    remove_leftovers(IN_MEMORY)
    made: list[TemporaryFolder] = []

    def folder() -> Path:
        if not made:
            made.append(TemporaryFolder(IN_MEMORY))
        return made[0].path

    woken = wakeups or Wakeups()

    @contextlib.asynccontextmanager
    async def open() -> AsyncIterator[Database]:
        async with open_sqlite(str(folder() / DATABASE), woken, clock, migrations=FILE_MIGRATIONS) as database:
            yield database

    database = LazyDatabase(open, woken, clock)

    async def close() -> None:
        await database.close()
        # It may be there without the database: an upload has begun, and was refused.
        if made:
            await asyncio.to_thread(made.pop().remove)

    return FileStore(database, folder, lambda: bool(made), close)


def files_beside(path: str, wakeups: Wakeups, clock: Callable[[], float] | None) -> FileStore:
    """Beside a SQLite file: responses.db has its files in responses.files."""
    folder = Path(path).expanduser().with_suffix(FILES_SUFFIX)

    def open() -> contextlib.AbstractAsyncContextManager[Database]:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open_sqlite(str(folder / DATABASE), wakeups, clock, migrations=FILE_MIGRATIONS)

    database = LazyDatabase(open, wakeups, clock or time.time)
    return FileStore(database, lambda: folder, (folder / DATABASE).exists, database.close)
