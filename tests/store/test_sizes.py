"""A store that is too large removes what would expire next, except what is in use."""

import asyncio
import random

import msgspec
from support.stores import BEGINNING, DAY, Clock, conversation, queued, record

from antiphon.store import Store
from antiphon.store.records import Item

# Random, so that Postgres cannot compress it.
LARGE = random.Random(1).randbytes(100_000)


async def remaining(store: Store, *ids: str) -> list[str]:
    return [id for id in ids if await store.get("ada", id) or await store.get_conversation("ada", id)]


async def test_a_store_within_the_limit_removes_nothing(store: Store) -> None:
    for number in range(10):
        await store.put(record(f"r{number}", output=LARGE))
    assert await store.shrink(10_000_000) == 0
    assert len(await remaining(store, *(f"r{number}" for number in range(10)))) == 10


async def test_responses_that_would_expire_next_are_removed_until_the_rest_fits(store: Store) -> None:
    for number in range(30):
        await store.put(record(f"r{number:02}", output=LARGE, expires_at=BEGINNING + DAY + number))
    removed = await store.shrink(1_500_000)
    kept = await remaining(store, *(f"r{number:02}" for number in range(30)))
    # Each store adds another overhead to the bytes.
    assert 12 <= len(kept) <= 15
    assert kept == [f"r{number:02}" for number in range(30)][-len(kept) :]
    assert removed == 30 - len(kept)
    while await store.shrink(1_500_000):
        pass
    assert len(await remaining(store, *kept)) >= 12


async def test_conversations_are_removed_in_the_same_order_with_all_their_items(store: Store) -> None:
    await store.put(record("first", output=LARGE, expires_at=BEGINNING + DAY))
    await store.create_conversation(
        conversation("second", expires_at=BEGINNING + 2 * DAY), [Item(f"i{number}", LARGE[:10_000]) for number in range(100)]
    )
    await store.put(record("third", output=LARGE, expires_at=BEGINNING + 3 * DAY))
    assert await store.shrink(200_000) == 2
    assert await remaining(store, "first", "second", "third") == ["third"]
    assert await store.conversation_items("ada", "second") is None


async def test_what_is_in_use_stays(store: Store) -> None:
    await store.enqueue(queued("queued", input=LARGE, expires_at=BEGINNING + 10), b"{}")
    await store.create_conversation(conversation("locked", expires_at=BEGINNING + 20), [Item("i", LARGE)])
    await store.lock_conversation("ada", "locked", "r1", 60)
    await store.put(record("finished", output=LARGE, expires_at=BEGINNING + 30))
    assert await store.shrink(1000) == 1
    assert await remaining(store, "queued", "locked", "finished") == ["queued", "locked"]


async def test_a_chain_that_was_read_starts_after_what_was_removed(store: Store, clock: Clock) -> None:
    for number in range(4):
        parent = f"r{number - 1}" if number else None
        await store.put(record(f"r{number}", parent=parent, output=LARGE, expires_at=BEGINNING + DAY + number))
    assert len(await store.chain("ada", "r3")) == 4
    removed = await store.shrink(260_000)
    assert 0 < removed < 4
    assert [link.id for link in await store.chain("ada", "r3")] == [f"r{number}" for number in range(removed, 4)]


async def test_no_more_small_responses_are_removed_than_necessary(store: Store) -> None:
    await asyncio.gather(*(store.put(record(f"r{number:04}", expires_at=BEGINNING + DAY + number)) for number in range(2000)))
    removed = await store.shrink(200_000)
    assert 100 < removed < 1900
    assert await store.get("ada", "r1999") is not None
    assert await store.get("ada", f"r{removed - 1:04}") is None
    assert await store.get("ada", f"r{removed:04}") is not None


async def test_the_index_of_items_counts(store: Store) -> None:
    many = msgspec.json.encode([{"id": f"m{number}"} for number in range(2000)])
    await store.put(record("r1", input=many, expires_at=BEGINNING + DAY))
    await store.put(record("r2"))
    # Its own bytes alone would fit.
    assert await store.shrink(len(many) + 100_000) == 1
    assert await remaining(store, "r1", "r2") == ["r2"]
