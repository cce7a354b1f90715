"""Vectors in memory: within a limit, and up to date; and the index of a store that has many."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import pytest_asyncio
from support.stores import Clock

from antiphon.files.vector_stores.search.embeddings import normalized
from antiphon.files.vector_stores.search.vector_cache import ROW_BYTES, SAMPLED, Cached, VectorCache
from antiphon.files.vector_stores.search.vectors import ApproximateIndex, Floats, VectorTable, vector_to_bytes
from antiphon.store import open_store
from antiphon.store.files import chunks
from antiphon.store.files.chunks import MOST_WINDOWS, NewChunk, StoreState, VectorRow
from antiphon.store.operations import Database, Operation

WIDTH = 32
ROW = WIDTH + 4 + ROW_BYTES


def random_vectors(number: int, seed: int = 0) -> Floats:
    return normalized(numpy.random.default_rng(seed).standard_normal((number, WIDTH)))


class Reads:
    """A database that counts how many vectors are read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.wakeups = database.wakeups
        self.vectors = 0

    def clock(self) -> float:
        return self._database.clock()

    async def read(self, operation: Operation[list[VectorRow]]) -> list[VectorRow]:
        rows = await self._database.read(operation)
        self.vectors += len(rows)
        return rows

    async def write(self, operation: Operation[int]) -> int:
        return await self._database.write(operation)


@pytest_asyncio.fixture
async def database(tmp_path: Path) -> AsyncIterator[Reads]:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}", Clock()) as store:
        yield Reads(store.files.database)


async def put(database: Reads, vectors: Floats, store: str = "vs_1", file: str = "file-1", first: int = 0) -> StoreState:
    new = [NewChunk(first + at, "", [], "", [vector_to_bytes(vector)]) for at, vector in enumerate(vectors)]
    for at in range(0, len(new), 100):
        await database.write(chunks.add(store, file, new[at : at + 100], "m"))
    states = await database._database.read(chunks.states([store]))
    return states[store]


async def ids(cache: VectorCache, state: StoreState, query: Floats, most: int = 5, store: str = "vs_1") -> list[int]:
    found = await cache.nearest(store, "m", state, query[numpy.newaxis], most, None)
    return [near.id // MOST_WINDOWS for near in found[0]]


async def no_more_indexing(cached: Cached) -> None:
    """It may have ended before anybody looks."""
    if cached.indexing is not None:
        await cached.indexing


async def test_vectors_are_read_once_and_then_only_what_was_added(database: Reads) -> None:
    vectors = random_vectors(300)
    state = await put(database, vectors[:200])
    cache = VectorCache(database, 10**6)  # type: ignore[arg-type]
    assert (await ids(cache, state, vectors[150]))[0] == 151
    read = database.vectors
    assert read >= 200
    assert (await ids(cache, state, vectors[10]))[0] == 11
    assert database.vectors == read + 1
    state = await put(database, vectors[200:], first=200)
    assert (await ids(cache, state, vectors[250]))[0] == 251
    assert database.vectors <= read + 1 + 102
    assert cache.bytes == pytest.approx(300 * ROW, rel=0.1)


async def test_the_memory_has_a_limit_and_the_store_that_was_used_last_stays(database: Reads) -> None:
    vectors = random_vectors(100)
    states = {store: await put(database, vectors, store) for store in ("vs_1", "vs_2", "vs_3")}
    cache = VectorCache(database, 250 * ROW)  # type: ignore[arg-type]
    for store in ("vs_1", "vs_2", "vs_1", "vs_3"):
        await ids(cache, states[store], vectors[0], store=store)
        assert cache.bytes <= 250 * ROW
    read = database.vectors
    await ids(cache, states["vs_1"], vectors[0], store="vs_1")
    assert database.vectors == read + 1
    await ids(cache, states["vs_2"], vectors[0], store="vs_2")
    assert database.vectors == read + 102


async def test_a_store_that_is_too_large_is_searched_part_by_part(database: Reads) -> None:
    vectors = random_vectors(300)
    state = await put(database, vectors)
    small = VectorCache(database, 100 * ROW, rows_in_part=64)  # type: ignore[arg-type]
    large = VectorCache(database, 10**6)  # type: ignore[arg-type]
    for query in vectors[::60]:
        assert await ids(small, state, query, 20) == await ids(large, state, query, 20)
    assert small.bytes == 0


async def test_a_store_whose_chunks_have_many_vectors_is_too_large_sooner(database: Reads) -> None:
    new = [NewChunk(at, "", [], "", [vector_to_bytes(each) for each in random_vectors(5)]) for at in range(60)]
    await database.write(chunks.add("vs_1", "file-1", new, "m"))
    state = (await database._database.read(chunks.states(["vs_1"])))["vs_1"]
    cache = VectorCache(database, 100 * ROW, rows_in_part=64)  # type: ignore[arg-type]
    await ids(cache, state, random_vectors(1)[0])
    assert cache.bytes == 0


async def test_searches_at_the_same_time_load_once(database: Reads) -> None:
    vectors = random_vectors(200)
    state = await put(database, vectors)
    cache = VectorCache(database, 10**6)  # type: ignore[arg-type]
    found = await asyncio.gather(*(ids(cache, state, vectors[at]) for at in range(5)))
    assert [each[0] for each in found] == [1, 2, 3, 4, 5]
    assert database.vectors == 5 * SAMPLED + 200


async def test_a_large_store_is_indexed_and_finds_nearly_the_same(database: Reads) -> None:
    vectors = random_vectors(900)
    state = await put(database, vectors[:600])
    cache, exact = VectorCache(database, 10**7, exact_rows=500), VectorCache(database, 10**7)  # type: ignore[arg-type]
    await ids(cache, state, vectors[0])
    (cached,) = cache._cached.values()
    await no_more_indexing(cached)
    assert cached.searchable.index is not None
    # What is added later is found beside the index.
    state = await put(database, vectors[600:], first=600)
    hits = 0
    for at in range(0, 900, 30):
        found = await ids(cache, state, vectors[at], 10)
        assert found[0] == at + 1
        hits += len(set(found) & set(await ids(exact, state, vectors[at], 10)))
    assert hits >= 0.95 * 300
    # In some files only, it is exact; what was removed is not found.
    await database.write(chunks.remove("vs_1", {1: [], 31: []}))
    state = (await database._database.read(chunks.states(["vs_1"])))["vs_1"]
    assert 1 not in await ids(cache, state, vectors[0], 10)
    await cache.close()


async def test_an_index_that_is_being_made_does_not_delay_the_end(database: Reads) -> None:
    vectors = random_vectors(600)
    state = await put(database, vectors)
    cache = VectorCache(database, 10**7, exact_rows=100)  # type: ignore[arg-type]
    await ids(cache, state, vectors[0])
    await cache.close()
    assert cache.bytes == 0


async def test_an_index_that_could_not_be_made_is_tried_again_when_the_store_has_grown(
    database: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def no_memory(*_: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise MemoryError

    vectors = random_vectors(300)
    state = await put(database, vectors[:200])
    cache = VectorCache(database, 10**7, exact_rows=100)  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        patched.setattr(ApproximateIndex, "add", no_memory)
        assert (await ids(cache, state, vectors[150]))[0] == 151
        (cached,) = cache._cached.values()
        await no_more_indexing(cached)
    assert attempts == 1
    assert cached.searchable.index is None
    state = await put(database, vectors[200:], first=200)
    assert (await ids(cache, state, vectors[250]))[0] == 251
    await no_more_indexing(cached)
    assert cached.searchable.index is not None
    assert len(cached.searchable.index.ids) == 300
    assert (await ids(cache, state, vectors[250]))[0] == 251
    await cache.close()


def test_equals_are_found_in_the_order_of_their_ids() -> None:
    vector = vector_to_bytes(random_vectors(1)[0])
    table = VectorTable.of_rows([VectorRow(id, "file-1", vector) for id in range(1, 2000)])
    assert [near.id for near in table.nearest(random_vectors(1), 7)[0]] == list(range(1, 8))


async def test_vectors_are_read_and_compared_beside_the_event_loop(database: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[str] = []
    to_thread = asyncio.to_thread

    async def noted(work: Any, *arguments: Any) -> Any:
        beside.append(work.__name__)
        return await to_thread(work, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    vectors = random_vectors(50)
    state = await put(database, vectors)
    await ids(VectorCache(database, 10**6), state, vectors[0])  # type: ignore[arg-type]
    assert {"of_rows", "joined", "nearest"} <= set(beside)
