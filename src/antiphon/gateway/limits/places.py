"""A place for one request: among the responses of an owner, at an engine, or among those that need a thread."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull

# As many requests as the engine says that it processes at once.
AUTO = "auto"
# The longest time after which a client is asked to try again, in seconds.
LONGEST_WAIT = 60

Clock = Callable[[], float]


class AdmissionLimits(Struct, frozen=True):
    """How many places there are. None: no limit."""

    # Of each key: responses that run at once, and requests in a minute.
    responses: int | None = None
    requests_per_minute: int | None = None
    # Of each engine: requests that it gets at once ("auto": as many as it says that it processes), requests that wait for
    # that, and for how many seconds each of them does.
    engine_requests: int | Literal["auto"] | None = None
    engine_queue: int = 1000
    queue_timeout: float = 60.0


NO_LIMITS = AdmissionLimits()


class Queue(Protocol):
    """Gives out places: a `FairQueue`, or one that asks another process."""

    def enter(self, ticket: "Place", owner: str, now: float, *, patient: bool, returns: bool) -> "Place | None":
        """Returns the ticket itself if it has a place. Otherwise it waits, and the one is returned that has lost its place in
        the queue to it, if any. Raises QueueFull."""

    def runs(self, ticket: "Place") -> bool:
        """It has a place."""

    def leave(self, ticket: "Place", now: float) -> Sequence["Place"]:
        """Returns those that have got a place by this."""

    def seconds_to_wait(self, now: float) -> float: ...


class Place(Struct, eq=False):
    """`take()` it, and `leave()` it however the request ends."""

    _queue: Queue
    _owner: str
    _now: Clock
    # It waits for as long as it takes.
    patient: bool = False
    # It had a place before, and has more to do.
    returns: bool = False
    # Done when it has its place. None: it does not wait.
    _given: asyncio.Future[None] | None = None

    @property
    def taken(self) -> bool:
        return self._queue.runs(self)

    @property
    def waits(self) -> bool:
        return self._given is not None

    def take_at_once(self) -> bool:
        """False: there is none. Raises QueueFull if it could not even wait for one."""
        queue, now = self._queue, self._now()
        entered = queue.enter(self, self._owner, now, patient=self.patient, returns=self.returns)
        if entered is not None and entered is not self:
            entered.fail(QueueFull(queue.seconds_to_wait(now)))
        return entered is self

    async def take(self, within: float | None = None) -> None:
        """Raises QueueFull, or TimeoutError after so many seconds."""
        if self.taken or self.take_at_once():
            return
        self._given = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within):
                await self._given
        except BaseException:
            self.leave()
            raise
        finally:
            self._given = None

    def leave(self) -> None:
        if begun := self._queue.leave(self, self._now()):
            begin(begun)

    # ---- what a queue calls ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """It has its place. A request that is given up right now leaves by itself."""
        if self._given is not None and not self._given.done():
            self._given.set_result(None)

    def fail(self, error: Exception) -> None:
        if self._given is not None and not self._given.done():
            self._given.set_exception(error)


class PlaceQueue(FairQueue[Place]):
    """`when_freed` is called when there is a free place again, and there was none."""

    def __init__(self, places: int | None, when_freed: Callable[[], None]) -> None:
        super().__init__(places, 0)
        self._when_freed = when_freed

    def leave(self, ticket: Place, now: float) -> list[Place]:
        if self.places is None:
            return super().leave(ticket, now)
        was_full = self.is_full
        begun = super().leave(ticket, now)
        if was_full and not self.is_full:
            self._when_freed()
        return begun

    def give_back(self, place: Place, now: float) -> None:
        """It was not used. That is no news."""
        begin(super().leave(place, now))


def begin(places: Iterable[Place]) -> None:
    for place in places:
        place.begin()


async def take_first(places: Sequence[Place]) -> Place:
    """Waits for all of them, for as long as it takes. Only the one that it gets is kept."""
    taking = {asyncio.create_task(place.take()): place for place in places}
    taken: Place | None = None
    try:
        done, _ = await asyncio.wait(taking, return_when=asyncio.FIRST_COMPLETED)
        taken = next(place for task, place in taking.items() if task in done)
        return taken
    finally:
        for task, place in taking.items():
            if place is not taken:
                task.cancel()
                place.leave()


def whole_seconds(seconds: float) -> int:
    """After which a client is asked to try again."""
    return min(LONGEST_WAIT, max(1, math.ceil(seconds)))
