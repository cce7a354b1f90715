"""Everything of one owner can be given to another: stored, running, indexed and deleted."""

import asyncio

import pytest
from msgspec import structs
from support.postgres import PostgresServer
from support.stores import Clock, conversation, events, item, items, put_as_before, queued, record

from antiphon.store import Store, open_store
from antiphon.store.sql.owners import MOVED_ROWS
from antiphon.store.sql.store import SqlStore

pytestmark = pytest.mark.timeout(60)


async def test_everything_is_found_by_the_new_owner_and_by_nobody_else(store: Store) -> None:
    await store.put(record("r1", "ada"))
    await store.put(record("r2", "ada", parent="r1"))
    await store.put(record("gone", "ada"))
    await store.delete("ada", "gone")
    await store.create_conversation(conversation("c1", "ada"), items("i1"))
    await store.enqueue(queued("waiting", "ada"), b"{}")
    await store.put(record("r3", "eve"))
    assert await store.move_owner("ada", "bob") == 4
    assert [link.id for link in await store.chain("bob", "r2")] == ["r1", "r2"]
    assert await store.find_items("bob", ["in_r1", "out_r2", "i1", "in_waiting", "in_r3"]) == {
        "in_r1": b'{"id":"in_r1","type":"message"}',
        "out_r2": b'{"id":"out_r2","type":"message"}',
        "in_waiting": b'{"id":"in_waiting","type":"message"}',
        "i1": item("i1").data,
    }
    assert await store.conversation_items("bob", "c1") == items("i1")
    assert await store.was_deleted("bob", "gone")
    assert await store.get("eve", "r3") == record("r3", "eve")
    assert await store.get("ada", "r1") is None
    assert await store.chain("ada", "r2") == []
    assert await store.find_items("ada", ["in_r1", "i1", "in_waiting"]) == {}
    assert await store.conversation_items("ada", "c1") is None
    assert not await store.was_deleted("ada", "gone")
    assert await store.cancel("ada", "waiting") == "unknown"
    assert await store.cancel("bob", "waiting") == "cancelled"


async def test_a_second_call_moves_only_what_came_since(store: Store) -> None:
    await store.put(record("r1", "ada"))
    await store.put(record("r0", "bob"))
    assert await store.move_owner("ada", "bob") == 1
    assert await store.move_owner("ada", "bob") == 0
    await store.put(record("late", "ada"))
    assert await store.get("bob", "late") is None
    assert await store.move_owner("ada", "bob") == 1
    assert [await store.get("bob", id) for id in ("r0", "r1", "late")] == [record(id, "bob") for id in ("r0", "r1", "late")]


async def test_more_than_one_transaction_is_moved(store: Store) -> None:
    ids = [f"r{number}" for number in range(2 * MOVED_ROWS + 3)]
    await asyncio.gather(*(store.put(record(id, "ada")) for id in ids))
    assert await store.move_owner("ada", "bob") == len(ids)
    assert len(await store.find_items("bob", [f"out_{id}" for id in ids])) == len(ids)


async def test_a_response_that_runs_meanwhile_ends_as_the_new_owners(store: Store) -> None:
    await store.create_conversation(conversation("c1", "ada"))
    assert await store.lock_conversation("ada", "c1", "r1", 60)
    await store.enqueue(queued("running", "ada"), b"{}")
    assert await store.claim("w1", 60, 3)
    await store.move_owner("ada", "bob")
    # As the gateways that began them write them.
    assert await store.put_and_unlock(record("r1", "ada", conversation="c1"), items("i1"))
    assert await store.finish(record("running", "ada", background=True), "w1", 1, events(0))
    assert await store.get("bob", "r1") == record("r1", "bob", conversation="c1")
    assert await store.get("bob", "running") == record("running", "bob", background=True)
    assert await store.conversation_items("bob", "c1") == items("i1")
    assert (await store.find_items("bob", ["out_r1", "out_running"])).keys() == {"out_r1", "out_running"}
    progress = await store.events("bob", "running")
    assert progress is not None
    assert progress.events == events(0)


async def test_a_lock_is_released_by_the_owner_that_took_it(store: Store) -> None:
    await store.create_conversation(conversation("c1", "ada"))
    assert await store.lock_conversation("ada", "c1", "r1", 60)
    await store.move_owner("ada", "bob")
    assert not await store.unlock_conversation("ada", "c1", "other")
    assert not await store.unlock_conversation("eve", "c1", "r1")
    assert await store.unlock_conversation("ada", "c1", "r1")
    assert await store.lock_conversation("bob", "c1", "r2", 60)


async def test_the_owner_of_a_response_or_a_conversation_is_known(store: Store, clock: Clock) -> None:
    await store.put(record("r1", "ada"))
    await store.create_conversation(conversation("c1", "bob"))
    assert [await store.owner_of(id) for id in ("r1", "c1", "none")] == ["ada", "bob", None]
    clock.now = structs.asdict(record("r1"))["expires_at"]
    assert [await store.owner_of(id) for id in ("r1", "c1")] == [None, None]


async def test_what_an_older_version_stored_is_found_by_the_new_owner(store: Store) -> None:
    if isinstance(store, SqlStore):
        await store._database.write(put_as_before(record("old", "ada")))
    else:
        await store.put(record("old", "ada"))
    await store.move_owner("ada", "bob")
    assert (await store.find_items("bob", ["out_old"])).keys() == {"out_old"}


async def test_of_two_items_the_newer_one_stays_the_newer_one(store: Store, clock: Clock) -> None:
    for id, text in (("zz_first", "old"), ("aa_second", "new")):
        await store.put(record(id, "ada", output=b'[{"id":"same","text":"%s"}]' % text.encode()))
        clock.forward(5)
    await store.move_owner("ada", "bob")
    assert await store.find_items("bob", ["same"]) == {"same": b'{"id":"same","text":"new"}'}


async def test_several_gateways_move_the_same_rows_at_once(postgres: PostgresServer, clock: Clock) -> None:
    with postgres.shared_database() as url:
        async with open_store(url, clock) as one, open_store(url, clock) as two:
            ids = [f"r{number}" for number in range(3 * MOVED_ROWS)]
            await asyncio.gather(*(one.put(record(id, "ada")) for id in ids))
            await one.create_conversation(conversation("c1", "ada"), items("i1"))
            await asyncio.gather(*(store.move_owner("ada", "bob") for store in (one, two, one, two)))
            assert len(await two.find_items("bob", [f"out_{id}" for id in ids])) == len(ids)
            assert await two.conversation_items("bob", "c1") == items("i1")
            assert [id for id in ids if await one.owner_of(id) != "bob"] == []
