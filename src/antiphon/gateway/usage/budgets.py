"""What a key may use in a day or a month, and whether it still may.

What others have used is known from the store, at most `MAX_AGE` seconds old; what this process has counted is known at once.
So a hard budget is exceeded by what was running, and by what other processes have counted since, which takes them `INTERVAL` of
the ledger to write.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from msgspec import Struct

from antiphon.errors import QuotaExceeded, StoreUnavailable
from antiphon.gateway.usage.ledger import Ledger
from antiphon.gateway.usage.prices import ANY, Prices
from antiphon.ids import ADMIN
from antiphon.store.account_records import DAY, Counts, UsageEntry
from antiphon.store.accounts.store import AccountStore

# Seconds after which the store is asked again.
MAX_AGE = 2.0
# Later than everything.
END_OF_TIME = 2**40
REFUSED = "The budget of this key is used up: {used} of {limit} {what}. It can be used again from {again} (UTC)."
NEARLY = "{used} of {limit} {what} are used"
OVER = "the budget of this key is used up: {used} of {limit} {what}"

Period = Literal["day", "month"]


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `BudgetSettings`."""

    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    requests_per_day: int | None = None
    requests_per_month: int | None = None
    cost_per_day: float | None = None
    cost_per_month: float | None = None
    soft: bool = False
    notice_from: float = 0.8


class Spent(NamedTuple):
    """In a day or a month."""

    tokens: int = 0
    requests: int = 0
    cost: float = 0.0

    def plus(self, counts: Counts, cost: float) -> "Spent":
        requests = self.requests + counts.requests - counts.failures
        return Spent(self.tokens + counts.tokens, requests, self.cost + cost)


class Measure(NamedTuple):
    """One limit of a budget: what is measured, and in which time."""

    limit: str
    spent: str
    period: Period


MEASURES = tuple(
    Measure(f"{what}_per_{period}", what, period) for what in ("tokens", "requests", "cost") for period in ("day", "month")
)


class Share(NamedTuple):
    """What of a limit is used, with what a person calls it."""

    measure: Measure
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 1.0


class Months(NamedTuple):
    """The day and the month of a time, by their first seconds, and when the next ones begin."""

    day: int
    month: int
    next_day: int
    next_month: int

    @classmethod
    def of(cls, now: float) -> "Months":
        date = datetime.fromtimestamp(now, UTC)
        first = date.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = first.replace(year=date.year + 1, month=1) if date.month == 12 else first.replace(month=date.month + 1)
        day = int(now) - int(now) % DAY
        return cls(day, int(first.timestamp()), day + DAY, int(following.timestamp()))


class Known(Struct):
    """What an owner has used, as far as it is known here."""

    read_at: float
    times: Months
    day: Spent = Spent()
    month: Spent = Spent()

    def add(self, at: int, counts: Counts, cost: float) -> None:
        if at >= self.times.month:
            self.month = self.month.plus(counts, cost)
        if at >= self.times.day:
            self.day = self.day.plus(counts, cost)


class Budgets:
    def __init__(
        self,
        store: AccountStore,
        ledger: Ledger,
        prices: Prices,
        budgets: Mapping[str, Budget],
        *,
        now: Callable[[], float] = time.time,
        max_age: float = MAX_AGE,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self.prices = prices
        # Those of the settings, and those that a command has set, by the name of the key. The settings win.
        self._set, self._stored = budgets, dict[str, Budget]()
        self._now = now
        self._max_age = max_age
        self.are_set = bool(budgets)
        self._watches = False
        self._known: dict[str, Known] = {}
        self._reading: dict[str, asyncio.Task[Known]] = {}
        # What was counted here while the store is read.
        self._meanwhile: dict[str, list[UsageEntry]] = {}
        # Called with the owner of a request that comes when the budget is used up.
        self.when_exceeded: Callable[[str, bool], None] = lambda owner, soft: None

    def use(self, budgets: Mapping[str, Budget]) -> None:
        """Those of the settings, from now on."""
        self._set = budgets
        self.are_set = bool(self._set or self._stored)

    def use_stored(self, budgets: Mapping[str, Budget]) -> None:
        self._stored = dict(budgets)
        self.are_set = bool(self._set or self._stored)

    def of(self, owner: str) -> Budget | None:
        named = self._set.get(owner) or self._stored.get(owner)
        if named is None and owner != ADMIN:
            return self._set.get(ANY)
        return named

    # ---- whether a request may come ----------------------------------------------------------------------------------

    def check(self, owner: str) -> Awaitable[None] | None:
        """Raises QuotaExceeded. What it returns, if anything, is to be awaited: the store is asked."""
        if not self._ledger.is_kept or (budget := self.of(owner)) is None:
            return None
        known = self._known.get(owner)
        if known is None or not 0 <= self._now() - known.read_at < self._max_age or self._now() >= known.times.next_day:
            return self._check(owner, budget)
        self._judge(owner, budget, known)
        return None

    async def _check(self, owner: str, budget: Budget) -> None:
        reading = self._reading.get(owner)
        if reading is None:
            reading = self._reading[owner] = asyncio.create_task(self._read(owner))
            reading.add_done_callback(lambda _: self._reading.pop(owner, None))
        self._judge(owner, budget, await asyncio.shield(reading))

    def _judge(self, owner: str, budget: Budget, known: Known) -> None:
        for each in shares(budget, known):
            if each.used >= each.limit:
                self.when_exceeded(owner, budget.soft)
                if not budget.soft:
                    raise QuotaExceeded(REFUSED.format(**_words(each), again=_again(each, known.times)))

    def notice(self, owner: str) -> str | None:
        """For the answer to a request that was checked: how much of the budget is used, if that is much of it."""
        budget, known = self.of(owner), self._known.get(owner)
        if budget is None or known is None:
            return None
        worst = max(shares(budget, known), key=lambda each: each.share, default=None)
        if worst is None or worst.share < budget.notice_from:
            return None
        return (OVER if worst.used >= worst.limit else NEARLY).format(**_words(worst))

    # ---- what is used ------------------------------------------------------------------------------------------------

    def _count(self, entry: UsageEntry) -> None:
        owner = entry.kind.owner
        if (meanwhile := self._meanwhile.get(owner)) is not None:
            meanwhile.append(entry)
        if (known := self._known.get(owner)) is not None:
            known.add(entry.at, entry.counts, self.prices.cost(entry.kind.model, entry.counts))

    async def _read(self, owner: str) -> Known:
        if not self._watches:
            self._watches = True
            self._ledger.watchers.append(self._count)
        now, meanwhile = self._now(), list[UsageEntry]()
        known = Known(now, Months.of(now))
        try:
            async with self._ledger.unwritten_of(owner) as unwritten:
                # From now on: what was counted before is in one of the other two.
                self._meanwhile[owner] = meanwhile
                sums = await self._store.usage(known.times.month, END_OF_TIME, DAY, owner)
        except StoreUnavailable:
            # What was known is better than nothing; without that, nobody knows.
            if (earlier := self._known.get(owner)) is None:
                raise
            earlier.read_at = now
            return earlier
        finally:
            self._meanwhile.pop(owner, None)
        for begins, kind, counts in sums:
            known.add(begins, counts, self.prices.cost(kind.model, counts))
        for entry in (*unwritten, *meanwhile):
            known.add(entry.at, entry.counts, self.prices.cost(entry.kind.model, entry.counts))
        self._known[owner] = known
        return known


def shares(budget: Budget, known: Known) -> Iterator[Share]:
    for measure in MEASURES:
        limit: float | None = getattr(budget, measure.limit)
        if limit is not None:
            spent: Spent = getattr(known, measure.period)
            yield Share(measure, getattr(spent, measure.spent), limit)


def _words(share: Share) -> dict[str, str]:
    what, period = share.measure.spent, share.measure.period
    number = "{:,.2f}" if what == "cost" else "{:,.0f}"
    name = "of costs" if what == "cost" else what
    return {"used": number.format(share.used), "limit": number.format(share.limit), "what": f"{name} a {period}"}


def _again(share: Share, times: Months) -> str:
    at = times.next_day if share.measure.period == "day" else times.next_month
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
