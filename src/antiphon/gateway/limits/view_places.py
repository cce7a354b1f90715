"""The places of those who look on: requests opened in the inspector, lists of what is stored.

It is not what the gateway is for: it has a thread of its own, few places, and owners take turns. Work that was begun keeps its
place to its end, also if its client has left: a thread, or a database, cannot be stopped.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from antiphon.errors import RateLimited
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.places import Clock, Place, whole_seconds

T = TypeVar("T")

MANY_VIEWS = "Too many requests of the inspector are waiting. Try again in about {wait} s."
# How many may wait. If it is full, the owner that has most of them gives way.
MOST_WAITING = 50

_thread = ThreadPoolExecutor(1, thread_name_prefix="view")


async def run_in_view_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_thread, work)


class View:
    """What one of them wants to see."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._work: asyncio.Future[Any] | None = None

    async def run(self, work: Awaitable[T]) -> T:
        running = asyncio.ensure_future(work)
        self._work = running
        return await asyncio.shield(running)

    def end(self) -> None:
        if self._work is None or self._work.done():
            self._place.leave()
        else:
            self._work.add_done_callback(lambda _: self._place.leave())


class ViewPlaces:
    def __init__(self, places: int | None, own_places: int, now: Clock, most_waiting: int = MOST_WAITING) -> None:
        """`places`: how much runs at once, None for any number. `own_places`: of one owner."""
        self._queue: FairQueue[Place] = FairQueue(places, most_waiting, own_places)
        self._now = now

    @asynccontextmanager
    async def entered(self, owner: str) -> AsyncIterator[View]:
        """Raises RateLimited: too many wait for one."""
        place = Place(self._queue, owner, self._now)
        try:
            await place.take()
        except QueueFull as full:
            wait = whole_seconds(full.seconds)
            raise RateLimited(MANY_VIEWS.format(wait=wait), retry_after=wait) from None
        view = View(place)
        try:
            yield view
        finally:
            view.end()
