"""A chain is read from the database once; from then on each response that continues it is all that is added."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from support.stores import BEGINNING, Clock, queued, record

from antiphon.store.sql.operations import Operation, Statement
from antiphon.store.sql.recent import Chain, RecentChains
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite import SqliteDatabase, open_sqlite
from antiphon.store.wakeups import Belfry

T = TypeVar("T")


class Watched:
    """A database that tells what was asked of it by reads."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.bells, self.clock = database.bells, database.clock
        self.write, self.put, self.size = database.write, database.put, database.size
        self._read = database.read
        self.asked: list[str] = []

    async def read(self, operation: Operation[T]) -> T:
        return await self._read(self._telling(operation))

    def _telling(self, operation: Operation[T]) -> Operation[T]:
        step = next(operation)
        while True:
            assert isinstance(step, Statement)
            self.asked.append("whole" if "RECURSIVE" in step.text else "deletions")
            rows = yield step
            try:
                step = operation.send(rows)
            except StopIteration as end:
                result: T = end.value
                return result

    def take(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
async def database(tmp_path: Path, clock: Clock) -> AsyncIterator[Watched]:
    async with open_sqlite(str(tmp_path / "responses.db"), Belfry(), clock) as opened:
        yield Watched(opened)


async def test_a_chain_of_any_length_is_continued_with_one_small_query(database: Watched) -> None:
    store = SqlStore(database)
    await store.put(record("r0"))
    for number in range(1, 50):
        assert len(await store.chain("ada", f"r{number - 1}")) == number
        await store.put(record(f"r{number}", parent=f"r{number - 1}"))
    assert database.take() == ["whole", *["deletions"] * 48]
    assert [link.id for link in await store.chain("ada", "r49")] == [f"r{number}" for number in range(50)]


async def test_a_background_response_lengthens_a_chain_too(database: Watched) -> None:
    store = SqlStore(database)
    await store.put(record("r0"))
    await store.chain("ada", "r0")
    await store.enqueue(queued("r1", parent="r0"), b"{}")
    assert await store.claim("w1", 60, 3)
    database.take()
    # It is not over: what is read of it now may change.
    assert [link.status for link in await store.chain("ada", "r1")] == ["completed", "in_progress"]
    assert await store.finish(record("r1", parent="r0", output=b"[1]"), "w1", 1, [])
    assert [link.output for link in await store.chain("ada", "r1")][1:] == [b"[1]"]
    await store.put(record("r2", parent="r1"))
    assert [link.id for link in await store.chain("ada", "r2")] == ["r0", "r1", "r2"]
    assert database.take() == ["whole", "deletions", "deletions"]


async def test_what_another_gateway_deleted_is_gone_from_a_chain_that_was_read(database: Watched) -> None:
    store, other = SqlStore(database), SqlStore(database)
    for number in range(4):
        await store.put(record(f"r{number}", parent=f"r{number - 1}" if number else None))
    assert len(await store.chain("ada", "r3")) == 4
    await other.delete("ada", "r1")
    assert [link.id for link in await store.chain("ada", "r3")] == ["r2", "r3"]


async def test_another_owners_deletions_cost_nothing(database: Watched) -> None:
    store = SqlStore(database)
    await store.put(record("r0"))
    await store.put(record("b0", "bob"))
    await store.chain("ada", "r0")
    await store.delete("bob", "b0")
    database.take()
    assert len(await store.chain("ada", "r0")) == 1
    assert database.take() == ["deletions"]


async def test_what_has_expired_is_gone_from_a_chain_that_was_read(database: Watched, clock: Clock) -> None:
    store = SqlStore(database)
    await store.put(record("r0", expires_at=BEGINNING + 10))
    await store.put(record("r1", parent="r0"))
    assert len(await store.chain("ada", "r1")) == 2
    clock.forward(10)
    assert [link.id for link in await store.chain("ada", "r1")] == ["r1"]


async def test_chains_that_were_not_used_for_longest_are_forgotten(database: Watched) -> None:
    store = SqlStore(database)
    chains: dict[str, Chain] = {}
    for id in ("r0", "r1", "r2"):
        await store.put(record(id, output=b"x" * 1000))
        chains[id] = Chain(await store.chain("ada", id), 0)
    recent = RecentChains(most_bytes=4000)
    recent.remember("ada", "r0", chains["r0"])
    recent.remember("ada", "r1", chains["r1"])
    assert recent.find("ada", "r0", BEGINNING) is chains["r0"]
    recent.remember("ada", "r2", chains["r2"])
    assert [id for id in chains if recent.find("ada", id, BEGINNING)] == ["r0", "r2"]
    assert recent.find("bob", "r0", BEGINNING) is None


async def test_a_chain_that_went_on_is_remembered_once(database: Watched) -> None:
    store = SqlStore(database)
    await store.put(record("r0"))
    recent = RecentChains()
    recent.remember("ada", "r0", Chain(await store.chain("ada", "r0"), 0))
    recent.extend(record("r1", parent="r0"))
    assert recent.find("ada", "r0", BEGINNING) is None
    found = recent.find("ada", "r1", BEGINNING)
    assert found is not None
    assert [link.id for link in found.links] == ["r0", "r1"]
