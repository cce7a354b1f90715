"""Code that waits for events, for the end of a response or for a job is woken."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from support.stores import events, queued

from antiphon.store import Store, open_store
from antiphon.store.records import Job

# So long that a test that waited for the poll would time out.
NEVER = 1000.0


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with open_store(url, poll=NEVER) as opened:
        yield opened


async def running(store: Store) -> Job:
    await store.enqueue(queued("r1", expires_at=2**40), b"{}")
    job = await store.claim("w1", 60, 3)
    assert job is not None
    return job


CHANGES: dict[str, Callable[[Store, Job], Awaitable[object]]] = {
    "events are appended": lambda store, job: store.append_events("r1", "w1", job.attempt, events(0)),
    "it is finished": lambda store, job: store.finish(job.record, "w1", job.attempt, []),
    "it is to be cancelled": lambda store, job: store.cancel("ada", "r1"),
    "it is given back": lambda store, job: store.give_back("w1", ["r1"]),
    "it is deleted": lambda store, job: store.delete("ada", "r1"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_follower_is_woken_when(store: Store, change: str) -> None:
    job = await running(store)
    with store.follow("r1") as wakeup, store.follow("r2") as other:
        await CHANGES[change](store, job)
        await wakeup.wait()
        still_waiting = asyncio.create_task(other.wait())
        await asyncio.sleep(0)
        assert not still_waiting.done()
        still_waiting.cancel()


async def test_a_worker_is_woken_when_a_job_is_given_back(store: Store) -> None:
    await running(store)
    with store.follow_jobs() as wakeup:
        waiting = asyncio.create_task(wakeup.wait())
        await store.give_back("w1", ["r1"])
        await waiting
        assert await store.claim("w2", 30, 3) is not None


async def test_a_worker_is_woken_when_there_is_a_job(store: Store) -> None:
    with store.follow_jobs() as wakeup:
        waiting = asyncio.create_task(wakeup.wait())
        await store.enqueue(queued("r1"), b"{}")
        await waiting
        assert await store.claim("w1", 30, 3) is not None


async def test_changes_before_the_wait_end_it_at_once(store: Store) -> None:
    job = await running(store)
    with store.follow("r1") as wakeup:
        for number in range(3):
            await store.append_events("r1", "w1", job.attempt, events(number))
        await wakeup.wait()
        progress = await store.events("ada", "r1")
        assert progress is not None
        assert len(progress.events) == 3


async def test_a_wait_without_a_wakeup_ends_after_the_poll_interval(url: str) -> None:
    async with open_store(url, poll=0.01) as store:
        checks = 0
        with store.follow("r1") as wakeup:
            while checks < 3:
                await wakeup.wait()
                checks += await store.events("ada", "r1") is None
        assert checks == 3


async def test_a_follower_sees_every_event_of_a_worker_that_writes_as_it_reads(store: Store) -> None:
    job = await running(store)

    async def work() -> None:
        for number in range(50):
            await store.append_events("r1", "w1", job.attempt, events(number))
        await store.finish(job.record, "w1", job.attempt, events(50))

    async def follow() -> list[int]:
        seen: list[int] = []
        with store.follow("r1") as wakeup:
            while 50 not in seen:
                progress = await store.events("ada", "r1", seen[-1] if seen else -1)
                assert progress is not None
                seen += [event.number for event in progress.events]
                if not progress.events:
                    await wakeup.wait()
        return seen

    _, *followers = await asyncio.gather(work(), follow(), follow())
    assert followers == [list(range(51))] * 2
