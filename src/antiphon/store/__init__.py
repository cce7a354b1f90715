"""The store of responses, conversations and background jobs: one Protocol, kept in memory, in SQLite or in Postgres."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from antiphon.installation import missing_extra
from antiphon.store.files.opened import files_beside
from antiphon.store.memory.store import MemoryStore
from antiphon.store.protocol import CannotOpen, FileStore, IdTaken, Store
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite.database import open_sqlite
from antiphon.store.wakeups import POLL_SECONDS, WakeupRelay, Wakeups

__all__ = ["POSTGRES", "CannotOpen", "IdTaken", "Store", "default_url", "open_store", "sqlite_file"]

POSTGRES = frozenset({"postgresql", "postgres"})
SCHEMES = "sqlite:PATH, postgresql://…, memory:"


def sqlite_file(url: str) -> Path | None:
    """The file of a store in SQLite."""
    scheme, _, path = url.partition(":")
    return Path(path).expanduser().absolute() if scheme == "sqlite" and path else None


def default_url(data_directory: Path) -> str:
    return f"sqlite:{data_directory / 'responses.db'}"


@contextlib.asynccontextmanager
async def closing_files(files: FileStore) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await files.close()


@contextlib.asynccontextmanager
async def open_store(
    url: str,
    clock: Callable[[], float] | None = None,
    *,
    poll: float = POLL_SECONDS,
    relay: WakeupRelay | None = None,
    writer: str | None = None,
) -> AsyncIterator[Store]:
    """The store at this URL, ready for use. Raises CannotOpen.

    `clock` replaces the store's own clock in tests; `poll` is the longest wait of a `Wakeup`, in seconds. `relay`: wakes
    those in other processes of this gateway that use the same file. `writer`: the socket of the process that writes to it for
    all of them.
    """
    scheme, _, rest = url.partition(":")
    wakeups = Wakeups(poll)
    if scheme == "memory":
        memory = MemoryStore(clock or time.time, wakeups)
        async with closing_files(memory.files):
            yield memory
    elif scheme == "sqlite" and rest:
        file_wakeups = Wakeups(poll)
        if relay is not None:
            relay.join(wakeups)
            relay.join(file_wakeups)
        files = files_beside(rest, file_wakeups, clock)
        async with open_sqlite(rest, wakeups, clock, writer=writer) as database, closing_files(files):
            yield SqlStore(database, files)
    elif scheme in POSTGRES:
        try:
            from antiphon.store.postgres.database import files_in_postgres, open_postgres
        except ImportError:
            raise CannotOpen(missing_extra("the Postgres store", "postgres")) from None
        files = files_in_postgres(url, Wakeups(poll), clock)
        async with open_postgres(url, wakeups, clock) as server, closing_files(files):
            # The server says when they change.
            yield SqlStore(server, files, key_poll=poll)
    else:
        raise CannotOpen(f"{url!r} is not the URL of a store; it must be one of: {SCHEMES}")
