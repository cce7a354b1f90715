"""What is used is counted here, once: for the store, the metrics and the budgets.

A stored response is counted with its record, exactly. All else is added up here, and written every few seconds: if the process
is killed, so much is lost. Other gateways see it as late.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from antiphon.errors import StoreUnavailable
from antiphon.gateway.usage.model_names import ModelValues
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.store.account_records import HOUR, Counts, UsageEntry, UsageKind
from antiphon.store.accounts.store import AccountStore

# Seconds between two writes.
INTERVAL = 2.0
# The most names of models by which usage is kept.
MOST_MODELS, MOST_UNLISTED = 1000, 100
# Of so many kinds, it is remembered how they are counted.
MOST_KINDS = 10_000
# Of a request that was refused before its model was known.
NO_MODEL = ""


class Ledger:
    def __init__(
        self,
        store: AccountStore,
        is_listed: Callable[[str], bool],
        *,
        is_kept: bool = True,
        now: Callable[[], float] = time.time,
        interval: float = INTERVAL,
    ) -> None:
        """`is_listed`: see `ModelValues`. `is_kept`: what is used is stored."""
        self._store = store
        self._models = ModelValues(is_listed, MOST_MODELS, MOST_UNLISTED)
        self.is_kept = is_kept
        self._now = now
        self._interval = interval
        # By each earlier owner the one that it is now.
        self.current: Callable[[str], str] = lambda owner: owner
        # Each is called with all that is counted.
        self.watchers: list[Callable[[UsageEntry], None]] = []
        self._kinds: dict[tuple[str, str, str], UsageKind] = {}
        # What is not being written yet, by kind and hour; and what is.
        self._open: dict[tuple[UsageKind, int], UsageEntry] = {}
        self._apart: list[UsageEntry] = []
        self._unwritten: Sequence[UsageEntry] = ()
        self._writing = asyncio.Lock()

    def entry(self, id: str, owner: str, model: str, channel: str, counts: Counts) -> UsageEntry:
        kind = self._kinds.get((owner, model, channel))
        if kind is None:
            kind = self._kind(owner, model, channel, answered=not counts.failures)
        return UsageEntry(id, int(self._now()), kind, counts)

    def _kind(self, owner: str, model: str, channel: str, *, answered: bool) -> UsageKind:
        known = model if model == NO_MODEL else self._models.of(model, answered=answered)
        kind = UsageKind(self.current(owner), known, channel)
        # It stays so: to find it out takes longer than counting.
        if known == model and len(self._kinds) < MOST_KINDS:
            self._kinds[owner, model, channel] = kind
        return kind

    def rename(self) -> None:
        """Owners have other names from now on."""
        self._kinds.clear()

    def stored(self, entry: UsageEntry) -> None:
        """It was written with its response."""
        for watch in self.watchers:
            watch(entry)

    def add(self, entry: UsageEntry, *, may_be_stored: bool = False) -> None:
        """It is written soon. `may_be_stored`: the store did not say whether it has it."""
        for watch in self.watchers:
            watch(entry)
        if not self.is_kept:
            return
        if may_be_stored:
            self._apart.append(entry)
            return
        place = entry.kind, entry.at // HOUR
        known = self._open.get(place)
        counts = entry.counts if known is None else known.counts.plus(entry.counts)
        self._open[place] = UsageEntry("", entry.at, entry.kind, counts)

    def count(self, owner: str, model: str, channel: str, counts: Counts) -> None:
        """Of what is not stored."""
        self.add(self.entry("", owner, model, channel, counts))

    @asynccontextmanager
    async def unwritten_of(self, owner: str) -> AsyncIterator[list[UsageEntry]]:
        """What the store does not have yet. Nothing is written meanwhile."""
        async with self._writing:
            entries = (*self._open.values(), *self._apart, *self._unwritten)
            yield [entry for entry in entries if entry.kind.owner == owner]

    async def flush(self) -> None:
        async with self._writing:
            # What the store may have got is sent again with the same ids.
            if not self._unwritten:
                named = [UsageEntry(new_id("use"), each.at, each.kind, each.counts) for each in self._open.values()]
                self._unwritten, self._open, self._apart = [*named, *self._apart], {}, []
            if self._unwritten:
                await self._store.add_usage(self._unwritten)
                self._unwritten = ()

    async def keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.try_to_flush()

    async def try_to_flush(self) -> None:
        try:
            await self.flush()
        except StoreUnavailable as gone:
            log("usage not written", level=logging.WARNING, reason=gone.message)
