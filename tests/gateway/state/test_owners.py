"""A key that gets a name: its requests wait for what it stored, as long as that is moved in time."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.background import Background, held_back
from support.engine import MockEngine
from support.gateway import DEFAULTS, running_gateway
from support.stores import record

from antiphon.errors import StoreUnavailable
from antiphon.gateway.state.owners import Owners
from antiphon.settings.settings import Settings
from antiphon.store.memory.store import MemoryStore

FAR_FUTURE = 2**40


class SlowStore(MemoryStore):
    """Moves nothing until it may, except of some owners, and fails a number of times before that."""

    def __init__(self, failures: int = 0, at_once: Collection[str] = ()) -> None:
        super().__init__()
        self.at_once = at_once
        self.begun, self.may_move, self.moved = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.failures = failures

    async def move_owner(self, earlier: str, owner: str) -> int:
        self.begun.set()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable
        if earlier not in self.at_once:
            await self.may_move.wait()
        count = await super().move_owner(earlier, owner)
        if count:
            self.moved.set()
        return count


@asynccontextmanager
async def watching(owners: Owners) -> AsyncIterator[None]:
    task = asyncio.create_task(owners.watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def begun(store: SlowStore, owners: Owners, *waiting: str) -> list[asyncio.Task[str]]:
    """Requests of these owners, which wait for a move that has begun."""
    tasks = [asyncio.create_task(owners.settled(owner)) for owner in waiting]
    await store.begun.wait()
    # Others do not wait.
    assert await owners.settled("eve") == "eve"
    assert not any(task.done() for task in tasks)
    return tasks


async def test_a_request_waits_until_its_owner_has_what_it_stored_earlier() -> None:
    store = SlowStore()
    await store.put(record("r1", "hash", expires_at=FAR_FUTURE))
    owners = Owners(store, {"hash": "ada"})
    async with watching(owners):
        waiting = await begun(store, owners, "ada", "hash")
        store.may_move.set()
        assert await asyncio.gather(*waiting) == ["ada", "ada"]
        assert await store.get("ada", "r1") is not None


async def test_a_name_that_comes_later_is_waited_for_too() -> None:
    store = SlowStore()
    owners = Owners(store, {})
    async with watching(owners):
        assert await owners.settled("hash") == "hash"
        owners.replace({"hash": "ada"})
        waiting = await begun(store, owners, "ada")
        store.may_move.set()
        assert await asyncio.gather(*waiting) == ["ada"]
        assert (owners.earlier("ada"), owners.earlier("bob")) == (["hash"], [])


async def test_a_move_that_takes_too_long_delays_no_request_for_ever() -> None:
    owners = Owners(SlowStore(), {"hash": "ada"}, patience=0.01)
    async with watching(owners):
        assert await owners.settled("ada") == "ada"


async def test_a_move_that_failed_is_tried_again() -> None:
    store = SlowStore(failures=1)
    store.may_move.set()
    await store.put(record("r1", "hash", expires_at=FAR_FUTURE))
    # The next look for what others have stored is far away.
    owners = Owners(store, {"hash": "ada"}, interval=600, retry_interval=0.01)
    async with watching(owners):
        # Nobody waits for more than one try of a store that is away.
        assert await owners.settled("ada") == "ada"
        assert await store.get("ada", "r1") is None
        # This is another request, and another try.
        assert await owners.settled("ada") == "ada"
        assert await store.get("ada", "r1") is not None


async def test_the_move_of_one_key_delays_no_other() -> None:
    store = SlowStore(at_once={"hash of bob"})
    await store.put(record("r1", "hash of bob", expires_at=FAR_FUTURE))
    owners = Owners(store, {"hash of ada": "ada", "hash of bob": "bob"}, patience=600)
    async with watching(owners):
        waiting = await begun(store, owners, "ada")
        async with asyncio.timeout(5):
            assert await owners.settled("bob") == "bob"
        assert await store.get("bob", "r1") is not None
        assert not waiting[0].done()
        store.may_move.set()
        assert await asyncio.gather(*waiting) == ["ada"]


async def test_a_name_that_is_taken_back_is_waited_for_no_longer() -> None:
    store = SlowStore()
    owners = Owners(store, {"hash": "ada"}, patience=600)
    async with watching(owners):
        waiting = await begun(store, owners, "ada")
        owners.replace({})
        assert await asyncio.gather(*waiting) == ["ada"]
        assert await owners.settled("ada") == "ada"


async def test_what_another_gateway_stored_meanwhile_is_found_at_the_next_look() -> None:
    store = SlowStore()
    store.may_move.set()
    owners = Owners(store, {"hash": "ada"}, interval=0.01)
    async with watching(owners):
        await owners.settled("ada")
        await store.put(record("late", "hash", expires_at=FAR_FUTURE))
        await store.moved.wait()
    assert await store.get("ada", "late") is not None


# ---- responses that run meanwhile ------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves_first", [False, True], ids=["before the move", "after the move"])
async def test_a_response_adds_its_items_to_its_conversation_while_its_key_gets_a_name(
    engine: MockEngine, moves_first: bool
) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    store = SlowStore()
    async with running_gateway(engine, shares=store, api_key=("one",)) as gateway:
        key: dict[str, Any] = {"headers": {"Authorization": "Bearer one"}}
        _, conversation = await gateway.post({}, "/v1/conversations", **key)
        body = {"model": "mock", "input": "Hi", "conversation": conversation["id"], "store": False}
        answering = asyncio.create_task(gateway.post(body, **key))
        await engine.asked.wait()
        await gateway.reload(Settings(**(DEFAULTS | {"upstream": (engine.url,), "port": 0, "keys": {"ada": ("one",)}})))
        await store.begun.wait()
        if moves_first:
            store.may_move.set()
            await store.moved.wait()
        go_on.set()
        status, response = await answering
        assert (status, response["status"]) == (200, "completed")
        store.may_move.set()
        _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items", **key)
        assert len(items["data"]) == 2


async def test_a_response_whose_conversation_was_deleted_says_so_though_it_is_not_stored(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine) as gateway:
        _, conversation = await gateway.post({}, "/v1/conversations")
        body = {"model": "mock", "input": "Hi", "conversation": conversation["id"], "store": False}
        answering = asyncio.create_task(gateway.post(body))
        await engine.asked.wait()
        assert await gateway.gateway.store.delete_conversation("", conversation["id"])
        go_on.set()
        status, response = await answering
        assert (status, response["error"]["code"]) == (409, "conversation_locked")


async def test_what_runs_when_a_key_gets_a_name_counts_for_the_name(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, api_key=("one",), key_responses=1) as gateway:
        key: dict[str, Any] = {"headers": {"Authorization": "Bearer one"}}
        body = {"model": "mock", "input": "Hi"}
        answering = asyncio.create_task(gateway.post(body, **key))
        await engine.asked.wait()
        assert (await gateway.post(body, **key))[0] == 429
        named = DEFAULTS | {"upstream": (engine.url,), "port": 0, "keys": {"ada": ("one",)}, "key_responses": 1}
        await gateway.reload(Settings(**named))
        assert (await gateway.post(body, **key))[0] == 429
        go_on.set()
        assert (await answering)[0] == 200
        assert (await gateway.post(body, **key))[0] == 200


async def test_a_response_that_was_queued_before_its_key_got_a_name_runs_in_a_place_of_the_name(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    store = SlowStore()
    key: dict[str, Any] = {"headers": {"Authorization": "Bearer one"}}
    async with running_gateway(engine, shares=store, api_key=("one",), background_workers=0) as idle:
        id = (await Background(idle, **key).create())["id"]
    # It is claimed as the earlier owner's: the move takes long.
    async with running_gateway(engine, shares=store, keys={"ada": ("one",)}, key_responses=1) as gateway:
        await store.begun.wait()
        with store.follow(id) as wakeup:
            while not gateway.gateway.admission.owners.full_owners():
                await wakeup.wait()
        assert gateway.gateway.admission.owners.full_owners() == {"ada"}
        store.may_move.set()
        await engine.asked.wait()
        go_on.set()
        assert (await Background(gateway, **key).ended(id))["status"] == "completed"
