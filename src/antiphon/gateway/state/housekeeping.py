"""Keeps the store within its limits, and removes files that have expired."""

import asyncio
import itertools
import logging
import time
from typing import NamedTuple, Protocol

from antiphon.errors import ApiError, StoreUnavailable
from antiphon.logs import log
from antiphon.store.account_records import DAY
from antiphon.store.protocol import Store

# Seconds between two sweeps.
INTERVAL = 600.0
# The same of the store: what is kept for ten minutes must not be there for twenty. Its size, which takes longer, and what is
# not indexed are looked at with every tenth sweep.
STORE_INTERVAL = 60.0
SWEEPS_PER_LOOK = 10


# Messages to webhooks that nobody has accepted are given up when they are so old, in seconds.
DELIVERED_WITHIN = 3 * DAY


class StoreLimits(NamedTuple):
    most_bytes: int
    # Days for which usage is kept.
    usage_days: float


async def sweep_store(store: Store, limits: StoreLimits, interval: float = STORE_INTERVAL) -> None:
    """Removes what has expired, again and again. Indexes what older versions wrote: here at first, another gateway later."""
    for number in itertools.count():
        try:
            if swept := await store.sweep():
                log("swept", count=swept)
            await store.accounts.sum_up_usage()
            if number % SWEEPS_PER_LOOK == 0:
                await _look_at(store, limits)
        except StoreUnavailable as gone:
            log("not swept", level=logging.WARNING, reason=gone.message)
        await asyncio.sleep(interval)


async def _look_at(store: Store, limits: StoreLimits) -> None:
    if indexed := await store.index_items():
        log("indexed", responses=indexed)
    if removed := await store.shrink(limits.most_bytes):
        log("store_too_large", level=logging.WARNING, removed=removed, most_bytes=limits.most_bytes)
    now = time.time()
    await store.accounts.forget_usage(int(now - limits.usage_days * DAY))
    if expired := await store.accounts.expire_deliveries(int(now - DELIVERED_WITHIN)):
        log("webhooks given up", level=logging.WARNING, count=expired)


class Swept(Protocol):
    async def sweep(self) -> int: ...


async def sweep_files(library: Swept, interval: float = INTERVAL, kind: str = "files") -> None:
    """Also vector stores."""
    while True:
        try:
            if swept := await library.sweep():
                log(f"{kind}_swept", count=swept)
        except (ApiError, OSError) as failed:
            log(f"{kind}_not_swept", level=logging.WARNING, reason=str(failed))
        await asyncio.sleep(interval)
