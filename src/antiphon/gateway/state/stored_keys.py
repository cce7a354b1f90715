"""Keys that a command has made, and the budgets it has set: read from the store at the start, and whenever they change."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from antiphon.errors import UNREADABLE, StoreUnavailable
from antiphon.gateway.state.owners import Keyring
from antiphon.gateway.state.record_format import decode_budget
from antiphon.gateway.usage.budgets import Budget, Budgets
from antiphon.logs import log
from antiphon.store.account_records import KeyState
from antiphon.store.accounts.store import AccountStore

# Clocks of machines differ by so many seconds, at most: a key ends earlier rather than later.
CLOCKS_DIFFER = 5.0


class StoredKeys:
    def __init__(self, store: AccountStore, keyring: Keyring, budgets: Budgets, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keyring = keyring
        self._budgets = budgets
        self._now = now
        self._state = KeyState()

    async def load(self) -> None:
        """Before the first request. Raises StoreUnavailable: nobody is let in without knowing the keys."""
        self._use(await self._store.keys())

    async def watch(self) -> None:
        with self._store.follow_keys() as wakeup:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._store.key_poll):
                        await wakeup.wait()
                try:
                    self._use(await self._store.keys())
                except StoreUnavailable as gone:
                    log("keys not read", level=logging.WARNING, reason=gone.message)

    def _use(self, state: KeyState) -> None:
        until = self._now() + CLOCKS_DIFFER
        owners = {key.hash: key.name for key in state.keys if key.ends_at is None or key.ends_at > until}
        if owners != self._keyring.stored or bool(state.keys) != self._keyring.is_closed:
            self._keyring.use_stored(owners, is_closed=bool(state.keys))
            if state.keys != self._state.keys:
                log("keys changed", count=len(owners))
        if state.limits != self._state.limits:
            self._budgets.use_stored({name: budget for name, limits in state.limits if (budget := _read(name, limits))})
        self._state = state


def _read(name: str, limits: bytes) -> Budget | None:
    try:
        return decode_budget(limits)
    except UNREADABLE:
        # Of a newer version.
        log("budget not read", level=logging.WARNING, key=name)
        return None
