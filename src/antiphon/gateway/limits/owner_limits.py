"""Who may begin a response now, who waits, and who is refused: how many responses of an owner run at once, how many requests
it sends in a minute; and all limits of a gateway together.

Limits are those of this gateway, over all of its worker processes (`app/processes/shared_admission.py`): several gateways on
one store count for themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType

from antiphon.errors import RateLimited, counted
from antiphon.gateway.limits.engine_limits import EngineLimits, EngineSeat
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.places import NO_LIMITS, AdmissionLimits, Clock, Place, PlaceQueue, Queue, begin, whole_seconds
from antiphon.gateway.limits.request_rates import RateState, RequestRates
from antiphon.gateway.limits.threads import THREADS

TOO_MANY = "This key may run {most} at once, and no more. Try again when one has ended, in about {wait} s."
# Seconds that a client may come later than it was asked to.
GRACE = 1.0


class OwnerLimits:
    def __init__(self, limits: AdmissionLimits, now: Clock) -> None:
        self.limits = limits
        self._now = now
        # By each earlier owner its name.
        self._names: Mapping[str, str] = {}
        self._rates = RequestRates(limits.requests_per_minute)
        self._queues: dict[str, PlaceQueue] = {}
        # Owners whose next place is for a client that was refused, and when that ends.
        self._reserved: dict[str, asyncio.TimerHandle] = {}
        # Called when an owner that had no free place has one again.
        self.when_freed: Callable[[], None] = lambda: None

    def change(self, limits: AdmissionLimits) -> None:
        """From now on. What runs and waits goes on."""
        self.limits, now = limits, self._now()
        self._rates.per_minute = limits.requests_per_minute
        for queue in self._queues.values():
            begin(queue.resize(limits.responses, 0, now))
        self.when_freed()

    def rename(self, names: Mapping[str, str]) -> None:
        """By each earlier owner its name: what runs for the earlier one, and what it has sent, counts for the name from now
        on. If something runs for the name as well, the two are counted apart until what runs has ended."""
        self._names = names
        for earlier, name in names.items():
            self._rates.rename(earlier, name, self._now())
            if earlier in self._queues and (name not in self._queues or not self._queues[name].running):
                self._queues[name] = self._queues.pop(earlier)

    # ---- requests in a minute ----------------------------------------------------------------------------------------

    def count(self, owner: str) -> Awaitable[None] | None:
        """One more request of this owner. Raises RateLimited. What it returns, if anything, is to be awaited: where several
        processes count together, another one knows."""
        if self.limits.requests_per_minute is not None:
            self._rates.count(self._current(owner), self._now())
        return None

    def rate(self, owner: str) -> RateState | None:
        if self.limits.requests_per_minute is None:
            return None
        return self._rates.state(self._current(owner), self._now())

    def _current(self, owner: str) -> str:
        """Of a request that came before its key got a name, the name."""
        return self._names.get(owner, owner)

    # ---- responses at once -------------------------------------------------------------------------------------------

    def enter(self, owner: str) -> Place | Awaitable[Place]:
        """A place for one more response of this owner, or what is to be awaited for it. Raises RateLimited."""
        owner = self._names.get(owner, owner)
        place = Place(self.queue(owner), owner, self._now)
        try:
            return place if place.take_at_once() else _waited_for(place)
        except QueueFull as full:
            wait = whole_seconds(full.seconds)
            self._reserve(owner, wait + GRACE)
            most = counted(self.limits.responses or 0, "response")
            raise RateLimited(TOO_MANY.format(most=most, wait=wait), retry_after=wait) from None

    def patient_place(self, owner: str) -> Place:
        """A place for a response that waits as long as it takes. It is not taken yet."""
        return Place(self.queue(owner), owner, self._now, patient=True)

    def full_owners(self) -> set[str]:
        """Those that may begin no further background response now."""
        return {owner for owner, queue in self._queues.items() if queue.is_full} | self._reserved.keys()

    def queue(self, owner: str) -> Queue:
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = PlaceQueue(self.limits.responses, self._freed)
        return queue

    def _freed(self) -> None:
        self.when_freed()

    def _reserve(self, owner: str, seconds: float) -> None:
        """A client that was asked to try again finds no place if each one that becomes free is used for the next background
        response of its key. For a while, none is begun."""
        if (reserved := self._reserved.get(owner)) is not None:
            reserved.cancel()
        self._reserved[owner] = asyncio.get_running_loop().call_later(seconds, self._end_reservation, owner)

    def _end_reservation(self, owner: str) -> None:
        del self._reserved[owner]
        self.when_freed()


async def _waited_for(place: Place) -> Place:
    await place.take()
    return place


MANY_LARGE = "Too many large requests are waiting to be read. Try again in about {wait} s."
# How many large requests may wait to be read or converted. Owners take turns, so nobody waits for all of another's.
MOST_LARGE = 200


class Admission:
    """`owners` and `engines`: the two sides of it."""

    def __init__(self, limits: AdmissionLimits = NO_LIMITS, now: Clock | None = None) -> None:
        """`now`: the clock by which all times are measured. None: that of the event loop."""
        self.now: Clock = now or asyncio.get_running_loop().time
        self.owners = OwnerLimits(limits, self.now)
        self.engines = EngineLimits(limits, self.now)
        self._large: FairQueue[Place] = FairQueue(THREADS, MOST_LARGE)

    def change(self, limits: AdmissionLimits) -> None:
        """From now on. What runs and waits goes on."""
        self.engines.change(limits)
        self.owners.change(limits)

    def rename(self, names: Mapping[str, str]) -> None:
        """By each earlier owner its name."""
        self.owners.rename(names)

    def entered(self, owner: str, *, is_counted: bool = False) -> "Entered":
        """Counts a request, unless it was counted before, and gives it a place while it is answered."""
        return Entered(self, owner, is_counted=is_counted)

    @asynccontextmanager
    async def reading(self, owner: str, *, patient: bool = False) -> AsyncIterator[None]:
        """A place for work on a large request. Raises RateLimited: too many wait for one. Not so if it is patient."""
        place = Place(self._large, owner, self.now, patient=patient)
        try:
            await place.take()
        except QueueFull as full:
            wait = whole_seconds(full.seconds)
            raise RateLimited(MANY_LARGE.format(wait=wait), retry_after=wait) from None
        try:
            yield
        finally:
            place.leave()


class Entered:
    __slots__ = ("_admission", "_is_counted", "_owner", "_place", "_seat")

    _place: Place
    _seat: EngineSeat

    def __init__(self, admission: Admission, owner: str, *, is_counted: bool) -> None:
        self._admission = admission
        self._owner = owner
        self._is_counted = is_counted

    async def __aenter__(self) -> EngineSeat:
        owners, owner = self._admission.owners, self._owner
        if not self._is_counted and (counting := owners.count(owner)) is not None:
            await counting
        entering = owners.enter(owner)
        self._place = entering if isinstance(entering, Place) else await entering
        self._seat = self._admission.engines.seat(owner)
        return self._seat

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seat.leave()
        self._place.leave()
