"""The store in memory is bounded: it removes the oldest rows first, and none that is in use."""

import asyncio

import pytest
from support.stores import Clock, conversation, events, item, items, queued, record

from antiphon.errors import StoreUnavailable
from antiphon.store.memory.store import MemoryStore
from antiphon.store.records import Event


async def test_the_oldest_rows_are_removed_when_there_are_too_many(clock: Clock) -> None:
    store = MemoryStore(clock, max_rows=3)
    for number in range(3):
        await store.put(record(f"r{number}"))
    await store.create_conversation(conversation("c1"))
    assert [id for id in ("r0", "r1", "r2") if await store.get("ada", id)] == ["r1", "r2"]
    assert await store.get_conversation("ada", "c1") is not None


async def test_the_oldest_rows_are_removed_when_they_are_too_large(clock: Clock) -> None:
    store = MemoryStore(clock, max_bytes=1_000_000)
    for number in range(20):
        await store.put(record(f"r{number}", output=b"x" * 100_000))
    kept = [number for number in range(20) if await store.get("ada", f"r{number}")]
    assert kept == list(range(11, 20))


async def test_the_size_is_correct_after_many_writes_and_removals(clock: Clock) -> None:
    store = MemoryStore(clock, max_bytes=1_000_000)
    await store.put(record("first"))
    for _ in range(30):
        await store.put(record("r1", output=b"x" * 300_000))
        await store.create_conversation(conversation("c1"), [item("i1", "x" * 200_000), item("i1", "y" * 200_000)])
        await store.add_items("ada", "c1", [item("i1", "z" * 100_000), item("i2")])
        await store.set_metadata("ada", "c1", b"x" * 10_000)
        await store.delete_item("ada", "c1", "i1")
        await store.delete_conversation("ada", "c1")
        await store.enqueue(queued("r2"), b"x" * 100_000)
        assert await store.claim("w1", 60, 3)
        await store.append_events("r2", "w1", 1, [Event(0, b"x" * 100_000)])
        assert await store.finish(record("r2"), "w1", 1, events(1))
        assert await store.delete("ada", "r1")
        assert await store.delete("ada", "r2")
    assert await store.get("ada", "first") is not None


async def test_rows_in_use_stay_and_a_new_one_is_an_error(clock: Clock) -> None:
    store = MemoryStore(clock, max_rows=2)
    await store.enqueue(queued("r1"), b"{}")
    await store.create_conversation(conversation("c1"), items("i1"))
    await store.lock_conversation("ada", "c1", "r9", 60)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.put(record("r2"))
    clock.forward(60)
    await store.put(record("r2"))
    assert await store.get_conversation("ada", "c1") is None
    assert await store.get("ada", "r1") is not None


async def test_a_record_that_can_never_fit_is_an_error(clock: Clock) -> None:
    store = MemoryStore(clock, max_bytes=10_000)
    with pytest.raises(StoreUnavailable):
        await store.put(record("r1", output=b"x" * 20_000))


async def test_concurrent_writers_keep_the_bound(clock: Clock) -> None:
    store = MemoryStore(clock, max_rows=10)
    await asyncio.gather(*(store.put(record(f"r{number}")) for number in range(200)))
    kept = [number for number in range(200) if await store.get("ada", f"r{number}")]
    assert kept == list(range(190, 200))
