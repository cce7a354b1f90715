"""The limits of a worker process: those that are set count over all processes, so the supervisor is asked for each place."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import structs

from antiphon.app.processes.messages import Full, Refusal
from antiphon.app.processes.questions import Questions
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError, EngineBusy, RateLimited
from antiphon.gateway.limits.admission import (
    Admission,
    AdmissionLimits,
    EngineSeat,
    OwnerPlace,
    OwnerQueue,
)
from antiphon.gateway.limits.request_rates import RateState

ERRORS: dict[str, type[ApiError]] = {"RateLimited": RateLimited, "EngineBusy": EngineBusy}


class SharedAdmission(Admission):
    """Its own queues have no limits: they count what this process does. Where a limit is not set, nobody is asked."""

    def __init__(self, questions: Questions, limits: AdmissionLimits) -> None:
        super().__init__(_unlimited(limits))
        self._questions = questions
        self._shared = limits
        self._full = Full((), ())
        # What was said of the rate of an owner last, and when.
        self._said: dict[str, tuple[RateState, float]] = {}
        self._ids = count(1)
        # By engine, how many requests of this process wait there for a place, without those that are patient.
        self.waiting_for: Counter[str] = Counter()

    def change(self, limits: AdmissionLimits) -> None:
        self._shared = limits
        self._said.clear()
        super().change(_unlimited(limits))

    def rename(self, names: Mapping[str, str]) -> None:
        super().rename(names)
        self._said.clear()

    def inform(self, full: Full) -> None:
        """The supervisor says who has no free place."""
        freed = set(self._full.owners) - set(full.owners)
        self._full = full
        if freed:
            self.when_freed()

    # ---- keys --------------------------------------------------------------------------------------------------------

    def count(self, owner: str) -> Awaitable[None] | None:
        return self._count(owner) if self._shared.requests_per_minute is not None else None

    async def _count(self, owner: str) -> None:
        said = await self.ask("count", owner)
        # Nothing, if the limit has just been removed.
        if said is not None:
            self._said[owner] = RateState(*said), self.now()

    def rate(self, owner: str) -> RateState | None:
        if self._shared.requests_per_minute is None or owner not in self._said:
            return None
        state, at = self._said[owner]
        return state._replace(reset=max(0.0, state.reset - (self.now() - at)))

    def enter(self, owner: str) -> OwnerPlace | Awaitable[OwnerPlace]:
        return super().enter(owner) if self._shared.responses is None else self._enter(owner)

    async def _enter(self, owner: str) -> OwnerPlace:
        place = SharedPlace(self, self._owner_queue(owner), owner)
        await place.ask("enter")
        place.take_at_once()
        return place

    def patient_place(self, owner: str) -> OwnerPlace:
        if self._shared.responses is None:
            return super().patient_place(owner)
        return WaitingPlace(self, self._owner_queue(owner), owner, patient=True)

    def full_owners(self) -> set[str]:
        return set(self._full.owners)

    # ---- engines -----------------------------------------------------------------------------------------------------

    def seat(self, owner: str, *, patient: bool = False) -> EngineSeat:
        if self._shared.engine_requests is None:
            return super().seat(owner, patient=patient)
        return SharedSeat(self, owner, patient=patient)

    def waiting(self, engine: Engine) -> int:
        return super().waiting(engine) + self.waiting_for[engine.root]

    def is_full(self, engine: Engine) -> bool:
        return engine.root in self._full.engines

    # ---- the supervisor ----------------------------------------------------------------------------------------------

    def new_id(self) -> int:
        """Of a place or a seat, for the supervisor."""
        return next(self._ids)

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Raises the error that the supervisor would raise."""
        answer = await self._questions.ask(name, *arguments)
        if isinstance(answer, dict):
            refusal = Refusal(**answer)
            raise ERRORS[refusal.error](refusal.message, retry_after=refusal.retry_after)
        return answer

    def note(self, name: str, id: int) -> None:
        self._questions.note(name, id)


class SharedPlace(OwnerPlace):
    """Among the responses of an owner, in all processes."""

    def __init__(self, admission: SharedAdmission, queue: OwnerQueue, owner: str, *, patient: bool = False) -> None:
        super().__init__(queue, owner, admission.now, patient=patient)
        self._shared = admission
        self._id: int | None = None

    async def ask(self, name: str) -> None:
        """For the place. Its answer may come too late for a client that has left."""
        self._id = self._shared.new_id()
        try:
            await self._shared.ask(name, self._id, self._owner)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> bool:
        id, self._id = self._id, None
        if id is not None:
            self._shared.note("leave", id)
        return super().leave()


class WaitingPlace(SharedPlace):
    """For a background response: it waits as long as it takes."""

    def take_at_once(self) -> bool:
        """Nobody knows without asking."""
        return self.taken

    async def take(self, within: float | None = None) -> None:
        if not self.taken:
            async with asyncio.timeout(within):
                await self.ask("wait")
            super().take_at_once()


class SharedSeat(EngineSeat):
    """At an engine, among the requests of all processes. The supervisor has a seat of the same state."""

    def __init__(self, admission: SharedAdmission, owner: str, *, patient: bool = False) -> None:
        super().__init__(admission, owner, patient=patient)
        self._shared = admission
        self._id: int | None = None
        self._asks = False

    @property
    def waits(self) -> bool:
        return self._asks

    async def take(self, engine: Engine, others: Sequence[Engine] = ()) -> None:
        if self._engine is engine:
            return
        super().leave()
        await self._ask(engine, others)
        # In the queue of this process, which has no limit: only the place there is left before.
        id, self._id = self._id, None
        await super().take(engine)
        self._id = id

    async def _ask(self, engine: Engine, others: Sequence[Engine]) -> None:
        self._id = self._id or self._shared.new_id()
        self._asks = True
        self._shared.waiting_for[engine.root] += not self.patient
        try:
            named = [_named(each) for each in others]
            await self._shared.ask("take", self._id, self.owner, self.patient, _named(engine), named)
        except EngineBusy:
            # It may have a place at another engine there, for which it asks next.
            raise
        except BaseException:
            self.leave()
            raise
        finally:
            self._asks = False
            self._shared.waiting_for[engine.root] -= not self.patient

    def pause(self) -> None:
        if self._id is not None:
            self._shared.note("pause", self._id)
        super().pause()

    def leave(self) -> None:
        id, self._id = self._id, None
        if id is not None:
            self._shared.note("leave", id)
        super().leave()


def _named(engine: Engine) -> tuple[str, int | None]:
    """Its address, and how many requests it processes at once."""
    return engine.root, engine.slots


def _unlimited(limits: AdmissionLimits) -> AdmissionLimits:
    return structs.replace(limits, responses=None, requests_per_minute=None, engine_requests=None)
