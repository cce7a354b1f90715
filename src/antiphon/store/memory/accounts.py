"""Usage, keys and messages to webhooks in memory."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import structs

from antiphon.store.account_records import HOUR, Counts, Delivery, KeyState, StoredKey, UsageEntry, UsageKind, UsageSum
from antiphon.store.accounts.deliveries import DELIVERIES
from antiphon.store.accounts.keys import KEYS
from antiphon.store.wakeups import Wakeup, Wakeups

# Sums of usage, and messages: the oldest are forgotten.
MOST = 50_000
# Entries that are recognised when they are added again.
MOST_RECENT = 1_000


class MemoryAccounts:
    # Nobody else can change them.
    key_poll = 60.0

    def __init__(self, clock: Callable[[], float], wakeups: Wakeups) -> None:
        self._clock = clock
        self._wakeups = wakeups
        self._sums: dict[tuple[int, UsageKind], Counts] = {}
        self._recent: OrderedDict[str, None] = OrderedDict()
        self._keys: dict[str, StoredKey] = {}
        self._limits: dict[str, bytes] = {}
        # By id, with the time when it is due.
        self._deliveries: dict[str, tuple[float, Delivery]] = {}

    # ---- usage

    def count(self, entry: UsageEntry) -> None:
        if entry.id in self._recent:
            return
        self._recent[entry.id] = None
        if len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)
        place = entry.at - entry.at % HOUR, entry.kind
        before = self._sums.get(place)
        self._sums[place] = entry.counts if before is None else before.plus(entry.counts)
        if len(self._sums) > MOST:
            del self._sums[next(iter(self._sums))]

    async def add_usage(self, entries: Sequence[UsageEntry]) -> None:
        for entry in entries:
            self.count(entry)

    async def usage(self, since: int, until: int, width: int, owner: str | None = None) -> list[UsageSum]:
        sums: dict[tuple[int, UsageKind], Counts] = defaultdict(Counts)
        for (hour, kind), counts in self._sums.items():
            if since - since % HOUR <= hour < until and owner in (None, kind.owner):
                place = hour - hour % width, kind
                sums[place] = sums[place].plus(counts)
        return [UsageSum(begins, kind, sums[begins, kind]) for begins, kind in sorted(sums)]

    async def sum_up_usage(self) -> None: ...

    async def forget_usage(self, before: int) -> None:
        self._sums = {place: counts for place, counts in self._sums.items() if place[0] >= before}

    def move(self, earlier: str, owner: str) -> None:
        for hour, kind in [place for place in self._sums if place[1].owner == earlier]:
            place = hour, kind._replace(owner=owner)
            self._sums[place] = self._sums.get(place, Counts()).plus(self._sums.pop((hour, kind)))

    # ---- keys

    async def keys(self) -> KeyState:
        keys = sorted(self._keys.values(), key=lambda key: (key.name, key.created_at, key.hash))
        return KeyState(tuple(keys), tuple(sorted(self._limits.items())))

    async def add_key(self, key: StoredKey) -> None:
        self._keys[key.hash] = key
        self._wakeups.wake(KEYS)

    async def end_keys(self, name: str, at: int, hash: str | None = None) -> int:
        return self._end(at, [key for key in self._keys.values() if key.name == name and hash in (None, key.hash)])

    async def rotate_key(self, key: StoredKey, at: int) -> int:
        others = [each for each in self._keys.values() if each.name == key.name]
        self._keys[key.hash] = key
        return self._end(at, others)

    def _end(self, at: int, keys: Sequence[StoredKey]) -> int:
        ended = [key for key in keys if key.ends_at is None or key.ends_at > at]
        self._keys |= {key.hash: structs.replace(key, ends_at=at) for key in ended}
        self._wakeups.wake(KEYS)
        return len(ended)

    async def limit_key(self, name: str, limits: bytes | None) -> None:
        self._limits.pop(name, None)
        if limits is not None:
            self._limits[name] = limits
        self._wakeups.wake(KEYS)

    def follow_keys(self) -> AbstractContextManager[Wakeup]:
        return self._wakeups.subscribe(KEYS)

    # ---- messages to webhooks

    def deliver(self, added: Sequence[Delivery]) -> None:
        for each in added:
            self._deliveries.setdefault(each.id, (self._clock(), each))
        while len(self._deliveries) > MOST:
            del self._deliveries[next(iter(self._deliveries))]
        if added:
            self._wakeups.wake(DELIVERIES)

    async def add_deliveries(self, added: Sequence[Delivery]) -> None:
        self.deliver(added)

    async def claim_deliveries(self, endpoint: str, lease: float, most: int) -> list[Delivery]:
        now = self._clock()
        due = [(at, each) for at, each in self._deliveries.values() if each.endpoint == endpoint and at <= now]
        due.sort(key=lambda pair: pair[0])
        claimed = [structs.replace(each, attempts=each.attempts + 1) for _, each in due[:most]]
        self._deliveries |= {each.id: (now + lease, each) for each in claimed}
        return claimed

    async def delivered(self, id: str) -> None:
        self._deliveries.pop(id, None)

    async def postpone_delivery(self, id: str, seconds: float) -> None:
        if id in self._deliveries:
            self._deliveries[id] = self._clock() + seconds, self._deliveries[id][1]

    async def expire_deliveries(self, before: int) -> int:
        kept = {id: pair for id, pair in self._deliveries.items() if pair[1].created_at >= before}
        expired, self._deliveries = len(self._deliveries) - len(kept), kept
        return expired

    def follow_deliveries(self) -> AbstractContextManager[Wakeup]:
        return self._wakeups.subscribe(DELIVERIES)
