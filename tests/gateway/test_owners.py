"""A key that gets a name: its requests wait for what it stored, as long as that is moved in time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.stores import record

from antiphon.errors import StoreUnavailable
from antiphon.gateway.owners import Owners
from antiphon.store.memory import MemoryStore

FAR_FUTURE = 2**40


class SlowStore(MemoryStore):
    """Moves nothing until it may, and fails a number of times before that."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.begun, self.may_move, self.moved = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.failures = failures

    async def move_owner(self, earlier: str, owner: str) -> int:
        self.begun.set()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable
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
    owners = Owners(store, {"hash": "ada"}, interval=0.01)
    async with watching(owners):
        # Nobody waits for a store that is away.
        assert await owners.settled("ada") == "ada"
        await store.moved.wait()
    assert await store.get("ada", "r1") is not None


async def test_what_another_gateway_stored_meanwhile_is_found_at_the_next_look() -> None:
    store = SlowStore()
    store.may_move.set()
    owners = Owners(store, {"hash": "ada"}, interval=0.01)
    async with watching(owners):
        await owners.settled("ada")
        await store.put(record("late", "hash", expires_at=FAR_FUTURE))
        await store.moved.wait()
    assert await store.get("ada", "late") is not None
