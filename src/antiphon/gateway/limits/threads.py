"""Work that would keep the event loop from everything else, and is done in a thread: large pieces of an engine's answer, large
requests, and views: requests opened in the inspector, lists of what is stored.

Views are not what the gateway is for: they have a thread of their own, few places, and owners take turns. Work that was begun
keeps its place to its end, also if its client has left: a thread, or a database, cannot be stopped.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.prompt.documents import outcome_size
from antiphon.errors import RateLimited
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.places import Clock, Place, whole_seconds

# More bytes than that are not read at once on the event loop. The slowest texts, which are full of what looks like a call,
# take a few hundredths of a second for them.
LARGE_PIECE = 16 * 1024


class Backlog:
    """Stands in for the reader of an answer while a thread uses that: what the engine sends meanwhile waits here."""

    # As the reader has them: there is nothing to do for what waits.
    needs_caller = False
    reading = True
    is_behind = False
    continuation = None

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def receive_other(self, data: bytes) -> list[AnyEvent]:
        self._pieces.append(data)
        return []

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces


# ---- large requests --------------------------------------------------------------------------------------------------
# Their reading and conversion would keep the event loop from everything else, so a thread does it.
# Threads share the interpreter, so this makes nothing faster. But the loop goes on every 5 ms, whatever the size of the
# request. What takes less than that, which is nearly all, is done in place: the loop would wait as long for a thread.

T = TypeVar("T")

# A request is large from so many bytes, or items, on. A megabyte is decoded in about a millisecond; to read and convert an item
# takes up to 6 µs. The worst body below them, arrays and nothing else, takes 22 ms.
LARGE_BODY = 384 * 1024
LARGE_HISTORY = 250
# What is only skipped over, to find one member, is large from here on: that takes a third of a millisecond.
LARGE_TO_SKIP = 1024 * 1024


def is_large(outcome: CheckOutcome) -> bool:
    """What was read makes the request large."""
    return outcome_size(outcome) >= LARGE_BODY


# Few: more of them would leave the loop less of the interpreter.
THREADS = 2
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-request")


async def run_aside(work: Callable[[], T], *, large: bool) -> T:
    """The result of the work. Who is cancelled meanwhile leaves the thread to its end, so the work must be all that uses its
    objects."""
    if not large:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(_done, work))


def _done(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as failed:
        # What it had read goes here: with the error it would go on the event loop, which takes long, too.
        traceback.clear_frames(failed.__traceback__)
        raise


@asynccontextmanager
async def freed_aside(items: list[Any], *, large: bool) -> AsyncIterator[None]:
    """Empties the list in a thread when the block ends: to free what was read takes nearly as long as to read it."""
    try:
        yield
    except asyncio.CancelledError:
        # A thread may be using them.
        raise
    except Exception:
        await run_aside(items.clear, large=large)
        raise
    await run_aside(items.clear, large=large)


# ---- Views -------------------------------------------------------------------------------------------------------------

MANY_VIEWS = "Too many requests of the inspector, or for usage, are waiting. Try again in about {wait} s."
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
