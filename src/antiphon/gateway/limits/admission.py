"""Who may begin a response now, who waits, and who is refused: the limits of keys and of engines.

Limits are those of this gateway, over all of its worker processes (`app/processes/shared_admission.py`): several gateways on
one store count for themselves.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct

from antiphon.engines.upstream import Engine
from antiphon.errors import EngineBusy, RateLimited, counted
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.request_rates import RateState, RequestRates
from antiphon.gateway.limits.threads import THREADS

TOO_MANY = "This key may run {most} at once, and no more. Try again when one has ended, in about {wait} s."
BUSY = "The engine at {root} is busy. Try again in about {wait} s."
QUEUE_FULL = "The engine at {root} is busy, and its queue is full. Try again in about {wait} s."
MANY_LARGE = "Too many large requests are waiting to be read. Try again in about {wait} s."
WAITED = "The engine at {root} is busy: the request waited for {waited:g} s, and no longer. Try again in about {wait} s."


class AdmissionLimits(Struct, frozen=True):
    """None: no limit."""

    # Of each key: responses that run at once, and requests in a minute.
    responses: int | None = None
    requests_per_minute: int | None = None
    # Of each engine: requests that it gets at once ("auto": as many as it says that it processes), requests that wait for
    # that, and for how many seconds each of them does.
    engine_requests: int | Literal["auto"] | None = None
    engine_queue: int = 1000
    queue_timeout: float = 60.0


# As many requests as the engine says that it processes at once.
AUTO = "auto"
NO_LIMITS = AdmissionLimits()
# How many large requests may wait to be read or converted. Owners take turns, so nobody waits for all of another's.
MOST_LARGE = 200

Clock = Callable[[], float]


class QueuePlace:
    """A place in a queue, for one request: `take()` it, and `leave()` it however the request ends."""

    __slots__ = ("_now", "_owner", "_patient", "_queue", "_returns", "_turn")

    def __init__(
        self, queue: FairQueue["QueuePlace"], owner: str, now: Clock, *, patient: bool = False, returns: bool = False
    ) -> None:
        self._queue = queue
        self._now = now
        self._owner = owner
        self._patient = patient
        self._returns = returns
        self._turn: asyncio.Future[None] | None = None

    @property
    def taken(self) -> bool:
        return self._queue.runs(self)

    @property
    def waits(self) -> bool:
        return self._turn is not None

    def take_at_once(self) -> bool:
        """False: there is none. Raises QueueFull if it could not even wait for one."""
        now = self._now()
        displaced = self._queue.enter(self, self._owner, now, patient=self._patient, returns=self._returns)
        if displaced is not None:
            displaced._fail(QueueFull(self._queue.seconds_to_wait(now)))
        return self._queue.runs(self)

    async def take(self, within: float | None = None) -> None:
        """Raises QueueFull, or TimeoutError after so many seconds."""
        if self.taken or self.take_at_once():
            return
        self._turn = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within):
                await self._turn
        except BaseException:
            self.leave()
            raise
        finally:
            self._turn = None

    def leave(self) -> bool:
        """False: it was not taken."""
        queue = self._queue
        was_taken = queue.runs(self)
        if begun := queue.leave(self, self._now()):
            begin(begun)
        return was_taken

    def _begin(self) -> None:
        # A request that is given up right now leaves by itself.
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(error)


def begin(places: Iterable[QueuePlace]) -> None:
    for place in places:
        place._begin()


async def take_first(places: Sequence[QueuePlace]) -> QueuePlace:
    """Waits for all of them, for as long as it takes. Only the one that it gets is kept."""
    taking = {asyncio.create_task(place.take()): place for place in places}
    taken: QueuePlace | None = None
    try:
        done, _ = await asyncio.wait(taking, return_when=asyncio.FIRST_COMPLETED)
        taken = next(place for task, place in taking.items() if task in done)
        return taken
    finally:
        for task, place in taking.items():
            if place is not taken:
                task.cancel()
                place.leave()


class Seat(Protocol):
    @property
    def owner(self) -> str:
        """Whose response it is."""

    @property
    def patient(self) -> bool:
        """The response waits for as long as it takes."""

    @property
    def waits(self) -> bool:
        """It has to wait for its turn."""

    async def take(self, engine: Engine, others: Sequence[Engine] = ()) -> None:
        """Raises EngineBusy: at once, if one of the others could be asked now and this one could not."""

    def pause(self) -> None:
        """Leaves the place to others for now. Who takes it again comes before those that have not begun."""

    def leave(self) -> None: ...


class EngineSeat:
    """The place of one response at the engine that it uses. It is kept from one engine answer to the next, except while tools
    run: they may take long, and the engine has nothing to do."""

    __slots__ = ("_admission", "_engine", "_intended", "_is_ahead", "_paused_at", "_place", "owner", "patient")

    def __init__(self, admission: "Admission", owner: str, *, patient: bool = False) -> None:
        self._admission = admission
        self.owner = owner
        self.patient = patient
        self._engine: Engine | None = None
        self._place: QueuePlace | None = None
        # It is the place at an engine that has not been asked for yet, which became free first.
        self._is_ahead = False
        # The engine that it returns to.
        self._paused_at: Engine | None = None
        # The queue of the engine that was chosen for it, until it is asked.
        self._intended: EngineQueue | None = None

    @property
    def waits(self) -> bool:
        return self._place is not None and self._place.waits

    def intend(self, engine: Engine) -> None:
        """Counts at once where it is going to ask: many requests may be chosen for before the first of them has asked."""
        queue = self._intended = self._admission.engine_queue(engine)
        queue.intended += 1

    def _drop_intention(self) -> None:
        queue, self._intended = self._intended, None
        if queue is not None:
            queue.intended -= 1

    async def take(self, engine: Engine, others: Sequence[Engine] = ()) -> None:
        if self._intended is not None:
            self._drop_intention()
        if self._engine is engine:
            self._is_ahead = False
            return
        if not (self._is_ahead and self._engine in others):
            returns = self._paused_at is engine
            if self._place is not None:
                self.leave()
            self._paused_at = None
            queue = self._admission.engine_queue(engine)
            place = QueuePlace(queue, self.owner, self._admission.now, patient=self.patient, returns=returns)
            if not queue.is_full and place.take_at_once():
                # Nobody has to wait.
                self._engine, self._place, self._is_ahead = engine, place, False
                return
            # What it has done so far would be lost if it were refused, and the engine may still have its prompt.
            await self._wait(engine, queue, place, () if returns else others, returns=returns)
        self._is_ahead = self._engine is not engine
        if self._is_ahead:
            raise _busy(BUSY, engine, self._admission.engine_queue(engine).seconds_to_wait(self._admission.now()))

    async def _wait(
        self, engine: Engine, queue: "EngineQueue", place: QueuePlace, others: Sequence[Engine], *, returns: bool
    ) -> None:
        """For this place, or for one at another engine."""
        limits, now = self._admission.limits, self._admission.now
        if not all(map(self._admission.is_full, others)):
            raise _busy(BUSY, engine, queue.seconds_to_wait(now()))
        self._engine, self._place = engine, place
        try:
            if self.patient and others:
                self._engine, self._place = await self._take_first(place, others)
            else:
                await place.take(None if self.patient or returns else limits.queue_timeout)
        except BaseException as reason:
            # However it ends: the next engine answer must not go on without a place.
            self.leave()
            if isinstance(reason, QueueFull):
                raise _busy(QUEUE_FULL, engine, reason.seconds) from None
            if isinstance(reason, TimeoutError):
                raise _busy(WAITED, engine, queue.seconds_to_wait(now()), waited=limits.queue_timeout) from None
            raise

    async def _take_first(self, place: QueuePlace, others: Sequence[Engine]) -> tuple[Engine, QueuePlace]:
        """A place at whichever engine has one first. The exchange is then told that the engines before it are busy."""
        assert self._engine is not None
        places = {place: self._engine}
        now = self._admission.now
        places |= {QueuePlace(self._admission.engine_queue(each), self.owner, now, patient=True): each for each in others}
        taken = await take_first(list(places))
        return places[taken], taken

    def pause(self) -> None:
        engine = self._engine or self._paused_at
        self.leave()
        self._paused_at = engine

    def leave(self) -> None:
        if self._intended is not None:
            self._drop_intention()
        self._is_ahead, self._paused_at = False, None
        place, self._engine, self._place = self._place, None, None
        if place is not None:
            place.leave()


class BorrowedSeat:
    """For a part of a response: the place stays with the response."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    @property
    def owner(self) -> str:
        return self._seat.owner

    @property
    def patient(self) -> bool:
        return self._seat.patient

    @property
    def waits(self) -> bool:
        return self._seat.waits

    async def take(self, engine: Engine, others: Sequence[Engine] = ()) -> None:
        await self._seat.take(engine, others)

    def pause(self) -> None: ...

    def leave(self) -> None: ...


class Admission:
    def __init__(self, limits: AdmissionLimits = NO_LIMITS, now: Clock | None = None) -> None:
        """`now`: the clock by which all times are measured. None: that of the event loop."""
        self.limits = limits
        # By each earlier owner its name.
        self._names: Mapping[str, str] = {}
        self._rates = RequestRates(limits.requests_per_minute)
        self._owners: dict[str, OwnerQueue] = {}
        self._engines: WeakKeyDictionary[Engine, EngineQueue] = WeakKeyDictionary()
        self._large: FairQueue[QueuePlace] = FairQueue(THREADS, MOST_LARGE)
        self._loop = asyncio.get_running_loop()
        self.now: Clock = now or self._loop.time
        # Owners whose next place is for a client that was refused, and when that ends.
        self._reserved: dict[str, asyncio.TimerHandle] = {}
        # Called when an owner that had no free place has one again.
        self.when_freed: Callable[[], None] = lambda: None

    def change(self, limits: AdmissionLimits) -> None:
        """From now on. What runs and waits goes on."""
        self.limits, now = limits, self.now()
        self._rates.per_minute = limits.requests_per_minute
        for queue in self._owners.values():
            begin(queue.resize(limits.responses, 0, now))
        for engine, engine_queue in self._engines.items():
            begin(engine_queue.resize(self._places_at(engine), limits.engine_queue, now))
        self.when_freed()

    # ---- keys --------------------------------------------------------------------------------------------------------

    def rename(self, names: Mapping[str, str]) -> None:
        """By each earlier owner its name: what runs for the earlier one, and what it has sent, counts for the name from now
        on. If something runs for the name as well, the two are counted apart until what runs has ended."""
        self._names = names
        for earlier, name in names.items():
            self._rates.rename(earlier, name, self.now())
            if earlier in self._owners and (name not in self._owners or not self._owners[name].running):
                self._owners[name] = self._owners.pop(earlier)

    def count(self, owner: str) -> Awaitable[None] | None:
        """One more request of this owner. Raises RateLimited. What it returns, if anything, is to be awaited: where several
        processes count together, another one knows."""
        if self.limits.requests_per_minute is not None:
            self._rates.count(self._current(owner), self.now())
        return None

    def rate(self, owner: str) -> RateState | None:
        if self.limits.requests_per_minute is None:
            return None
        return self._rates.state(self._current(owner), self.now())

    def _current(self, owner: str) -> str:
        """Of a request that came before its key got a name, the name."""
        return self._names.get(owner, owner)

    def enter(self, owner: str) -> "OwnerPlace | Awaitable[OwnerPlace]":
        """A place for one more response of this owner, or what is to be awaited for it. Raises RateLimited."""
        owner = self._names.get(owner, owner)
        place = OwnerPlace(self._owners.get(owner) or self._owner_queue(owner), owner, self.now)
        try:
            place.take_at_once()
        except QueueFull as full:
            wait = whole_seconds(full.seconds)
            self._reserve(owner, wait + GRACE)
            most = counted(self.limits.responses or 0, "response")
            raise RateLimited(TOO_MANY.format(most=most, wait=wait), retry_after=wait) from None
        return place

    def patient_place(self, owner: str) -> "OwnerPlace":
        """A place for a response that waits as long as it takes. It is not taken yet."""
        return OwnerPlace(self._owner_queue(owner), owner, self.now, patient=True)

    @asynccontextmanager
    async def entered(self, owner: str) -> AsyncIterator[EngineSeat]:
        """Counts a request, and gives it a place while it is answered."""
        if (counting := self.count(owner)) is not None:
            await counting
        entering = self.enter(owner)
        place = entering if isinstance(entering, OwnerPlace) else await entering
        seat = self.seat(owner)
        try:
            yield seat
        finally:
            seat.leave()
            place.leave()

    @asynccontextmanager
    async def reading(self, owner: str, *, patient: bool = False) -> AsyncIterator[None]:
        """A turn for work on a large request. Raises RateLimited: too many wait for one. Not so if it is patient."""
        place = QueuePlace(self._large, owner, self.now, patient=patient)
        try:
            await place.take()
        except QueueFull as full:
            wait = whole_seconds(full.seconds)
            raise RateLimited(MANY_LARGE.format(wait=wait), retry_after=wait) from None
        try:
            yield
        finally:
            place.leave()

    def full_owners(self) -> set[str]:
        """Those that may begin no further background response now."""
        return {owner for owner, queue in self._owners.items() if queue.is_full} | self._reserved.keys()

    def _reserve(self, owner: str, seconds: float) -> None:
        """A client that was asked to try again finds no place if each one that becomes free is used for the next background
        response of its key. For a while, none is begun."""
        if (reserved := self._reserved.get(owner)) is not None:
            reserved.cancel()
        self._reserved[owner] = self._loop.call_later(seconds, self._end_reservation, owner)

    def _end_reservation(self, owner: str) -> None:
        del self._reserved[owner]
        self.when_freed()

    def _owner_queue(self, owner: str) -> "OwnerQueue":
        if owner not in self._owners:
            self._owners[owner] = OwnerQueue(self)
        return self._owners[owner]

    # ---- engines -----------------------------------------------------------------------------------------------------

    def engine_queue(self, engine: Engine) -> "EngineQueue":
        queue = self._engines.get(engine)
        if queue is None:
            queue = self._engines[engine] = EngineQueue(self._places_at(engine), self.limits.engine_queue)
        elif self.limits.engine_requests == AUTO and queue.places != (places := self._places_at(engine)):
            # It was not known yet, or the engine was started again with other flags.
            begin(queue.resize(places, self.limits.engine_queue, self.now()))
        return queue

    def _places_at(self, engine: Engine) -> int | None:
        """How many requests the engine gets at once."""
        most = self.limits.engine_requests
        return most if not isinstance(most, str) else engine.slots

    def seat(self, owner: str, *, patient: bool = False) -> EngineSeat:
        """For one response, at the engines that it will ask."""
        return EngineSeat(self, owner, patient=patient)

    def waiting(self, engine: Engine) -> int:
        """Requests that wait for this engine, without those of background responses."""
        return self.engine_queue(engine).waiting

    def is_full(self, engine: Engine) -> bool:
        """The next request for this engine would have to wait."""
        return self.engine_queue(engine).is_full

    def in_flight(self, engine: Engine) -> int:
        """The requests of this gateway that the engine has, those that wait for it here, and those that are about to."""
        queue = self.engine_queue(engine)
        return queue.running + queue.waiting + queue.intended


class EngineQueue(FairQueue[QueuePlace]):
    """`intended`: how many requests are about to ask the engine, and have no place yet."""

    intended = 0


class OwnerQueue(FairQueue[QueuePlace]):
    """The responses of one owner."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(admission.limits.responses, 0)
        self.admission = admission


class OwnerPlace(QueuePlace):
    __slots__ = ()

    _queue: OwnerQueue

    def leave(self) -> bool:
        queue = self._queue
        if queue.places is None:
            return super().leave()
        was_full = queue.is_full
        was_taken = super().leave()
        if was_full and not queue.is_full:
            queue.admission.when_freed()
        return was_taken


def _busy(message: str, engine: Engine, seconds: float, **members: float) -> EngineBusy:
    wait = whole_seconds(seconds)
    return EngineBusy(message.format(root=engine.root, wait=wait, **members), retry_after=wait)


# Seconds that a client may come later than it was asked to.
GRACE = 1.0
# The longest time after which a client is asked to try again, in seconds.
LONGEST_WAIT = 60


def whole_seconds(seconds: float) -> int:
    return min(LONGEST_WAIT, max(1, math.ceil(seconds)))
