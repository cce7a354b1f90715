"""Keys that get a name: what they stored without one is given to the name."""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from antiphon.core.exchange.environment import Environment
from antiphon.errors import StoreUnavailable
from antiphon.ids import hash_of_key
from antiphon.logs import log
from antiphon.patterns import late_pattern
from antiphon.sealing import Sealer
from antiphon.store.account_records import UsageSum
from antiphon.store.protocol import Store

# Seconds between two looks for what gateways with older settings have stored meanwhile.
INTERVAL = 600.0
# Seconds after which a move that failed is tried again.
RETRY_INTERVAL = 1.0
# Moves at once: a long one does not delay all others.
MOVES_AT_ONCE = 4
# Seconds that a request waits until what its key stored earlier has been given to its name.
PATIENCE = 10.0
# The owner of what a key without a name stores: a hash of the key.
_HASH = late_pattern(r"[0-9a-f]{32}")
SHOWN_LETTERS = 6


def shown_owner(owner: str) -> str:
    """A key without a name is shown by the first letters of its hash: all of it is what the settings take for the key."""
    return f"unnamed-{owner[:SHOWN_LETTERS]}" if _HASH.fullmatch(owner) else owner


def shown_sum(used: UsageSum) -> UsageSum:
    return used._replace(kind=used.kind._replace(owner=shown_owner(used.kind.owner)))


class Owners:
    """By each earlier owner, the one that it is now."""

    def __init__(
        self,
        store: Store,
        moves: Mapping[str, str],
        interval: float = INTERVAL,
        patience: float = PATIENCE,
        retry_interval: float = RETRY_INTERVAL,
    ) -> None:
        self._store = store
        self._interval = interval
        self._patience = patience
        self._retry_interval = retry_interval
        # Replaced, and never changed: who has made something of them can see whether they are the same.
        self.moves: Mapping[str, str] = {}
        self._changed = asyncio.Event()
        # By each earlier owner whose data has not been moved yet: set when the next try has ended.
        self._tries: dict[str, asyncio.Event] = {}
        # The earlier owners whose data is being moved.
        self._running: set[str] = set()
        self._moving = asyncio.Semaphore(MOVES_AT_ONCE)
        # Each gives to an owner what another one has stored elsewhere, such as files, and returns how much that was.
        self.moving_too: list[Callable[[str, str], Awaitable[int]]] = []
        self.replace(moves)

    def replace(self, moves: Mapping[str, str]) -> None:
        for earlier, owner in moves.items():
            if self.moves.get(earlier) != owner:
                self._tries.setdefault(earlier, asyncio.Event())
                self._changed.set()
        self.moves = dict(moves)
        for earlier in self._tries.keys() - self.moves.keys():
            self._tries.pop(earlier).set()

    def current(self, owner: str) -> str:
        return self.moves.get(owner, owner)

    def earlier(self, owner: str) -> Sequence[str]:
        return [earlier for earlier, now in self.moves.items() if now == owner]

    async def settled(self, owner: str) -> str:
        """The current owner, once it has what it stored as an earlier one. If that takes long, it has a part of it. If the
        store is away, only the next try is waited for."""
        current = self.current(owner)
        if self._tries:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    for tried in [self._tries[earlier] for earlier in self.earlier(current) if earlier in self._tries]:
                        await tried.wait()
        return current

    async def catch_up(self, owner: str) -> None:
        """For a response that began before its key got a name, and was stored after that."""
        if owner in self.moves:
            with suppress(StoreUnavailable):
                await self._move_all(owner, self.moves[owner])

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time() + self._interval
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                due = list(self._tries)
                if loop.time() >= next_look:
                    due, next_look = list(self.moves), loop.time() + self._interval
                for earlier in due:
                    if earlier not in self._running:
                        self._running.add(earlier)
                        group.create_task(self._move(earlier))
                wake_at = min(next_look, loop.time() + self._retry_interval) if self._tries else next_look
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(wake_at):
                        await self._changed.wait()

    async def _move(self, earlier: str) -> None:
        try:
            async with self._moving:
                owner, tried = self.moves.get(earlier), self._tries.get(earlier)
                moved = owner is not None and await self._try_to_move(earlier, owner)
        finally:
            self._running.discard(earlier)
        # Unless it got another name meanwhile.
        if tried is None or self._tries.get(earlier) is not tried or self.moves.get(earlier) != owner:
            return
        if moved:
            del self._tries[earlier]
        else:
            self._tries[earlier] = asyncio.Event()
        tried.set()

    async def _try_to_move(self, earlier: str, owner: str) -> bool:
        try:
            if moved := await self._move_all(earlier, owner):
                log("owner named", owner=owner, count=moved)
            return True
        except StoreUnavailable as gone:
            log("owner not named", level=logging.WARNING, owner=owner, reason=gone.message)
            return False

    async def _move_all(self, earlier: str, owner: str) -> int:
        moved = await self._store.move_owner(earlier, owner)
        for move in self.moving_too:
            moved += await move(earlier, owner)
        return moved


# ---- The keys that clients may send, and whose each one is. Only hashes are kept -------------------------------------


class Keyring:
    """By the hash of each key, its owner: those of the settings, and those in the store. Empty: no key is needed."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self._set: Mapping[str, str] = {}
        self.stored: Mapping[str, str] = {}
        # There were keys in the store, and there may be none left that is valid.
        self.is_closed = False
        self.replace(owners)

    def replace(self, owners: Mapping[str, str]) -> None:
        """Those of the settings, from the next request on."""
        self._set = dict(owners)
        self._merge()

    def use_stored(self, owners: Mapping[str, str], *, is_closed: bool) -> None:
        """Those in the store, from the next request on."""
        self.stored, self.is_closed = dict(owners), is_closed
        self._merge()

    def _merge(self) -> None:
        # The settings win.
        self._owners = [(hash.encode(), owner) for hash, owner in {**self.stored, **self._set}.items()]

    def __bool__(self) -> bool:
        return bool(self._owners) or self.is_closed

    def owner_of(self, key: bytes) -> str | None:
        """None: the key is unknown."""
        given = hash_of_key(key).encode()
        # Every key is compared, and each in constant time.
        found = [owner for hash, owner in self._owners if hmac.compare_digest(given, hash)]
        return found[0] if found else None


class OwnerEnvironments:
    """What an exchange gets from its caller, with the sealer of its owner."""

    def __init__(self, owners: Owners, make_sealer: Callable[[str, Sequence[str]], Sealer]) -> None:
        self._owners = owners
        self._make_sealer = make_sealer
        # By owner, of which there are as many as keys: what it was made of, and the environment.
        self._made: dict[str, tuple[Environment, Mapping[str, str], Environment]] = {}

    def sealer_of(self, owner: str) -> Sealer:
        return self._make_sealer(owner, self._owners.earlier(owner))

    def make(self, common: Environment, owner: str) -> Environment:
        """Made anew only if the settings have changed, or the names of owners: every request needs it."""
        known, moves = self._made.get(owner), self._owners.moves
        if known is None or known[0] is not common or known[1] is not moves:
            made = common.changed(sealer=self.sealer_of(owner))
            known = self._made[owner] = common, moves, made
        return known[2]
