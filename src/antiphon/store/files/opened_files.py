"""The files beside a store: in a temporary folder, or beside a SQLite file."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from antiphon.store.file_store import FileStore
from antiphon.store.files.file_schema import FILE_MIGRATIONS
from antiphon.store.files.lazy_database import LazyDatabase
from antiphon.store.files.temporary_folders import TemporaryFolder, remove_leftovers
from antiphon.store.sql.database import Database
from antiphon.store.sqlite.database import open_sqlite
from antiphon.store.wakeups import Wakeups

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
