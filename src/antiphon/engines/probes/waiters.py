"""Requests that wait for the probe of a model's tools: without it, the first turns would be sent in another form than the
later ones."""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any


class ProbeWaiters:
    """Of one engine. All requests for a model wait for the same probe, and nobody waits any more `patience` seconds after the
    first of them began to."""

    def __init__(self, models: Iterable[str], patience: float) -> None:
        self._patience = patience
        self._ended = {model: asyncio.Event() for model in models}
        # By model, on the clock of the event loop.
        self._until: dict[str, float] = {}
        self._waiting = 0
        # Set while somebody waits.
        self._wanted = asyncio.Event()

    def wait_for(self, model: str) -> Coroutine[Any, Any, None] | None:
        """What ends with the probe, or when it has been waited for long enough. None: there is nothing to wait for."""
        ended, now = self._ended.get(model), asyncio.get_running_loop().time()
        if ended is None or ended.is_set():
            return None
        until = self._until.setdefault(model, now + self._patience)
        return self._wait(ended, until) if until > now else None

    async def _wait(self, ended: asyncio.Event, until: float) -> None:
        self._waiting += 1
        self._wanted.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await ended.wait()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._wanted.clear()

    async def come_within(self, seconds: float) -> bool:
        """Whether somebody waits now, or begins to in so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        return self._wanted.is_set()

    def end(self, model: str) -> None:
        """Its probe has ended. One that had no answer is repeated so late that nobody waits for that."""
        if (ended := self._ended.get(model)) is not None:
            ended.set()

    def end_all(self) -> None:
        for model in self._ended:
            self.end(model)
