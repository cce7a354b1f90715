"""The line on which Postgres tells of changes in other gateways: a connection of its own, made anew when it is lost."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from antiphon.logs import log
from antiphon.store.wakeups import Belfry

# A line that died without a word is found out after this long.
PULSE = 15.0
ANSWER = 5.0
RETRY = 0.5
SLOWEST_RETRY = 5.0
TROUBLE = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Listener:
    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        channel: str,
        bells: Belfry,
        greet: Callable[[Any], Awaitable[None]],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._bells = bells
        # Called with each new connection, and at every pulse.
        self._greet = greet
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Returns once it listens."""
        self._task = asyncio.create_task(self._run())
        await self._listening.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        wait = RETRY
        while True:
            connection: Any = None
            try:
                connection = await self._connect()
                await self._listen(connection)
                wait = RETRY
                await self._keep(connection)
            except TROUBLE as error:
                log("store_line_lost", level=logging.WARNING, store="postgres", error=f"{type(error).__name__}: {error}")
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(wait)
            wait = min(2 * wait, SLOWEST_RETRY)

    async def _listen(self, connection: Any) -> None:
        async with asyncio.timeout(ANSWER):
            await self._greet(connection)
            await connection.add_listener(self._channel, self._hear)
        # What rang while nobody listened is not known: everyone looks again.
        self._bells.ring_all()
        self._listening.set()

    def _hear(self, connection: Any, pid: int, channel: str, name: object) -> None:
        self._bells.ring(str(name))

    async def _keep(self, connection: Any) -> None:
        """Until the line is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        while not lost.is_set() and not connection.is_closed():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PULSE):
                    await lost.wait()
            if not lost.is_set():
                async with asyncio.timeout(ANSWER):
                    await self._greet(connection)
