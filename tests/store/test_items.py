"""Any stored item of an owner is found by its id."""

import asyncio
from typing import Any

import msgspec
import pytest
from support.stores import BEGINNING, DAY, Clock, conversation, events, item, items, queued, record

from antiphon.store import Store, open_store
from antiphon.store.records import item_ids


def encoded(*items: dict[str, Any]) -> bytes:
    return msgspec.json.encode(items)


async def texts(store: Store, *ids: str) -> dict[str, str]:
    """The texts of the items that are found."""
    return {id: msgspec.json.decode(data)["text"] for id, data in (await store.find_items("ada", ids)).items()}


async def test_input_and_output_items_of_responses_and_items_of_conversations_are_found(store: Store) -> None:
    await store.put(record("r1"))
    await store.create_conversation(conversation("c1"), items("i1"))
    await store.add_items("ada", "c1", items("i2"))
    found = await store.find_items("ada", ["in_r1", "out_r1", "i1", "i2", "nowhere"])
    assert found == {
        "in_r1": b'{"id":"in_r1","type":"message"}',
        "out_r1": b'{"id":"out_r1","type":"message"}',
        "i1": item("i1").data,
        "i2": item("i2").data,
    }
    assert await store.find_items("ada", []) == {}


async def test_items_of_responses_that_are_put_together_are_all_found(store: Store) -> None:
    await asyncio.gather(*(store.put(record(f"r{number}")) for number in range(300)))
    assert len(await store.find_items("ada", [f"out_r{number}" for number in range(300)])) == 300


async def test_items_of_a_response_in_a_conversation_are_found(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    await store.lock_conversation("ada", "c1", "r1", 60)
    assert await store.put_and_unlock(record("r1", conversation="c1"), items("i1"))
    assert (await store.find_items("ada", ["out_r1", "i1"])).keys() == {"out_r1", "i1"}


async def test_the_input_of_a_background_response_is_found_at_once_and_its_output_when_it_has_ended(store: Store) -> None:
    await store.enqueue(queued("r1"), b"{}")
    assert (await store.find_items("ada", ["in_r1", "out_r1"])).keys() == {"in_r1"}
    assert await store.claim("w1", 60, 3)
    assert await store.finish(record("r1", background=True), "w1", 1, events(0))
    assert (await store.find_items("ada", ["in_r1", "out_r1"])).keys() == {"in_r1", "out_r1"}


async def test_of_several_items_with_the_same_id_the_newest_is_found(store: Store, clock: Clock) -> None:
    await store.put(record("r9", output=encoded({"id": "m", "text": "first"})))
    clock.forward(0.5)
    await store.create_conversation(conversation("c1"), [item("m", "second")])
    assert await texts(store, "m") == {"m": "second"}
    clock.forward(0.5)
    await store.put(record("r1", input=encoded({"id": "m", "text": "third"}), output=encoded({"id": "m", "text": "last"})))
    assert await texts(store, "m") == {"m": "last"}
    clock.forward(0.5)
    await store.add_items("ada", "c1", [item("m", "changed")])
    assert await texts(store, "m") == {"m": "changed"}


async def test_items_are_gone_with_what_contained_them(store: Store) -> None:
    await store.put(record("r1"))
    await store.create_conversation(conversation("c1"), items("i1", "i2"))
    await store.delete("ada", "r1")
    await store.delete_item("ada", "c1", "i1")
    assert (await store.find_items("ada", ["in_r1", "out_r1", "i1", "i2"])).keys() == {"i2"}
    await store.delete_conversation("ada", "c1")
    assert await store.find_items("ada", ["i2"]) == {}


async def test_an_older_item_is_found_when_the_newer_one_is_gone(store: Store, clock: Clock) -> None:
    await store.put(record("r1", output=encoded({"id": "m", "text": "old"})))
    clock.forward(1)
    await store.put(record("r2", output=encoded({"id": "m", "text": "new"}), expires_at=BEGINNING + 100))
    assert await texts(store, "m") == {"m": "new"}
    clock.forward(100)
    assert await texts(store, "m") == {"m": "old"}
    assert await store.sweep() == 1
    assert await texts(store, "m") == {"m": "old"}


async def test_items_of_expired_responses_are_not_found_even_before_they_are_swept(store: Store, clock: Clock) -> None:
    await store.put(record("r1", expires_at=BEGINNING + 10))
    await store.create_conversation(conversation("c1", expires_at=BEGINNING + 10), items("i1"))
    clock.forward(10)
    assert await store.find_items("ada", ["out_r1", "i1"]) == {}
    assert await store.sweep() == 2
    assert await store.find_items("ada", ["out_r1", "i1"]) == {}


async def test_items_of_responses_that_were_removed_to_save_space_are_not_found(store: Store) -> None:
    await store.put(record("r1", settings=b"x" * 100_000, expires_at=BEGINNING + DAY))
    await store.put(record("r2"))
    assert await store.shrink(50_000) == 1
    assert (await store.find_items("ada", ["out_r1", "out_r2"])).keys() == {"out_r2"}


async def test_what_only_refers_to_an_item_is_not_found_instead_of_it(store: Store, clock: Clock) -> None:
    thought = {"id": "rs", "type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}], "text": "thought"}
    await store.put(record("r1", output=encoded(thought, {"id": "m", "type": "message", "text": "answer"})))
    clock.forward(1)
    empty: dict[str, Any] = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": None}
    reference = {"id": "m", "type": "item_reference"}
    await store.put(record("r2", input=encoded(empty, reference, {"id": "t", "type": "compaction_trigger"})))
    reference_item = await texts(store, "rs", "m", "t")
    assert reference_item == {"rs": "thought", "m": "answer"}


@pytest.mark.parametrize("unreadable", [b"[1]", b"{}", b"\xff", b'[{"id": 3}]', b"[{}]"])
async def test_a_record_without_items_is_stored_like_any_other(store: Store, unreadable: bytes) -> None:
    await store.put(record("r1", input=unreadable))
    assert await store.get("ada", "r1") == record("r1", input=unreadable)
    assert (await store.find_items("ada", ["out_r1"])).keys() == {"out_r1"}


async def test_ids_of_any_length_and_content_can_be_stored_and_looked_for(store: Store) -> None:
    ids = ["x" * 100_000, "a\0b", "", "é" * 3000]
    await store.put(record("r1", input=encoded(*({"id": id, "text": id[:1]} for id in ids))))
    assert await texts(store, *ids) == {id: id[:1] for id in ids}
    await store.create_conversation(conversation("c1"), [item("c\0d", "odd")])
    assert await texts(store, "c\0d") == {"c\0d": "odd"}


async def test_a_response_with_very_many_items_is_stored_found_and_removed(store: Store, clock: Clock) -> None:
    many = encoded(*({"id": f"m{number}", "text": str(number)} for number in range(3000)))
    await store.put(record("r1", input=many, expires_at=BEGINNING + 10))
    assert await texts(store, "m0", "m2999") == {"m0": "0", "m2999": "2999"}
    assert len(await store.find_items("ada", [f"m{number}" for number in range(3000)])) == 3000
    clock.forward(10)
    assert await store.sweep() == 1


async def test_items_survive_a_restart_if_the_store_says_so(url: str, clock: Clock) -> None:
    async with open_store(url, clock) as store:
        await store.put(record("r1"))
        survives = store.survives_restart
    async with open_store(url, clock) as store:
        assert bool(await store.find_items("ada", ["out_r1"])) == survives
        assert await store.index_items() == 0


def test_the_ids_of_items_are_read_without_their_contents() -> None:
    assert item_ids(b'[{"id":"a","content":{"id":"no"}},{"id":"b"},{"id":"a"}]', b'[{"id":"c"}]') == ["a", "b", "c"]


async def test_many_items_of_one_response_are_found_in_one_pass(store: Store) -> None:
    ids = [f"msg_{number}" for number in range(10_000)]
    await store.put(record("r1", input=encoded(*({"id": id, "type": "message"} for id in ids))))
    assert (await store.find_items("ada", [*ids, "nowhere"])).keys() == set(ids)
