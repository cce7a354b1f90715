"""A store that has grown too large loses what would have expired next, and nothing that is being worked on."""

import asyncio
import random

from support.stores import BEGINNING, DAY, Clock, conversation, queued, record

from antiphon.store import Store
from antiphon.store.records import Item

# Nothing that Postgres could compress.
LARGE = random.Random(1).randbytes(100_000)


async def left(store: Store, *ids: str) -> list[str]:
    return [id for id in ids if await store.get("ada", id) or await store.get_conversation("ada", id)]


async def test_what_fits_stays(store: Store) -> None:
    for number in range(10):
        await store.put(record(f"r{number}", output=LARGE))
    assert await store.shrink(10_000_000) == 0
    assert len(await left(store, *(f"r{number}" for number in range(10)))) == 10


async def test_those_that_would_expire_next_go_until_the_rest_fits(store: Store) -> None:
    for number in range(30):
        await store.put(record(f"r{number:02}", output=LARGE, expires_at=BEGINNING + DAY + number))
    removed = await store.shrink(1_500_000)
    kept = await left(store, *(f"r{number:02}" for number in range(30)))
    # What a store counts besides the bytes themselves is its own affair.
    assert 12 <= len(kept) <= 15
    assert kept == [f"r{number:02}" for number in range(30)][-len(kept) :]
    assert removed == 30 - len(kept)
    while await store.shrink(1_500_000):
        pass
    assert len(await left(store, *kept)) >= 12


async def test_conversations_go_in_their_turn_with_all_their_items(store: Store) -> None:
    await store.put(record("first", output=LARGE, expires_at=BEGINNING + DAY))
    await store.create_conversation(
        conversation("second", expires_at=BEGINNING + 2 * DAY), [Item(f"i{number}", LARGE[:10_000]) for number in range(100)]
    )
    await store.put(record("third", output=LARGE, expires_at=BEGINNING + 3 * DAY))
    assert await store.shrink(200_000) == 2
    assert await left(store, "first", "second", "third") == ["third"]
    assert await store.conversation_items("ada", "second") is None


async def test_what_is_being_worked_on_stays(store: Store) -> None:
    await store.enqueue(queued("queued", input=LARGE, expires_at=BEGINNING + 10), b"{}")
    await store.create_conversation(conversation("held", expires_at=BEGINNING + 20), [Item("i", LARGE)])
    await store.lock_conversation("ada", "held", "r1", 60)
    await store.put(record("over", output=LARGE, expires_at=BEGINNING + 30))
    assert await store.shrink(1000) == 1
    assert await left(store, "queued", "held", "over") == ["queued", "held"]


async def test_a_chain_that_was_read_begins_behind_what_had_to_go(store: Store, clock: Clock) -> None:
    for number in range(4):
        parent = f"r{number - 1}" if number else None
        await store.put(record(f"r{number}", parent=parent, output=LARGE, expires_at=BEGINNING + DAY + number))
    assert len(await store.chain("ada", "r3")) == 4
    removed = await store.shrink(260_000)
    assert 0 < removed < 4
    assert [link.id for link in await store.chain("ada", "r3")] == [f"r{number}" for number in range(removed, 4)]


async def test_of_many_small_ones_no_more_go_than_have_to(store: Store) -> None:
    await asyncio.gather(*(store.put(record(f"r{number:04}", expires_at=BEGINNING + DAY + number)) for number in range(2000)))
    removed = await store.shrink(200_000)
    assert 100 < removed < 1900
    assert await store.get("ada", "r1999") is not None
    assert await store.get("ada", f"r{removed - 1:04}") is None
    assert await store.get("ada", f"r{removed:04}") is not None
