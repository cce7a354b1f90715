"""Limits over several worker processes: their admissions beside the one of the supervisor, without processes."""

import asyncio
from typing import Any, cast

import pytest
from msgspec import Struct, msgpack

from antiphon.app.options import admission_limits
from antiphon.app.processes.channel import Questions
from antiphon.app.processes.messages import Answer, Full, ToSupervisor, ToWorker
from antiphon.app.processes.shared_admission import SharedAdmission
from antiphon.app.processes.shared_limits import EngineName, SharedLimits
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineBusy, RateLimited
from antiphon.gateway.limits.places import AdmissionLimits, Place
from antiphon.settings.settings import Settings


class Process:
    """One worker process: what it sends arrives at the limits of the supervisor, encoded as on a channel."""

    def __init__(self, group: "Group", limits: AdmissionLimits) -> None:
        self._group = group
        self.asked = 0
        self.questions = Questions(cast(Any, self))
        self.admission = SharedAdmission(self.questions, limits)
        self.sent = self

    def send(self, message: Struct) -> None:
        encoded = msgpack.encode(message)
        if isinstance(message, Answer | Full):
            self._receive(msgpack.decode(encoded, type=ToWorker))
            return
        self.asked += 1
        self._group.limits.receive(cast(Any, self), msgpack.decode(encoded, type=ToSupervisor))

    def _receive(self, message: Any) -> None:
        if isinstance(message, Full):
            self.admission.inform(message)
        else:
            self.questions.answered(message)

    async def enter(self, owner: str = "ann") -> Place:
        entering = self.admission.owners.enter(owner)
        return entering if isinstance(entering, Place) else await entering


class Group:
    def __init__(self, **settings: Any) -> None:
        chosen = Settings(**settings)
        self.limits = SharedLimits(chosen, self._broadcast)
        self.processes = [Process(self, admission_limits(chosen)) for _ in range(2)]

    def _broadcast(self, full: Full) -> None:
        for process in self.processes:
            process.send(full)


def engine(root: str = "http://one") -> Engine:
    return cast(Engine, EngineName(root))


async def settle() -> None:
    """Lets all that is due happen."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_without_limits_nobody_is_asked() -> None:
    first, _ = Group().processes
    assert first.admission.owners.count("ann") is None
    place, seat = await first.enter(), first.admission.engines.seat("ann")
    await seat.take(engine())
    seat.leave()
    place.leave()
    assert first.asked == 0


async def test_responses_of_a_key_count_together() -> None:
    first, second = Group(key_responses=1).processes
    place = await first.enter()
    with pytest.raises(RateLimited, match="This key may run 1 response at once") as refused:
        await second.enter()
    assert refused.value.retry_after == 1
    await second.enter("ben")
    place.leave()
    await second.enter()


async def test_a_background_response_waits_for_its_place_in_another_process() -> None:
    first, second = Group(key_responses=1).processes
    place, waiting = await first.enter(), second.admission.owners.patient_place("ann")
    assert not waiting.take_at_once()
    assert second.admission.owners.full_owners() == {"ann"}
    taking = asyncio.create_task(waiting.take())
    await settle()
    assert not taking.done()
    place.leave()
    await taking
    assert waiting.taken
    waiting.leave()
    await settle()
    assert second.admission.owners.full_owners() == set()


async def test_one_that_gives_up_waiting_leaves_the_place_to_others() -> None:
    first, second = Group(key_responses=1).processes
    place, waiting = await first.enter(), second.admission.owners.patient_place("ann")
    taking = asyncio.create_task(waiting.take())
    await settle()
    taking.cancel()
    await asyncio.wait({taking})
    place.leave()
    await settle()
    assert (await first.enter()).taken


async def test_requests_of_an_engine_count_together_and_wait_in_turn() -> None:
    first, second = Group(engine_requests=1).processes
    one, two = first.admission.engines.seat("ann"), second.admission.engines.seat("ben")
    await one.take(engine())
    taking = asyncio.create_task(two.take(engine()))
    await settle()
    assert two.waits
    assert second.admission.engines.waiting(engine()) == 1
    assert second.admission.engines.is_full(engine())
    one.leave()
    await taking
    assert not two.waits
    two.leave()
    await settle()
    assert not first.admission.engines.is_full(engine())


async def test_another_engine_is_asked_if_one_is_busy_in_another_process() -> None:
    first, second = Group(engine_requests=1).processes
    one, two = first.admission.engines.seat("ann"), second.admission.engines.seat("ben")
    here, there = engine("http://one"), engine("http://two")
    await one.take(here)
    with pytest.raises(EngineBusy, match="The engine at http://one is busy"):
        await two.take(here, [there])
    await two.take(there, [here])
    assert second.admission.engines.queue(there).running == 1


async def test_a_full_queue_refuses() -> None:
    first, second = Group(engine_requests=1, engine_queue=0).processes
    await first.admission.engines.seat("ann").take(engine())
    with pytest.raises(EngineBusy, match="its queue is full"):
        await second.admission.engines.seat("ben").take(engine())


async def test_a_response_that_returns_from_its_tools_comes_before_those_that_have_not_begun() -> None:
    """Also in a queue that takes nobody else."""
    first, second = Group(engine_requests=1, engine_queue=1).processes
    one, two, three = (
        first.admission.engines.seat("ann"),
        second.admission.engines.seat("ben"),
        second.admission.engines.seat("eve"),
    )
    await one.take(engine())
    one.pause()
    await two.take(engine())
    third = asyncio.create_task(three.take(engine()))
    await settle()
    returning = asyncio.create_task(one.take(engine()))
    await settle()
    assert one.waits
    two.leave()
    await returning
    assert three.waits
    one.leave()
    await third


async def test_a_minute_counts_together() -> None:
    first, second = Group(key_requests_per_minute=2).processes
    for process in (first, second):
        counting = process.admission.owners.count("ann")
        assert counting is not None
        await counting
    assert (state := second.admission.owners.rate("ann")) is not None
    assert (state.limit, state.remaining) == (2, 0)
    with pytest.raises(RateLimited, match="More than 2 requests a minute"):
        await cast(Any, first.admission.owners.count("ann"))


async def test_what_a_process_had_is_free_when_it_has_ended() -> None:
    group = Group(key_responses=1, engine_requests=1)
    first, second = group.processes
    await first.enter()
    await first.admission.engines.seat("ann").take(engine())
    group.limits.release(cast(Any, first))
    assert (await second.enter()).taken
    await second.admission.engines.seat("ann").take(engine())


async def test_new_limits_count_from_now_on() -> None:
    group = Group()
    new = Settings(key_responses=1)
    group.limits.change(new)
    for process in group.processes:
        process.admission.change(admission_limits(new))
    first, second = group.processes
    await first.enter()
    with pytest.raises(RateLimited):
        await second.enter()
