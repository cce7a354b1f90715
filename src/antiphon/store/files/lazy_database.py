"""A database that is opened when it is first used. Most gateways have no files, and need not wait for it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.protocol import CannotOpen
from antiphon.store.sql.database import Database
from antiphon.store.sql.operations import Operation
from antiphon.store.wakeups import Wakeups

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
