"""What a store has of usage, keys and messages to webhooks; and how a database does it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from antiphon.store.account_records import Delivery, KeyState, StoredKey, UsageEntry, UsageSum
from antiphon.store.accounts import deliveries, keys, usage
from antiphon.store.operations import Database
from antiphon.store.wakeups import Wakeup

# Seconds after which keys are read again where nobody says that another program has changed them.
KEY_POLL = 0.5


class AccountStore(Protocol):
    """As in `Store`, each method is atomic and durable. What is counted with a response is written with it: `Record.usage`."""

    # Seconds after which keys are to be read again, whether `follow_keys` was woken or not.
    @property
    def key_poll(self) -> float: ...

    # ---- usage

    async def add_usage(self, entries: Sequence[UsageEntry]) -> None:
        """An entry whose id was added in the last minutes is left out: it is safe to add it again."""

    async def usage(self, since: int, until: int, width: int, owner: str | None = None) -> list[UsageSum]:
        """From `since` to before `until`, in buckets of so many seconds: whole hours, or a day. `owner`: None: of all."""

    async def sum_up_usage(self) -> None:
        """Adds single entries up. It changes nothing of what `usage` returns."""

    async def forget_usage(self, before: int) -> None: ...

    # ---- keys

    async def keys(self) -> KeyState: ...

    async def add_key(self, key: StoredKey) -> None: ...

    async def end_keys(self, name: str, at: int, hash: str | None = None) -> int:
        """Ends the keys of this name then, or the one with this hash. Returns how many."""

    async def rotate_key(self, key: StoredKey, at: int) -> int:
        """Adds a key, and ends the others of its name then. Returns how many."""

    async def limit_key(self, name: str, limits: bytes | None) -> None:
        """Of a name, the limits as JSON. None: it has none of its own."""

    def follow_keys(self) -> AbstractContextManager[Wakeup]:
        """Woken when keys or limits may have changed."""

    # ---- messages to webhooks

    async def add_deliveries(self, added: Sequence[Delivery]) -> None:
        """What is written with a response is in `Record.deliveries`."""

    async def claim_deliveries(self, endpoint: str, lease: float, most: int) -> list[Delivery]:
        """Those that are due now. Nobody else gets them during the lease."""

    async def delivered(self, id: str) -> None: ...

    async def postpone_delivery(self, id: str, seconds: float) -> None: ...

    async def expire_deliveries(self, before: int) -> int:
        """Gives up those that were created before. Returns how many."""

    def follow_deliveries(self) -> AbstractContextManager[Wakeup]:
        """Woken when there may be new ones."""


class SqlAccounts:
    def __init__(self, database: Database, key_poll: float = KEY_POLL) -> None:
        self.key_poll = key_poll
        self._database = database
        self._now = database.clock

    async def add_usage(self, entries: Sequence[UsageEntry]) -> None:
        await self._database.write(usage.add_all(entries))

    async def usage(self, since: int, until: int, width: int, owner: str | None = None) -> list[UsageSum]:
        return await self._database.read(usage.read(since, until, width, owner))

    async def sum_up_usage(self) -> None:
        while await self._database.write(usage.sum_up(self._now())):
            pass

    async def forget_usage(self, before: int) -> None:
        while await self._database.write(usage.forget(before)):
            pass

    async def keys(self) -> KeyState:
        return await self._database.read(keys.read())

    async def add_key(self, key: StoredKey) -> None:
        await self._database.write(keys.add(key))

    async def end_keys(self, name: str, at: int, hash: str | None = None) -> int:
        return await self._database.write(keys.end(name, at, hash))

    async def rotate_key(self, key: StoredKey, at: int) -> int:
        return await self._database.write(keys.rotate(key, at))

    async def limit_key(self, name: str, limits: bytes | None) -> None:
        await self._database.write(keys.limit(name, limits))

    def follow_keys(self) -> AbstractContextManager[Wakeup]:
        return self._database.wakeups.subscribe(keys.KEYS)

    async def add_deliveries(self, added: Sequence[Delivery]) -> None:
        await self._database.write(deliveries.add_all(added, self._now()))

    async def claim_deliveries(self, endpoint: str, lease: float, most: int) -> list[Delivery]:
        return await self._database.write(deliveries.claim(endpoint, lease, most, self._now()))

    async def delivered(self, id: str) -> None:
        await self._database.write(deliveries.done(id))

    async def postpone_delivery(self, id: str, seconds: float) -> None:
        await self._database.write(deliveries.postpone(id, seconds, self._now()))

    async def expire_deliveries(self, before: int) -> int:
        return await self._database.write(deliveries.expire(before))

    def follow_deliveries(self) -> AbstractContextManager[Wakeup]:
        return self._database.wakeups.subscribe(deliveries.DELIVERIES)
