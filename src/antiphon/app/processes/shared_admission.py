"""The limits of a worker process: those that are set count over all processes, so the supervisor is asked for each place."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import structs

from antiphon.app.processes.channel import Questions
from antiphon.app.processes.messages import Full, Refusal
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError, EngineBusy, RateLimited
from antiphon.gateway.limits.engine_limits import EngineLimits, EngineSeat
from antiphon.gateway.limits.owner_limits import Admission, OwnerLimits
from antiphon.gateway.limits.places import AdmissionLimits, Clock, Place, Queue
from antiphon.gateway.limits.request_rates import RateState

ERRORS: dict[str, type[ApiError]] = {"RateLimited": RateLimited, "EngineBusy": EngineBusy}


class SharedAdmission(Admission):
    """Where a limit is not set, nobody is asked."""

    owners: "SharedOwnerLimits"
    engines: "SharedEngineLimits"

    def __init__(self, questions: Questions, limits: AdmissionLimits) -> None:
        super().__init__()
        supervisor = SupervisorPlaces(questions)
        self.owners = SharedOwnerLimits(supervisor, limits, self.now)
        self.engines = SharedEngineLimits(supervisor, limits, self.now)

    def inform(self, full: Full) -> None:
        """The supervisor says who has no free place."""
        self.engines.full = frozenset(full.engines)
        self.owners.inform(frozenset(full.owners))


class SupervisorPlaces:
    """The places of this process that the supervisor counts, by their numbers."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._ids = count(1)

    def new_id(self) -> int:
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


# ---- keys ------------------------------------------------------------------------------------------------------------


class SharedOwnerLimits(OwnerLimits):
    def __init__(self, supervisor: SupervisorPlaces, limits: AdmissionLimits, now: Clock) -> None:
        super().__init__(limits, now)
        self._supervisor = supervisor
        self._queue = SupervisorQueue(supervisor)
        self._full: frozenset[str] = frozenset()
        # What was said of the rate of an owner last, and when.
        self._said: dict[str, tuple[RateState, float]] = {}

    def change(self, limits: AdmissionLimits) -> None:
        self._said.clear()
        super().change(limits)

    def rename(self, names: Mapping[str, str]) -> None:
        super().rename(names)
        self._said.clear()

    def inform(self, full: frozenset[str]) -> None:
        """Owners without a free place."""
        freed, self._full = self._full - full, full
        if freed:
            self.when_freed()

    def count(self, owner: str) -> Awaitable[None] | None:
        return self._count(owner) if self.limits.requests_per_minute is not None else None

    async def _count(self, owner: str) -> None:
        said = await self._supervisor.ask("count", owner)
        # Nothing, if the limit has just been removed.
        if said is not None:
            self._said[owner] = RateState(*said), self._now()

    def rate(self, owner: str) -> RateState | None:
        if self.limits.requests_per_minute is None or owner not in self._said:
            return None
        state, at = self._said[owner]
        return state._replace(reset=max(0.0, state.reset - (self._now() - at)))

    def full_owners(self) -> set[str]:
        return set(self._full)

    def queue(self, owner: str) -> Queue:
        return super().queue(owner) if self.limits.responses is None else self._queue


class SupervisorQueue:
    """The responses of all owners: the supervisor has their queues."""

    def __init__(self, supervisor: SupervisorPlaces) -> None:
        self._supervisor = supervisor
        self._ids: dict[Place, int] = {}
        self._asking: dict[Place, asyncio.Task[None]] = {}

    def enter(self, ticket: Place, owner: str, now: float, *, patient: bool, returns: bool) -> None:
        """It waits for the answer, at least."""
        if ticket not in self._ids:
            id = self._ids[ticket] = self._supervisor.new_id()
            asking = self._supervisor.ask("wait" if patient else "enter", id, owner)
            self._asking[ticket] = asyncio.create_task(self._ask(ticket, asking))

    async def _ask(self, ticket: Place, asking: Awaitable[Any]) -> None:
        try:
            await asking
        except ApiError as refused:
            del self._ids[ticket], self._asking[ticket]
            ticket.fail(refused)
        else:
            del self._asking[ticket]
            ticket.begin()

    def runs(self, ticket: Place) -> bool:
        return ticket in self._ids and ticket not in self._asking

    def leave(self, ticket: Place, now: float) -> Sequence[Place]:
        """Its answer may come too late for a client that has left."""
        if (asking := self._asking.pop(ticket, None)) is not None:
            asking.cancel()
        if (id := self._ids.pop(ticket, None)) is not None:
            self._supervisor.note("leave", id)
        # The supervisor gives the place to another one.
        return ()

    def seconds_to_wait(self, now: float) -> float:
        return 0.0


# ---- engines ---------------------------------------------------------------------------------------------------------


class SharedEngineLimits(EngineLimits):
    """Its own queues have no limits: they count what this process does."""

    def __init__(self, supervisor: SupervisorPlaces, limits: AdmissionLimits, now: Clock) -> None:
        super().__init__(_unlimited(limits), now)
        self._supervisor = supervisor
        self._is_limited = limits.engine_requests is not None
        # The addresses of engines without a free place.
        self.full: frozenset[str] = frozenset()
        # By engine, how many requests of this process wait there for a place, without those that are patient.
        self.waiting_for: Counter[str] = Counter()

    def change(self, limits: AdmissionLimits) -> None:
        self._is_limited = limits.engine_requests is not None
        super().change(_unlimited(limits))

    def seat(self, owner: str, *, patient: bool = False) -> EngineSeat:
        permit = SupervisorPermit(self._supervisor, self.waiting_for, owner, patient=patient) if self._is_limited else None
        return EngineSeat(self, owner, patient=patient, permit=permit)

    def waiting(self, engine: Engine) -> int:
        return super().waiting(engine) + self.waiting_for[engine.root]

    def is_full(self, engine: Engine) -> bool:
        return engine.root in self.full


class SupervisorPermit:
    """For a seat at an engine, among the requests of all processes."""

    def __init__(self, supervisor: SupervisorPlaces, waiting_for: Counter[str], owner: str, *, patient: bool) -> None:
        self._supervisor = supervisor
        self._waiting_for = waiting_for
        self._owner = owner
        self._patient = patient
        self._id: int | None = None
        self.waits = False

    async def take(self, engine: Engine, others: Sequence[Engine]) -> None:
        self._id = self._id or self._supervisor.new_id()
        self.waits = True
        self._waiting_for[engine.root] += not self._patient
        try:
            named = [_named(each) for each in others]
            await self._supervisor.ask("take", self._id, self._owner, self._patient, _named(engine), named)
        except EngineBusy:
            # It may have a place at another engine there, for which it asks next.
            raise
        except BaseException:
            self.leave()
            raise
        finally:
            self.waits = False
            self._waiting_for[engine.root] -= not self._patient

    def pause(self) -> None:
        if self._id is not None:
            self._supervisor.note("pause", self._id)

    def leave(self) -> None:
        id, self._id = self._id, None
        if id is not None:
            self._supervisor.note("leave", id)


def _named(engine: Engine) -> tuple[str, int | None]:
    """Its address, and how many requests it processes at once."""
    return engine.root, engine.slots


def _unlimited(limits: AdmissionLimits) -> AdmissionLimits:
    return structs.replace(limits, engine_requests=None)
