"""Keys that get a name: what they stored without one is given to the name."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.protocol import Store

# Seconds between two looks for what gateways with older settings have stored meanwhile.
INTERVAL = 600.0
# Seconds that a request waits until what its key stored earlier has been given to its name.
PATIENCE = 10.0


class Owners:
    """By each earlier owner, the one that it is now."""

    def __init__(self, store: Store, moves: Mapping[str, str], interval: float = INTERVAL, patience: float = PATIENCE) -> None:
        self._store = store
        self._interval = interval
        self._patience = patience
        self._moves: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self.replace(moves)

    def replace(self, moves: Mapping[str, str]) -> None:
        if any(self._moves.get(earlier) != owner for earlier, owner in moves.items()):
            self._settled.clear()
            self._changed.set()
        self._moves = dict(moves)

    def current(self, owner: str) -> str:
        return self._moves.get(owner, owner)

    def earlier(self, owner: str) -> Sequence[str]:
        return [earlier for earlier, now in self._moves.items() if now == owner]

    async def settled(self, owner: str) -> str:
        """The current owner, once it has what it stored as an earlier one. If that takes long, it has a part of it."""
        current = self.current(owner)
        if not self._settled.is_set() and current in self._moves.values():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._settled.wait()
        return current

    async def catch_up(self, owner: str) -> None:
        """For a response that began before its key got a name, and was stored after that."""
        if owner in self._moves:
            with suppress(StoreUnavailable):
                await self._store.move_owner(owner, self._moves[owner])

    async def watch(self) -> None:
        while True:
            self._changed.clear()
            for earlier, owner in list(self._moves.items()):
                await self._move(earlier, owner)
            # Unless more came meanwhile.
            if not self._changed.is_set():
                self._settled.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._changed.wait()

    async def _move(self, earlier: str, owner: str) -> None:
        try:
            if moved := await self._store.move_owner(earlier, owner):
                log("owner named", owner=owner, count=moved)
        except StoreUnavailable as gone:
            log("owner not named", level=logging.WARNING, owner=owner, reason=gone.message)
