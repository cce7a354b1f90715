"""The store of responses, conversations and background jobs: one Protocol, kept in memory, in SQLite or in Postgres."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from antiphon.store.memory import MemoryStore
from antiphon.store.protocol import CannotOpen, IdTaken, Store
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite import open_sqlite
from antiphon.store.wakeups import POLL_SECONDS, Wakeups

__all__ = ["CannotOpen", "IdTaken", "Store", "default_url", "open_store"]

SCHEMES = "sqlite:PATH, postgresql://…, memory:"


def default_url(data_directory: Path) -> str:
    return f"sqlite:{data_directory / 'responses.db'}"


@contextlib.asynccontextmanager
async def open_store(url: str, clock: Callable[[], float] | None = None, *, poll: float = POLL_SECONDS) -> AsyncIterator[Store]:
    """The store at this URL, ready for use. Raises CannotOpen.

    `clock` replaces the store's own clock in tests; `poll` is the longest wait of a `Wakeup`, in seconds.
    """
    scheme, _, rest = url.partition(":")
    wakeups = Wakeups(poll)
    if scheme == "memory":
        yield MemoryStore(clock or time.time, wakeups)
    elif scheme == "sqlite" and rest:
        async with open_sqlite(rest, wakeups, clock) as database:
            yield SqlStore(database)
    elif scheme in {"postgresql", "postgres"}:
        try:
            from antiphon.store.postgres import open_postgres
        except ImportError:
            raise CannotOpen("the Postgres store needs the package asyncpg. Install it with: pip install asyncpg") from None
        async with open_postgres(url, wakeups, clock) as server:
            yield SqlStore(server)
    else:
        raise CannotOpen(f"{url!r} is not the URL of a store; it must be one of: {SCHEMES}")
