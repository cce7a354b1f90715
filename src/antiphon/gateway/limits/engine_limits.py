"""The limits of engines: how many requests each of them gets at once, and who waits for it."""

from collections.abc import Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct

from antiphon.engines.upstream import Engine
from antiphon.errors import EngineBusy
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.places import AUTO, AdmissionLimits, Clock, Place, begin, take_first, whole_seconds

BUSY = "The engine at {root} is busy. Try again in about {wait} s."
QUEUE_FULL = "The engine at {root} is busy, and its queue is full. Try again in about {wait} s."
WAITED = "The engine at {root} is busy: the request waited for {waited:g} s, and no longer. Try again in about {wait} s."


class EngineQueue(FairQueue[Place]):
    """`intended`: how many requests are about to ask the engine, and have no place yet."""

    intended = 0


class Permit(Protocol):
    """Asked for before a place is taken: where several processes count together, another one knows. It has a seat of the same
    state."""

    @property
    def waits(self) -> bool: ...

    async def take(self, engine: Engine, others: Sequence[Engine]) -> None:
        """Raises EngineBusy."""

    def pause(self) -> None: ...
    def leave(self) -> None: ...


class EngineLimits:
    def __init__(self, limits: AdmissionLimits, now: Clock) -> None:
        self.limits = limits
        self.now = now
        self._queues: WeakKeyDictionary[Engine, EngineQueue] = WeakKeyDictionary()

    def change(self, limits: AdmissionLimits) -> None:
        """From now on. What runs and waits goes on."""
        self.limits, now = limits, self.now()
        for engine, queue in self._queues.items():
            begin(queue.resize(self._places_at(engine), limits.engine_queue, now))

    def seat(self, owner: str, *, patient: bool = False) -> "EngineSeat":
        """For one response, at the engines that it will ask."""
        return EngineSeat(self, owner, patient=patient)

    def queue(self, engine: Engine) -> EngineQueue:
        queue = self._queues.get(engine)
        if queue is None:
            queue = self._queues[engine] = EngineQueue(self._places_at(engine), self.limits.engine_queue)
        elif self.limits.engine_requests == AUTO and queue.places != (places := self._places_at(engine)):
            # It was not known yet, or the engine was started again with other flags.
            begin(queue.resize(places, self.limits.engine_queue, self.now()))
        return queue

    def _places_at(self, engine: Engine) -> int | None:
        """How many requests the engine gets at once."""
        most = self.limits.engine_requests
        return most if not isinstance(most, str) else engine.slots

    def waiting(self, engine: Engine) -> int:
        """Requests that wait for this engine, without those of background responses."""
        return self.queue(engine).waiting

    def is_full(self, engine: Engine) -> bool:
        """The next request for this engine would have to wait."""
        return self.queue(engine).is_full

    def in_flight(self, engine: Engine) -> int:
        """The requests of this gateway that the engine has, those that wait for it here, and those that are about to."""
        queue = self.queue(engine)
        return queue.running + queue.waiting + queue.intended


class EngineSeat(Struct, eq=False):
    """The place of one response at the engine that it uses. It is kept from one engine answer to the next, except while tools
    run: they may take long, and the engine has nothing to do."""

    _limits: EngineLimits
    # Whose response it is.
    owner: str
    # It waits for as long as it takes.
    patient: bool = False
    permit: Permit | None = None
    _engine: Engine | None = None
    _place: Place | None = None
    # It is the place at an engine that has not been asked for yet, which became free first.
    _is_ahead: bool = False
    # The engine that it returns to.
    _paused_at: Engine | None = None
    # The queue of the engine that was chosen for it, until it is asked.
    _intended: EngineQueue | None = None
    # The engine that was chosen, and its queue.
    _chosen: tuple[Engine, EngineQueue] | None = None

    @property
    def waits(self) -> bool:
        """It has to wait for its place."""
        return (self._place is not None and self._place.waits) or (self.permit is not None and self.permit.waits)

    def intend(self, engine: Engine) -> None:
        """Counts at once where it is going to ask: many requests may be chosen for before the first of them has asked."""
        queue = self._intended = self._limits.queue(engine)
        self._chosen = engine, queue
        queue.intended += 1

    async def take(self, engine: Engine, others: Sequence[Engine] = ()) -> None:
        """Raises EngineBusy: at once, if one of the others could be asked now and this one could not."""
        if self._intended is not None:
            self._intended.intended -= 1
            self._intended = None
        if self._engine is engine:
            self._is_ahead = False
            return
        if self.permit is not None:
            self._vacate()
            await self.permit.take(engine, others)
            # The places here have no limit.
            others = ()
        if not (self._is_ahead and self._engine in others):
            returns = self._paused_at is engine
            if self._place is not None:
                self._vacate()
            self._paused_at = None
            chosen, self._chosen = self._chosen, None
            queue = chosen[1] if chosen is not None and chosen[0] is engine else self._limits.queue(engine)
            place = Place(queue, self.owner, self._limits.now, patient=self.patient, returns=returns)
            if (queue.places is None or not queue.is_full) and place.take_at_once():
                self._engine, self._place = engine, place
            else:
                # What it has done so far would be lost if it were refused, and the engine may still have its prompt.
                await self._wait(engine, place, () if returns else others)
        self._is_ahead = self._engine is not engine
        if self._is_ahead:
            raise self._busy(BUSY, engine)

    async def _wait(self, engine: Engine, place: Place, others: Sequence[Engine]) -> None:
        """For this place, or for one at another engine."""
        if not all(map(self._limits.is_full, others)):
            raise self._busy(BUSY, engine)
        within = self._limits.limits.queue_timeout
        self._engine, self._place = engine, place
        try:
            if self.patient and others:
                self._engine, self._place = await self._take_first(place, others)
            else:
                await place.take(None if self.patient or place.returns else within)
        except BaseException as reason:
            # However it ends: the next engine answer must not go on without a place.
            self.leave()
            if isinstance(reason, QueueFull):
                raise _busy(QUEUE_FULL, engine, reason.seconds) from None
            if isinstance(reason, TimeoutError):
                raise self._busy(WAITED, engine, waited=within) from None
            raise

    async def _take_first(self, place: Place, others: Sequence[Engine]) -> tuple[Engine, Place]:
        """A place at whichever engine has one first. The exchange then learns that the engines before it are busy."""
        assert self._engine is not None
        limits, places = self._limits, {place: self._engine}
        places |= {Place(limits.queue(each), self.owner, limits.now, patient=True): each for each in others}
        taken = await take_first(list(places))
        return places[taken], taken

    def pause(self) -> None:
        """Leaves the place to others for now. Who takes it again comes before those that have not begun."""
        engine = self._engine or self._paused_at
        if self.permit is not None:
            self.permit.pause()
        self._vacate()
        self._paused_at = engine

    def leave(self) -> None:
        if self.permit is not None:
            self.permit.leave()
        if self._place is not None or self._intended is not None:
            self._vacate()
        self._paused_at = None

    def _vacate(self) -> None:
        """Leaves what it has in this process."""
        if self._intended is not None:
            self._intended.intended -= 1
            self._intended = None
        self._is_ahead, self._paused_at = False, None
        place, self._engine, self._place = self._place, None, None
        if place is not None:
            place.leave()

    def _busy(self, message: str, engine: Engine, **members: float) -> EngineBusy:
        limits = self._limits
        return _busy(message, engine, limits.queue(engine).seconds_to_wait(limits.now()), **members)


def _busy(message: str, engine: Engine, seconds: float, **members: float) -> EngineBusy:
    wait = whole_seconds(seconds)
    return EngineBusy(message.format(root=engine.root, wait=wait, **members), retry_after=wait)
