"""A chain is read from the database once; after that, each response that continues it is added to the cache."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from support.stores import BEGINNING, Clock, queued, record

from antiphon.store.files.opened import files_in_memory
from antiphon.store.operations import Operation, Statement
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite.database import SqliteDatabase, open_sqlite
from antiphon.store.wakeups import Wakeups

T = TypeVar("T")


class WatchedDatabase:
    """A database that records the queries of its reads."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.wakeups, self.clock = database.wakeups, database.clock
        self.write, self.put, self.size, self.check = database.write, database.put, database.size, database.check
        self.maintain, self.generation = database.maintain, database.generation
        self.put_and_unlock = database.put_and_unlock
        self._read = database.read
        self.queries: list[str] = []

    async def read(self, operation: Operation[T]) -> T:
        return await self._read(self._recorded(operation))

    def _recorded(self, operation: Operation[T]) -> Operation[T]:
        step = next(operation)
        while True:
            assert isinstance(step, Statement)
            self.queries.append("chain" if "RECURSIVE" in step.text else "deletions")
            rows = yield step
            try:
                step = operation.send(rows)
            except StopIteration as end:
                result: T = end.value
                return result

    def take_queries(self) -> list[str]:
        queries, self.queries = self.queries, []
        return queries


@pytest.fixture
async def database(tmp_path: Path, clock: Clock) -> AsyncIterator[WatchedDatabase]:
    async with open_sqlite(str(tmp_path / "responses.db"), Wakeups(), clock) as opened:
        yield WatchedDatabase(opened)


async def test_a_chain_of_any_length_is_continued_with_one_small_query(database: WatchedDatabase) -> None:
    store = SqlStore(database, files_in_memory())
    await store.put(record("r0"))
    for number in range(1, 50):
        assert len(await store.chain("ada", f"r{number - 1}")) == number
        await store.put(record(f"r{number}", parent=f"r{number - 1}"))
    assert database.take_queries() == ["chain", *["deletions"] * 48]
    assert [link.id for link in await store.chain("ada", "r49")] == [f"r{number}" for number in range(50)]


async def test_a_background_response_extends_a_chain_too(database: WatchedDatabase) -> None:
    store = SqlStore(database, files_in_memory())
    await store.put(record("r0"))
    await store.chain("ada", "r0")
    await store.enqueue(queued("r1", parent="r0"), b"{}")
    assert await store.claim("w1", 60, 3)
    database.take_queries()
    # It has not ended, so it can still change.
    assert [link.status for link in await store.chain("ada", "r1")] == ["completed", "in_progress"]
    assert await store.finish(record("r1", parent="r0", output=b"[1]"), "w1", 1, [])
    assert [link.output for link in await store.chain("ada", "r1")][1:] == [b"[1]"]
    await store.put(record("r2", parent="r1"))
    assert [link.id for link in await store.chain("ada", "r2")] == ["r0", "r1", "r2"]
    assert database.take_queries() == ["chain", "deletions", "deletions"]


async def test_a_response_that_another_gateway_deletes_is_removed_from_a_cached_chain(database: WatchedDatabase) -> None:
    store, other = SqlStore(database, files_in_memory()), SqlStore(database, files_in_memory())
    for number in range(4):
        await store.put(record(f"r{number}", parent=f"r{number - 1}" if number else None))
    assert len(await store.chain("ada", "r3")) == 4
    await other.delete("ada", "r1")
    assert [link.id for link in await store.chain("ada", "r3")] == ["r2", "r3"]


async def test_a_deletion_by_another_owner_does_not_invalidate_a_cached_chain(database: WatchedDatabase) -> None:
    store = SqlStore(database, files_in_memory())
    await store.put(record("r0"))
    await store.put(record("b0", "bob"))
    await store.chain("ada", "r0")
    await store.delete("bob", "b0")
    database.take_queries()
    assert len(await store.chain("ada", "r0")) == 1
    assert database.take_queries() == ["deletions"]


async def test_an_expired_response_is_removed_from_a_cached_chain(database: WatchedDatabase, clock: Clock) -> None:
    store = SqlStore(database, files_in_memory())
    await store.put(record("r0", expires_at=BEGINNING + 10))
    await store.put(record("r1", parent="r0"))
    assert len(await store.chain("ada", "r1")) == 2
    clock.forward(10)
    assert [link.id for link in await store.chain("ada", "r1")] == ["r1"]


async def test_a_chain_whose_responses_are_kept_longer_stays_complete(database: WatchedDatabase, clock: Clock) -> None:
    store, other = SqlStore(database, files_in_memory()), SqlStore(database, files_in_memory())
    await store.put(record("r0", expires_at=BEGINNING + 10))
    await store.put(record("r1", parent="r0"))
    for each in (store, other):
        assert len(await each.chain("ada", "r1")) == 2
    await store.keep_until("ada", ["r0"], BEGINNING + 100)
    assert next(link.expires_at for link in await store.chain("ada", "r1")) == BEGINNING + 100
    clock.forward(10)
    for each in (store, other):
        assert [link.id for link in await each.chain("ada", "r1")] == ["r0", "r1"]
