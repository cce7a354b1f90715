"""Background responses that are not to be stored: there while they run, and for a while after their end."""

import pytest
from msgspec import structs
from support.stores import BEGINNING, DAY, Clock, conversation, count_rows, events, items, queued, record

from antiphon.store import Store
from antiphon.store.records import Record

KEPT = 600
ITEMS = ["in_r1", "out_r1"]


def final(status: str = "completed") -> Record:
    return record("r1", status=status, background=True, kept_after_end=KEPT)


async def enqueue(store: Store, **members: object) -> None:
    await store.enqueue(queued("r1", "ada", kept_after_end=KEPT, **members), b"{}")


async def finish(store: Store, status: str = "completed") -> None:
    assert await store.claim("w1", 60, 3)
    assert await store.append_events("r1", "w1", 1, events(0))
    assert await store.finish(final(status), "w1", 1, events(1))


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed", "cancelled"])
async def test_it_expires_some_time_after_its_end_and_nothing_is_left(
    store: Store, url: str, clock: Clock, status: str
) -> None:
    before = await count_rows(url, store)
    await enqueue(store)
    clock.forward(DAY)
    await finish(store, status)
    clock.forward(KEPT - 1)
    assert await store.sweep() == 0
    assert await store.get("ada", "r1") == structs.replace(final(status), expires_at=BEGINNING + DAY + KEPT)
    progress = await store.events("ada", "r1")
    assert progress is not None
    assert (progress.status, progress.events) == (status, events(0, 1))
    clock.forward(1)
    assert await store.get("ada", "r1") is None
    assert await store.events("ada", "r1") is None
    assert await store.sweep() == 1
    assert await count_rows(url, store) == before


async def test_one_that_is_cancelled_before_it_is_run_expires_too(store: Store, url: str, clock: Clock) -> None:
    before = await count_rows(url, store)
    await enqueue(store)
    clock.forward(DAY)
    assert await store.cancel("ada", "r1") == "cancelled"
    clock.forward(KEPT - 1)
    assert await store.sweep() == 0
    cancelled = await store.get("ada", "r1")
    assert cancelled is not None
    assert cancelled.status == "cancelled"
    clock.forward(1)
    assert await store.sweep() == 1
    assert await count_rows(url, store) == before


async def test_it_is_not_removed_while_it_waits_or_runs(store: Store, clock: Clock) -> None:
    await enqueue(store)
    clock.forward(2 * KEPT)
    assert await store.sweep() == 0
    assert await store.claim("w1", 60, 3)
    clock.forward(2 * KEPT)
    assert await store.sweep() == 0
    await store.give_back("w1", ["r1"])
    clock.forward(2 * KEPT)
    assert await store.sweep() == 0
    assert await store.claim("w1", 60, 3)
    assert await store.finish(final(), "w1", 2, events(0))
    assert await store.sweep() == 0
    assert await store.get("ada", "r1")


async def test_it_expires_no_later_than_other_responses(store: Store, clock: Clock) -> None:
    await enqueue(store, expires_at=BEGINNING + 100)
    assert await store.claim("w1", 60, 3)
    assert await store.finish(structs.replace(final(), expires_at=BEGINNING + 100), "w1", 1, events(0))
    clock.forward(100)
    assert await store.get("ada", "r1") is None


async def check_that_it_is_apart(store: Store) -> None:
    assert await store.chain("ada", "r1") == []
    assert await store.index_items() == 0
    assert await store.find_items("ada", ITEMS) == {}


async def test_it_cannot_be_continued_and_its_items_cannot_be_found(store: Store) -> None:
    await store.put(record("first"))
    assert len(await store.chain("ada", "first")) == 1
    await enqueue(store, parent="first")
    await check_that_it_is_apart(store)
    await finish(store)
    await check_that_it_is_apart(store)
    # As one that an older gateway has let continue it.
    await store.put(record("r2", parent="r1"))
    assert [link.id for link in await store.chain("ada", "r2")] == ["r2"]
    assert await store.move_owner("ada", "bob") == 3
    assert await store.find_items("bob", ITEMS) == {}


async def test_nothing_makes_it_expire_later(store: Store, clock: Clock) -> None:
    await enqueue(store)
    await finish(store)
    await store.keep_until("ada", ["r1"], BEGINNING + 90 * DAY)
    clock.forward(KEPT)
    assert await store.get("ada", "r1") is None


async def test_nothing_is_left_of_one_that_is_deleted(store: Store, url: str) -> None:
    before = await count_rows(url, store)
    await enqueue(store)
    await finish(store)
    assert await store.delete("ada", "r1")
    assert await count_rows(url, store) == before


async def test_its_conversation_is_stored_as_long_as_ever(store: Store, clock: Clock) -> None:
    await store.create_conversation(conversation("c1", expires_at=BEGINNING + DAY))
    await enqueue(store, conversation="c1")
    assert await store.claim("w1", 60, 3)
    assert await store.lock_conversation("ada", "c1", "r1", 60)
    done = structs.replace(final(), conversation="c1")
    assert await store.finish(done, "w1", 1, events(0), items("i1", "i2"))
    clock.forward(29 * DAY)
    assert await store.get("ada", "r1") is None
    assert await store.conversation_items("ada", "c1") == items("i1", "i2")
    assert (await store.find_items("ada", ["i1"])).keys() == {"i1"}
