"""Conversations: their items, in order and by page, and their locks."""

import asyncio

import pytest
from support.stores import BEGINNING, DAY, Clock, conversation, item, items, record

from antiphon.errors import InvalidRequest
from antiphon.store import IdTaken, Store
from antiphon.store.records import Item


def ids(found: list[Item] | None) -> list[str]:
    assert found is not None
    return [item.id for item in found]


async def test_a_conversation_is_read_as_it_was_created(store: Store) -> None:
    created = conversation("c1", metadata=b'{"topic":"tea"}')
    await store.create_conversation(created, [item("i1", "one"), item("i2", "two")])
    assert await store.get_conversation("ada", "c1") == created
    assert await store.conversation_items("ada", "c1") == [item("i1", "one"), item("i2", "two")]
    assert await store.get_item("ada", "c1", "i2") == item("i2", "two")


async def test_a_conversation_that_was_never_created_does_not_exist(store: Store) -> None:
    assert await store.get_conversation("ada", "c1") is None
    assert await store.conversation_items("ada", "c1") is None
    assert await store.list_items("ada", "c1") is None
    assert await store.set_metadata("ada", "c1", b"{}") is None
    assert await store.add_items("ada", "c1", items("i1")) is False
    assert await store.get_item("ada", "c1", "i1") is None
    assert await store.delete_item("ada", "c1", "i1") is False
    assert await store.delete_conversation("ada", "c1") is False
    assert await store.lock_conversation("ada", "c1", "r1", 10) is False
    assert await store.unlock_conversation("ada", "c1", "r1") is False


async def test_an_id_can_be_created_once(store: Store) -> None:
    await store.create_conversation(conversation("c1"), items("i1"))
    for owner in ("ada", "bob"):
        with pytest.raises(IdTaken):
            await store.create_conversation(conversation("c1", owner), items("i2"))
    assert ids(await store.conversation_items("ada", "c1")) == ["i1"]


async def test_metadata_is_set(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    changed = conversation("c1", metadata=b'{"a":"b"}')
    assert await store.set_metadata("ada", "c1", b'{"a":"b"}') == changed
    assert await store.get_conversation("ada", "c1") == changed


async def test_a_deleted_conversation_is_gone_with_its_items(store: Store) -> None:
    await store.create_conversation(conversation("c1"), items(*(f"i{number}" for number in range(1200))))
    await store.create_conversation(conversation("c2"), items("i1"))
    assert await store.delete_conversation("ada", "c1") is True
    assert await store.delete_conversation("ada", "c1") is False
    assert await store.get_conversation("ada", "c1") is None
    assert await store.get_item("ada", "c1", "i1") is None
    assert ids(await store.conversation_items("ada", "c2")) == ["i1"]
    await store.create_conversation(conversation("c1"))
    assert await store.conversation_items("ada", "c1") == []


async def test_items_are_appended_and_an_existing_item_is_replaced_in_its_place(store: Store) -> None:
    await store.create_conversation(conversation("c1"), items("i1", "i2"))
    assert await store.add_items("ada", "c1", [item("i3"), item("i1", "new text"), item("i4"), item("i3", "twice")]) is True
    assert await store.conversation_items("ada", "c1") == [item("i1", "new text"), item("i2"), item("i3", "twice"), item("i4")]


async def test_items_of_concurrent_calls_are_all_added_without_being_mixed(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    await asyncio.gather(*(store.add_items("ada", "c1", items(f"{number}a", f"{number}b")) for number in range(20)))
    found = ids(await store.conversation_items("ada", "c1"))
    assert sorted(found) == sorted(f"{number}{letter}" for number in range(20) for letter in "ab")
    assert all(found[position + 1] == found[position][:-1] + "b" for position in range(0, 40, 2))


async def test_deleting_an_item_keeps_the_order_of_the_others(store: Store) -> None:
    await store.create_conversation(conversation("c1"), items("i1", "i2", "i3"))
    assert await store.delete_item("ada", "c1", "i3") is True
    assert await store.delete_item("ada", "c1", "i3") is False
    await store.add_items("ada", "c1", items("i4", "i3"))
    await store.delete_item("ada", "c1", "i2")
    assert ids(await store.conversation_items("ada", "c1")) == ["i1", "i4", "i3"]


@pytest.mark.parametrize("id", ["a\0b", "ü€🙂", "x" * 5000, "%s'\";--", ""])
async def test_ids_may_be_anything(store: Store, id: str) -> None:
    await store.create_conversation(conversation("c1"), [Item(id, b"{}"), item("i2")])
    found = await store.get_item("ada", "c1", id)
    assert found is not None
    assert ids(await store.list_items("ada", "c1", after=id, ascending=True)) == ["i2"]
    assert await store.get("ada", id) is None
    assert await store.get_conversation(id, "c1") is None
    assert await store.delete_item("ada", "c1", id) is True


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ({"ascending": True}, "1 2 3 4 5 6"),
        ({}, "6 5 4 3 2 1"),
        ({"limit": 2}, "6 5"),
        ({"limit": 2, "ascending": True}, "1 2"),
        ({"after": "5", "limit": 2}, "4 3"),
        ({"after": "2", "limit": 2, "ascending": True}, "3 4"),
        ({"after": "6", "ascending": True}, ""),
        # The page before an item ends next to it.
        ({"before": "5", "limit": 2, "ascending": True}, "3 4"),
        ({"before": "2", "limit": 2}, "4 3"),
        ({"before": "1", "ascending": True}, ""),
        ({"after": "1", "before": "5", "ascending": True}, "2 3 4"),
        ({"after": "1", "before": "5", "ascending": True, "limit": 2}, "2 3"),
        ({"after": "5", "before": "1", "limit": 2}, "4 3"),
        ({"after": "5", "before": "1", "ascending": True}, ""),
    ],
)
async def test_items_are_listed_by_page(store: Store, page: dict[str, object], expected: str) -> None:
    await store.create_conversation(conversation("c1"), items(*"123456"))
    assert ids(await store.list_items("ada", "c1", **page)) == expected.split()  # type: ignore[arg-type]


@pytest.mark.parametrize("cursor", ["after", "before"])
async def test_a_cursor_that_is_not_an_item_is_an_error_that_names_the_parameter(store: Store, cursor: str) -> None:
    await store.create_conversation(conversation("c1"), items("i1"))
    await store.create_conversation(conversation("c2"), items("i2"))
    with pytest.raises(InvalidRequest) as error:
        await store.list_items("ada", "c1", **{cursor: "i2"})  # type: ignore[arg-type]
    assert error.value.param == cursor


async def test_one_response_at_a_time_has_the_lock(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    locked = await asyncio.gather(*(store.lock_conversation("ada", "c1", f"r{number}", 60) for number in range(10)))
    assert sum(locked) == 1
    holder = f"r{locked.index(True)}"
    assert await store.unlock_conversation("ada", "c1", "another") is False
    assert await store.lock_conversation("ada", "c1", "next", 60) is False
    assert await store.unlock_conversation("ada", "c1", holder) is True
    assert await store.lock_conversation("ada", "c1", "next", 60) is True


async def test_a_lock_ends_with_its_lease_and_can_be_renewed(store: Store, clock: Clock) -> None:
    await store.create_conversation(conversation("c1"))
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    clock.forward(9)
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    clock.forward(9)
    assert await store.lock_conversation("ada", "c1", "r2", 10) is False
    clock.forward(1)
    assert await store.lock_conversation("ada", "c1", "r2", 10) is True
    assert await store.unlock_conversation("ada", "c1", "r1") is False


async def test_put_and_unlock_stores_the_response_appends_its_items_and_unlocks(store: Store) -> None:
    await store.create_conversation(conversation("c1"), items("i1"))
    assert await store.lock_conversation("ada", "c1", "r1", 60)
    answer = record("r1", conversation="c1", expires_at=BEGINNING + 40 * DAY)
    assert await store.put_and_unlock(answer, items("i2", "i3")) is True
    assert await store.get("ada", "r1") == answer
    assert ids(await store.conversation_items("ada", "c1")) == ["i1", "i2", "i3"]
    assert await store.lock_conversation("ada", "c1", "r2", 60) is True
    extended = await store.get_conversation("ada", "c1")
    assert extended is not None
    assert extended.expires_at == answer.expires_at


async def test_put_and_unlock_fails_if_the_lock_was_lost(store: Store, clock: Clock) -> None:
    await store.create_conversation(conversation("c1"))
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    clock.forward(10)
    assert await store.lock_conversation("ada", "c1", "r2", 10)
    assert await store.put_and_unlock(record("r1", conversation="c1"), items("i1")) is False
    assert await store.get("ada", "r1") is None
    assert await store.conversation_items("ada", "c1") == []
    assert await store.lock_conversation("ada", "c1", "r3", 10) is False


async def test_put_and_unlock_works_with_an_expired_lock_that_nobody_took(store: Store, clock: Clock) -> None:
    await store.create_conversation(conversation("c1"))
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    clock.forward(100)
    assert await store.put_and_unlock(record("r1", conversation="c1"), items("i1")) is True
    assert ids(await store.conversation_items("ada", "c1")) == ["i1"]


async def test_put_and_unlock_fails_if_the_conversation_is_gone(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    await store.delete_conversation("ada", "c1")
    assert await store.put_and_unlock(record("r1", conversation="c1"), items("i1")) is False
    assert await store.put_and_unlock(record("r1"), items("i1")) is False
    assert await store.get("ada", "r1") is None


async def test_put_and_unlock_fails_with_the_id_of_another_owners_response(store: Store) -> None:
    await store.put(record("r1", "bob"))
    await store.create_conversation(conversation("c1"))
    assert await store.lock_conversation("ada", "c1", "r1", 10)
    with pytest.raises(IdTaken):
        await store.put_and_unlock(record("r1", conversation="c1"), items("i1"))
    assert await store.conversation_items("ada", "c1") == []
    assert await store.lock_conversation("ada", "c1", "r2", 10) is False


async def test_an_expired_conversation_is_gone_and_swept_with_its_items(store: Store, clock: Clock) -> None:
    await store.create_conversation(conversation("c1", expires_at=BEGINNING + 10), items(*map(str, range(700))))
    await store.create_conversation(conversation("c2", expires_at=BEGINNING + 10), items("i1"))
    await store.add_items("ada", "c2", items("i2"), BEGINNING + 20)
    clock.forward(10)
    assert await store.get_conversation("ada", "c1") is None
    assert await store.conversation_items("ada", "c1") is None
    assert await store.lock_conversation("ada", "c1", "r1", 10) is False
    assert await store.sweep() == 1
    assert ids(await store.conversation_items("ada", "c2")) == ["i1", "i2"]
    await store.create_conversation(conversation("c1"))
    assert await store.conversation_items("ada", "c1") == []


async def test_adding_items_never_makes_a_conversation_expire_earlier(store: Store) -> None:
    await store.create_conversation(conversation("c1"))
    await store.add_items("ada", "c1", items("i1"), BEGINNING + 1)
    assert await store.get_conversation("ada", "c1") == conversation("c1")
