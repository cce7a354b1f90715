"""Listens for the notifications that other gateways send through Postgres, on a connection of its own."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from antiphon.logs import log
from antiphon.store.wakeups import Wakeups

# In seconds. A connection can die without a sign, so it is checked this often.
CHECK_INTERVAL = 15.0
ANSWER_TIMEOUT = 5.0
FIRST_RETRY = 0.5
LONGEST_RETRY = 5.0
CONNECTION_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Listener:
    """Turns notifications into wakeups, and reconnects when the connection is lost."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        channel: str,
        wakeups: Wakeups,
        check: Callable[[Any], Awaitable[None]],
    ) -> None:
        """`check` queries the server. It is called with every new connection, and then at every interval."""
        self._connect = connect
        self._channel = channel
        self._wakeups = wakeups
        self._check = check
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
        delay = FIRST_RETRY
        while True:
            connection: Any = None
            try:
                connection = await self._connect()
                await self._listen(connection)
                delay = FIRST_RETRY
                await self._check_until_lost(connection)
            except CONNECTION_ERRORS as error:
                log("store_listener_lost", level=logging.WARNING, store="postgres", error=f"{type(error).__name__}: {error}")
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_RETRY)

    async def _listen(self, connection: Any) -> None:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await self._check(connection)
            await connection.add_listener(self._channel, self._on_notification)
        # Notifications sent before this moment are lost, so every subscriber checks the store.
        self._wakeups.wake_all()
        self._listening.set()

    def _on_notification(self, connection: Any, pid: int, channel: str, topic: object) -> None:
        self._wakeups.wake(str(topic))

    async def _check_until_lost(self, connection: Any) -> None:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        while not lost.is_set() and not connection.is_closed():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await lost.wait()
            if not lost.is_set():
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    await self._check(connection)
