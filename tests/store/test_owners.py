"""What one owner stored does not exist for another owner, whichever method is called."""

import inspect
from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs
from support.stores import conversation, events, items, queued, record

from antiphon.store import IdTaken, Store
from antiphon.store.records import Listing, LongEventPlace

ATTEMPTS: dict[str, tuple[Callable[[Store], Awaitable[object]], object]] = {
    "put": (lambda store: store.put(record("r1", "bob")), IdTaken),
    "get": (lambda store: store.get("bob", "r1"), None),
    "delete": (lambda store: store.delete("bob", "r1"), False),
    "chain": (lambda store: store.chain("bob", "r1"), []),
    "was_deleted": (lambda store: store.was_deleted("bob", "deleted"), False),
    "keep_until": (lambda store: store.keep_until("bob", ["r1"], 2**40), None),
    "find_items": (lambda store: store.find_items("bob", ["in_r1", "out_r1", "i1"]), {}),
    "create_conversation": (lambda store: store.create_conversation(conversation("c1", "bob")), IdTaken),
    "get_conversation": (lambda store: store.get_conversation("bob", "c1"), None),
    "set_metadata": (lambda store: store.set_metadata("bob", "c1", b'{"x":"y"}'), None),
    "delete_conversation": (lambda store: store.delete_conversation("bob", "c1"), False),
    "add_items": (lambda store: store.add_items("bob", "c1", items("i2"), 2**40), False),
    "list_items": (lambda store: store.list_items("bob", "c1"), None),
    "conversation_items": (lambda store: store.conversation_items("bob", "c1"), None),
    "get_item": (lambda store: store.get_item("bob", "c1", "i1"), None),
    "delete_item": (lambda store: store.delete_item("bob", "c1", "i1"), False),
    "lock_conversation": (lambda store: store.lock_conversation("bob", "c1", "running", 60), False),
    "unlock_conversation": (lambda store: store.unlock_conversation("bob", "c1", "running"), False),
    "put_and_unlock": (lambda store: store.put_and_unlock(record("running", "bob", conversation="c1"), items("i2")), False),
    "enqueue": (lambda store: store.enqueue(queued("r1", "bob"), b"{}"), IdTaken),
    "events": (lambda store: store.events("bob", "running"), None),
    "event_part": (lambda store: store.event_part("bob", "running", LongEventPlace(0, 1, 1, 0), 0, 1), None),
    "finish": (lambda store: store.finish(queued("running", "bob"), "w1", 1, events(1)), False),
    "cancel": (lambda store: store.cancel("bob", "running"), "unknown"),
    "list_responses": (lambda store: store.list_responses("bob"), Listing([], None)),
    "list_conversations": (lambda store: store.list_conversations("bob"), Listing([], None)),
}
# Workers, which serve every owner, call these with what `claim` returned; or they read and write no owner's data.
WITHOUT_OWNER = {
    "check",
    "count_jobs",
    "claim",
    "renew",
    "give_back",
    "begin_call",
    "append_events",
    "follow",
    "follow_jobs",
    "sweep",
    "shrink",
    "index_items",
}
# For the admin key, and for keys that get a name.
ABOUT_OWNERS = {"owner_of", "move_owner"}


async def everything(store: Store) -> list[object]:
    return [
        await store.get("ada", "r1"),
        await store.get_conversation("ada", "c1"),
        await store.conversation_items("ada", "c1"),
        await store.events("ada", "running"),
        await store.renew("w1", ["running"], 60),
    ]


@pytest.mark.parametrize("method", ATTEMPTS)
async def test_another_owner_gets_and_changes_nothing_by(store: Store, method: str) -> None:
    await store.put(record("r1"))
    await store.put(record("deleted"))
    await store.delete("ada", "deleted")
    await store.create_conversation(conversation("c1"), items("i1"))
    await store.lock_conversation("ada", "c1", "running", 60)
    await store.enqueue(queued("running", conversation="c1"), b"{}")
    assert await store.claim("w1", 60, 3)
    await store.append_events("running", "w1", 1, events(0))
    before = await everything(store)
    attempt, answer = ATTEMPTS[method]
    if answer is IdTaken:
        with pytest.raises(IdTaken):
            await attempt(store)
    else:
        assert await attempt(store) == answer
    assert await everything(store) == before
    # The lock has not changed either.
    assert await store.lock_conversation("ada", "c1", "other", 60) is False
    assert await store.finish(structs.replace(queued("running"), conversation="c1"), "w1", 1, [], items("i9")) is True
    assert await store.get_item("ada", "c1", "i9") is not None


def test_every_method_of_a_store_is_tried() -> None:
    methods = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert methods == ATTEMPTS.keys() | WITHOUT_OWNER | ABOUT_OWNERS
