"""Background responses: queued, claimed by one worker at a time, given events, finished, cancelled."""

import asyncio

import pytest
from msgspec import structs
from support.stores import BEGINNING, Clock, conversation, events, items, queued, record

from antiphon.store import IdTaken, Store
from antiphon.store.records import Event, Job, Progress
from antiphon.store.sql.background import PAGE_ROWS


async def claimed(store: Store, worker: str = "w1", lease: float = 60, most_attempts: int = 3) -> Job:
    job = await store.claim(worker, lease, most_attempts)
    assert job is not None
    return job


async def test_jobs_are_claimed_oldest_first_each_by_one_worker(store: Store) -> None:
    for number in range(3):
        await store.enqueue(queued(f"r{number}"), f"request {number}".encode())
    jobs = [await claimed(store, f"w{number}") for number in range(3)]
    assert jobs[0] == Job(structs.replace(queued("r0"), status="in_progress"), b"request 0", 1, "run")
    assert [job.record.id for job in jobs] == ["r0", "r1", "r2"]
    assert await store.claim("w9", 60, 3) is None
    running = await store.get("ada", "r0")
    assert running is not None
    assert running.status == "in_progress"


async def test_workers_that_claim_concurrently_get_different_jobs(store: Store) -> None:
    await asyncio.gather(*(store.enqueue(queued(f"r{number}"), b"{}") for number in range(8)))
    jobs = await asyncio.gather(*(store.claim(f"w{number}", 60, 3) for number in range(12)))
    assert sorted(job.record.id for job in jobs if job) == [f"r{number}" for number in range(8)]


async def test_the_jobs_that_wait_and_those_that_run_are_counted(store: Store) -> None:
    assert await store.count_jobs() == (0, 0)
    for number in range(3):
        await store.enqueue(queued(f"r{number}"), b"{}")
    job = await claimed(store)
    assert await store.count_jobs() == (2, 1)
    await store.give_back("w1", [job.record.id])
    assert await store.count_jobs() == (3, 0)


async def test_the_calls_that_were_begun_come_with_the_job_of_the_next_attempt(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    assert job.begun_calls == ()
    calls = [b'{"name":"mail","arguments":"one\\ntwo"}', '{"name":"\u2028\u0085"}'.encode()]
    for call in calls:
        assert await store.begin_call("r1", "w1", 1, call)
    assert not await store.begin_call("r1", "w2", 1, b"{}"), "another worker's"
    assert not await store.begin_call("r1", "w1", 2, b"{}"), "of another attempt"
    await store.give_back("w1", ["r1"])
    assert not await store.begin_call("r1", "w1", 1, b"{}"), "it was given back"
    assert (await claimed(store)).begun_calls == tuple(calls)


async def test_an_id_is_queued_once(store: Store) -> None:
    await store.put(record("r1"))
    for owner in ("ada", "bob"):
        with pytest.raises(IdTaken):
            await store.enqueue(queued("r1", owner), b"{}")
    assert await store.claim("w1", 60, 3) is None


async def test_events_are_read_after_any_number_with_the_status(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    waiting = await store.events("ada", "r1")
    assert waiting is not None
    assert (waiting.status, waiting.attempt, waiting.events) == ("queued", 0, [])
    job = await claimed(store)
    assert await store.append_events("r1", "w1", job.attempt, events(0, 1, 2)) is True
    assert await store.append_events("r1", "w1", job.attempt, events(3)) is True
    assert await store.append_events("r1", "w1", job.attempt, events(4, 5)) is True
    for after in (-1, 0, 1, 2, 3, 4, 5):
        progress = await store.events("ada", "r1", after)
        assert progress is not None
        assert (progress.status, progress.attempt) == ("in_progress", 1)
        assert progress.events == events(*range(after + 1, 6))


async def test_events_are_read_in_pages_of_about_so_many_bytes(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    assert (await store.events("ada", "r1", most_bytes=1)) == Progress("queued", 0, [])
    job = await claimed(store)
    stored = [Event(number, b"x" * 1000) for number in range(200)]
    for event in stored:
        assert await store.append_events("r1", "w1", job.attempt, [event])
    read: list[Event] = []
    more = True
    while more:
        progress = await store.events("ada", "r1", read[-1].number if read else -1, 10_500)
        assert progress is not None
        assert 0 < len(progress.events) <= 10
        read += progress.events
        more = progress.more
    assert read == stored
    assert await store.events("ada", "r1", 199, 10_500) == Progress("in_progress", 1, [])
    assert await store.events("bob", "r1", -1, 10_500) is None


@pytest.mark.parametrize("number", [PAGE_ROWS - 1, PAGE_ROWS, PAGE_ROWS + 1, 2 * PAGE_ROWS])
async def test_the_page_with_the_last_event_is_the_last_page(store: Store, number: int) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    stored = events(*range(number))
    for event in stored:
        assert await store.append_events("r1", "w1", job.attempt, [event])
    after, more = -1, True
    while more:
        progress = await store.events("ada", "r1", after, 10**6)
        assert progress is not None
        assert progress.events
        after, more = progress.events[-1].number, progress.more
    assert after == number - 1


@pytest.mark.parametrize("size", [1, 64 * 1024 - 1, 64 * 1024, 70_000, 200_000])
async def test_an_event_of_any_size_is_read_whole(store: Store, size: int) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    stored = [Event(number, bytes([number]) * size) for number in range(3)]
    for event in stored:
        assert await store.append_events("r1", "w1", job.attempt, [event])
    whole = await store.events("ada", "r1", most_bytes=10**6)
    assert whole is not None
    assert whole.events == stored
    page = await store.events("ada", "r1", 0, 1)
    assert page == Progress("in_progress", 1, [stored[1]], more=True)


async def test_the_jobs_of_some_owners_can_be_left_alone(store: Store) -> None:
    for number, owner in enumerate(["ada", "ada", "bob", "eve"]):
        await store.enqueue(queued(f"r{number}", owner), b"{}")
    taken = [await store.claim("w1", 60, 3, ["ada"]), await store.claim("w1", 60, 3, {"ada", "eve"})]
    assert [job.record.id if job is not None else None for job in taken] == ["r2", None]
    assert (await claimed(store)).record.id == "r0"


async def test_finishing_stores_the_last_events_with_the_record_and_ends_the_job(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    await store.append_events("r1", "w1", job.attempt, events(0))
    final = structs.replace(job.record, status="completed", output=b"[1]")
    assert await store.finish(final, "w1", job.attempt, events(1, 2)) is True
    assert await store.get("ada", "r1") == final
    progress = await store.events("ada", "r1")
    assert progress is not None
    assert (progress.status, progress.events) == ("completed", events(0, 1, 2))
    clock.forward(1000)
    assert await store.claim("w2", 60, 3) is None
    assert await store.finish(final, "w1", job.attempt, events(3)) is False
    assert await store.append_events("r1", "w1", job.attempt, events(3)) is False
    assert await store.renew("w1", ["r1"], 60) == {}


async def test_a_job_whose_lease_has_expired_goes_to_another_worker_and_starts_again(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"request")
    first = await claimed(store)
    await store.append_events("r1", "w1", first.attempt, events(0, 1, 2))
    clock.forward(59)
    assert await store.claim("w2", 60, 3) is None
    clock.forward(1)
    second = await claimed(store, "w2")
    assert (second.attempt, second.request, second.purpose) == (2, b"request", "run")
    assert await store.append_events("r1", "w1", first.attempt, events(3)) is False
    assert await store.finish(first.record, "w1", first.attempt, events(3)) is False
    assert await store.renew("w1", ["r1"], 60) == {}
    assert await store.append_events("r1", "w2", second.attempt, events(0)) is True
    progress = await store.events("ada", "r1")
    assert progress is not None
    assert (progress.attempt, progress.events) == (2, events(0))


async def test_a_worker_that_claims_its_own_lost_job_again_cannot_continue_the_old_attempt(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"{}")
    first = await claimed(store)
    clock.forward(60)
    second = await claimed(store)
    assert await store.append_events("r1", "w1", first.attempt, events(0)) is False
    assert await store.append_events("r1", "w1", second.attempt, events(0)) is True


async def test_a_worker_renews_only_its_own_leases(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.enqueue(queued(f"r{number}"), b"{}")
    await claimed(store, "w1")
    await claimed(store, "w2")
    assert await store.renew("w1", ["r0", "r1", "r2", "nothing"], 120) == {"r0": False}
    assert await store.renew("w1", [], 120) == {}
    clock.forward(60)
    # The job that was queued last became available before the lease that expired just now.
    assert [(await claimed(store, "w3")).record.id for _ in range(2)] == ["r2", "r1"]
    assert await store.claim("w3", 60, 3) is None


async def test_an_expired_lease_is_kept_until_another_worker_claims_the_job(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    clock.forward(100)
    assert await store.append_events("r1", "w1", job.attempt, events(0)) is True
    assert await store.renew("w1", ["r1"], 60) == {"r1": False}
    assert await store.claim("w2", 60, 3) is None


async def test_a_job_that_has_used_up_its_attempts_is_claimed_to_be_failed(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"{}")
    purposes = []
    for _ in range(4):
        job = await claimed(store, most_attempts=2)
        purposes.append(job.purpose)
        clock.forward(60)
    # The worker that should have failed it died too, so another one gets it.
    assert purposes == ["run", "run", "fail", "fail"]
    assert await store.finish(structs.replace(job.record, status="failed"), "w1", job.attempt, []) is True
    clock.forward(60)
    assert await store.claim("w1", 60, 2) is None


async def test_a_job_that_is_given_back_is_queued_as_if_it_had_never_started(store: Store) -> None:
    await store.enqueue(queued("r1"), b"request")
    job = await claimed(store)
    await store.append_events("r1", "w1", job.attempt, events(0, 1))
    await store.give_back("w1", ["r1"])
    assert await store.get("ada", "r1") == queued("r1")
    progress = await store.events("ada", "r1")
    assert progress is not None
    assert (progress.status, progress.events) == ("queued", [])
    assert await store.append_events("r1", "w1", job.attempt, events(2)) is False
    assert await store.finish(job.record, "w1", job.attempt, events(2)) is False
    assert await store.renew("w1", ["r1"], 60) == {}
    # Followers distinguish attempts by their numbers.
    again = await claimed(store, "w2")
    assert (again.request, again.attempt, again.purpose, again.lost) == (b"request", 2, "run", 0)


async def test_an_attempt_that_is_given_back_does_not_count(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"{}")
    for number in range(1, 6):
        job = await claimed(store, most_attempts=1)
        assert (job.attempt, job.purpose, job.lost) == (number, "run", 0)
        await store.give_back("w1", ["r1"])
    await claimed(store, most_attempts=1)
    clock.forward(60)
    lost = await claimed(store, most_attempts=1)
    assert (lost.attempt, lost.purpose, lost.lost) == (7, "fail", 1)
    # The worker that should have failed it gave it back, so it is still to be failed.
    await store.give_back("w1", ["r1"])
    assert (await claimed(store, most_attempts=1)).purpose == "fail"


async def test_a_worker_gives_back_only_its_own_jobs(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.enqueue(queued(f"r{number}"), b"{}")
    for worker in ("w1", "w2"):
        await claimed(store, worker, lease=1000)
    await store.give_back("w1", [])
    await store.give_back("w1", ["r0", "r1", "r2", "nothing"])
    await store.give_back("w1", ["r0"])
    clock.forward(10)
    # A job that was given back waits from then on. The clock did not move, so both have waited equally long.
    assert {(await claimed(store, "w3")).record.id for _ in range(2)} == {"r0", "r2"}
    assert await store.claim("w3", 60, 3) is None
    assert await store.renew("w2", ["r1"], 60) == {"r1": False}


async def test_a_job_that_was_given_back_is_cancelled_like_a_queued_one(store: Store) -> None:
    for id in ("r1", "r2"):
        await store.enqueue(queued(id), b"{}")
        await claimed(store)
    assert await store.cancel("ada", "r1") == "asked"
    await store.give_back("w1", ["r1", "r2"])
    assert await store.cancel("ada", "r2") == "cancelled"
    # The other one is still marked to be cancelled.
    assert (await claimed(store)).purpose == "cancel"


async def test_a_queued_job_is_cancelled_at_once(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    assert await store.cancel("ada", "r1") == "cancelled"
    assert await store.cancel("ada", "r1") == "over"
    assert await store.claim("w1", 60, 3) is None
    cancelled = await store.get("ada", "r1")
    assert cancelled is not None
    assert cancelled.status == "cancelled"


async def test_a_running_job_is_marked_to_be_cancelled_and_its_worker_learns_of_it(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    assert await store.cancel("ada", "r1") == "asked"
    assert await store.cancel("ada", "r1") == "asked"
    assert await store.renew("w1", ["r1"], 60) == {"r1": True}
    assert await store.finish(structs.replace(job.record, status="cancelled"), "w1", job.attempt, events(0)) is True
    assert await store.cancel("ada", "r1") == "over"


async def test_a_job_to_be_cancelled_whose_worker_died_is_claimed_to_be_cancelled(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1"), b"{}")
    await claimed(store)
    await store.cancel("ada", "r1")
    clock.forward(60)
    assert (await claimed(store, "w2", most_attempts=1)).purpose == "cancel"


async def test_a_response_that_was_never_queued_cannot_be_cancelled(store: Store) -> None:
    await store.put(record("r1"))
    assert await store.cancel("ada", "r1") == "over"
    assert await store.cancel("ada", "r2") == "unknown"


async def test_a_deleted_job_is_lost_to_its_worker(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    job = await claimed(store)
    await store.append_events("r1", "w1", job.attempt, events(0))
    assert await store.delete("ada", "r1") is True
    assert await store.renew("w1", ["r1"], 60) == {}
    assert await store.append_events("r1", "w1", job.attempt, events(1)) is False
    assert await store.finish(job.record, "w1", job.attempt, []) is False
    assert await store.events("ada", "r1") is None
    assert await store.get("ada", "r1") is None
    await store.enqueue(queued("r1"), b"{}")
    fresh = await store.events("ada", "r1")
    assert fresh is not None
    assert (fresh.attempt, fresh.events) == (0, [])


async def test_an_expired_job_is_not_claimed_and_is_swept_with_its_events(store: Store, clock: Clock) -> None:
    await store.enqueue(queued("r1", expires_at=BEGINNING + 10), b"{}")
    job = await claimed(store, lease=5)
    await store.append_events("r1", "w1", job.attempt, events(0))
    clock.forward(10)
    assert await store.claim("w2", 60, 3) is None
    assert await store.sweep() == 1
    await store.enqueue(queued("r1"), b"{}")
    assert (await claimed(store, "w2")).attempt == 1
    progress = await store.events("ada", "r1")
    assert progress is not None
    assert progress.events == []


async def test_finishing_in_a_conversation_appends_the_items_and_unlocks_it(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    await store.enqueue(queued("r1", conversation="c1"), b"{}")
    job = await claimed(store)
    assert await store.lock_conversation("ada", "c1", "r1", 60)
    final = structs.replace(job.record, status="completed")
    assert await store.finish(final, "w1", job.attempt, events(0), items("i1", "i2")) is True
    assert await store.conversation_items("ada", "c1") == items("i1", "i2")
    assert await store.lock_conversation("ada", "c1", "r2", 60) is True


async def test_finishing_without_the_lock_appends_nothing(store: Store, clock: Clock) -> None:
    await store.create_conversation(conversation("c1"))
    await store.enqueue(queued("r1", conversation="c1"), b"{}")
    job = await claimed(store)
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    clock.forward(10)
    assert await store.lock_conversation("ada", "c1", "r2", 60)
    assert await store.finish(structs.replace(job.record, status="completed"), "w1", job.attempt, [], items("i1")) is True
    assert await store.conversation_items("ada", "c1") == []
    assert await store.lock_conversation("ada", "c1", "r3", 60) is False
