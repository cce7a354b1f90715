"""Places: who gets one, who waits, and who is woken when one is free."""

import asyncio

import pytest

from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.limits.places import Place, PlaceQueue, take_first, whole_seconds

pytestmark = pytest.mark.timeout(30)


def now() -> float:
    return 0.0


async def waiting(place: Place) -> "asyncio.Task[None]":
    """One that has begun to wait."""
    task = asyncio.create_task(place.take())
    while not place.waits:
        await asyncio.sleep(0)
    return task


async def test_a_place_that_is_left_goes_to_the_one_that_waits() -> None:
    queue: FairQueue[Place] = FairQueue(1, 1)
    first, second = Place(queue, "ann", now), Place(queue, "ben", now)
    assert first.take_at_once()
    taking = await waiting(second)
    first.leave()
    await taking
    assert second.taken
    assert not second.waits
    # Twice is no harm.
    first.leave()
    assert second.taken


async def test_one_that_loses_its_place_in_the_queue_is_refused() -> None:
    queue: FairQueue[Place] = FairQueue(1, 2)
    assert Place(queue, "ann", now).take_at_once()
    losers = [await waiting(Place(queue, "ann", now)) for _ in range(2)]
    fair = await waiting(Place(queue, "ben", now))
    with pytest.raises(QueueFull):
        await losers[1]
    for task in (losers[0], fair):
        task.cancel()
    await asyncio.gather(losers[0], fair, return_exceptions=True)
    assert queue.waiting == 0


async def test_one_that_waits_for_too_long_leaves() -> None:
    queue: FairQueue[Place] = FairQueue(1, 1)
    assert Place(queue, "ann", now).take_at_once()
    with pytest.raises(TimeoutError):
        await Place(queue, "ben", now).take(within=0)
    assert queue.waiting == 0


async def test_of_several_places_only_the_first_is_kept() -> None:
    queues: list[FairQueue[Place]] = [FairQueue(1, 1), FairQueue(1, 1)]
    users = [Place(queue, "ann", now) for queue in queues]
    assert all(place.take_at_once() for place in users)
    wanted = [Place(queue, "ben", now, patient=True) for queue in queues]
    taking = asyncio.create_task(take_first(wanted))
    while not wanted[1].waits:
        await asyncio.sleep(0)
    users[1].leave()
    assert await taking is wanted[1]
    users[0].leave()
    assert not queues[0].is_full


async def test_somebody_is_woken_when_a_full_queue_has_a_place_again() -> None:
    freed: list[bool] = []
    queue = PlaceQueue(2, lambda: freed.append(True))
    first, second = Place(queue, "", now), Place(queue, "", now)
    assert first.take_at_once()
    first.leave()
    assert freed == []
    assert first.take_at_once()
    assert second.take_at_once()
    taking = await waiting(Place(queue, "", now, patient=True))
    second.leave()
    await taking
    # Another one has it.
    assert freed == []
    first.leave()
    assert freed == [True]


async def test_a_place_that_was_not_used_wakes_nobody() -> None:
    freed: list[bool] = []
    queue = PlaceQueue(1, lambda: freed.append(True))
    place = Place(queue, "", now)
    assert place.take_at_once()
    queue.give_back(place, 0.0)
    assert not queue.is_full
    assert freed == []


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, 1), (1.2, 2), (600.0, 60)])
def test_a_client_is_asked_to_come_back_after_whole_seconds(seconds: float, shown: int) -> None:
    assert whole_seconds(seconds) == shown
