"""The places of those who look on: fair between owners, bounded, and kept while the work goes on."""

import asyncio
from contextlib import suppress

import pytest

from antiphon.errors import RateLimited
from antiphon.gateway.limits.threads import ViewPlaces


class Works:
    """Work that begins in turn, and ends when the test says so."""

    def __init__(self, places: ViewPlaces) -> None:
        self._places = places
        self.begun: list[str] = []
        self._may_end: dict[str, asyncio.Event] = {}

    def start(self, name: str) -> asyncio.Task[None]:
        """The owner is the first letter of the name."""
        self._may_end[name] = asyncio.Event()
        return asyncio.create_task(self._run(name))

    async def _run(self, name: str) -> None:
        async with self._places.entered(name[0]) as view:
            await view.run(self._work(name))

    async def _work(self, name: str) -> None:
        self.begun.append(name)
        await self._may_end[name].wait()

    async def end(self, name: str) -> None:
        self._may_end[name].set()
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def make_places(places: int | None, own_places: int = 1, most_waiting: int = 50) -> ViewPlaces:
    return ViewPlaces(places, own_places, asyncio.get_running_loop().time, most_waiting)


async def test_an_owner_has_one_place_and_the_others_theirs() -> None:
    works = Works(make_places(2))
    tasks = [works.start(name) for name in ("a1", "a2", "a3", "b1", "c1")]
    await settled()
    assert works.begun == ["a1", "b1"]
    await works.end("b1")
    assert works.begun == ["a1", "b1", "c1"]
    for name in ("a1", "c1", "a2", "a3"):
        await works.end(name)
    assert works.begun == ["a1", "b1", "c1", "a2", "a3"]
    await asyncio.gather(*tasks)


async def test_work_that_its_client_has_left_keeps_its_place_to_its_end() -> None:
    works = Works(make_places(2))
    left = works.start("a1")
    await settled()
    left.cancel()
    with suppress(asyncio.CancelledError):
        await left
    next_one = works.start("a2")
    await settled()
    assert works.begun == ["a1"]
    await works.end("a1")
    assert works.begun == ["a1", "a2"]
    await works.end("a2")
    await next_one


async def test_who_leaves_while_waiting_takes_no_place() -> None:
    works = Works(make_places(1))
    tasks = [works.start(name) for name in ("a1", "a2", "a3")]
    await settled()
    tasks[1].cancel()
    await works.end("a1")
    assert works.begun == ["a1", "a3"]
    await works.end("a3")
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_more_than_may_wait_are_refused_with_a_time_to_try_again() -> None:
    works = Works(make_places(1, most_waiting=1))
    tasks = [works.start(name) for name in ("a1", "a2", "a3")]
    await settled()
    with pytest.raises(RateLimited) as refused:
        await tasks[2]
    assert refused.value.retry_after
    for name in ("a1", "a2"):
        await works.end(name)
    await asyncio.gather(*tasks[:2])
    assert works.begun == ["a1", "a2"]
