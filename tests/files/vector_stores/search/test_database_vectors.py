"""Vectors that Postgres compares and indexes itself, with pgvector."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import numpy
import pytest
import pytest_asyncio
from support.embedders import SubjectEmbedder
from support.postgres import PostgresServer
from support.stores import Clock

from antiphon.errors import StoreUnavailable
from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.database_vectors import DatabaseVectorOptions, DatabaseVectors, _to_texts
from antiphon.files.vector_stores.search.embeddings import normalized
from antiphon.files.vector_stores.search.found import Wanted
from antiphon.files.vector_stores.search.vectors import Floats, vector_to_bytes
from antiphon.store import Store, open_store
from antiphon.store.files import chunks, pgvector
from antiphon.store.files.chunks import MOST_WINDOWS, NewChunk, StoreState
from antiphon.store.files.pgvector import Column, SearchLimits, Sought
from antiphon.store.operations import Database, Operation, Statement
from antiphon.store.postgres.database import session_of

WIDTH = 32
MEANING = Wanted(text_weight=0)
# An index from 50 chunks on, which is used if more than 20 chunks match.
SMALL = DatabaseVectorOptions(search=SearchLimits(exact=20, beside=10), indexed=50, filled=7)


@pytest.fixture
def url(postgres_with_pgvector: PostgresServer) -> Iterator[str]:
    with postgres_with_pgvector.shared_database() as database:
        yield database


@pytest.fixture
def database(store: Store) -> Database:
    return store.files.database


class WideEmbedder(SubjectEmbedder):
    def __init__(self, model: str, width: int) -> None:
        super().__init__(model)
        self._width = width

    async def embed(self, texts: Sequence[str], *, query: bool) -> Floats | None:
        made = await super().embed(texts, query=query)
        return None if made is None else numpy.pad(made, ((0, 0), (0, self._width - made.shape[1])))


@asynccontextmanager
async def vectors_in(database: Database, options: DatabaseVectorOptions = SMALL) -> AsyncIterator[DatabaseVectors]:
    made = DatabaseVectors(database, memory=2**23, options=options)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def vectors(database: Database) -> AsyncIterator[DatabaseVectors]:
    async with vectors_in(database) as made:
        yield made


def clustered(number: int, width: int = WIDTH) -> Floats:
    chance = numpy.random.default_rng(0)
    centers = chance.standard_normal((12, width))
    return normalized(centers[chance.integers(0, 12, number)] + 0.5 * chance.standard_normal((number, width)))


async def put(
    database: Database,
    rows: Floats,
    *,
    store: str = "vs_1",
    model: str = "m",
    first: int = 0,
    file: Callable[[int], str] = lambda number: "file-1",
    put_vector: str = chunks.PUT_VECTOR,
) -> StoreState:
    for at, vector in enumerate(rows, first):
        new = NewChunk(at, "", [], "", [vector_to_bytes(vector)])
        await database.write(chunks.add(store, file(at), [new], model, put_vector))
    return (await database.read(chunks.states([store])))[store]


async def found(
    vectors: DatabaseVectors, state: StoreState, query: Floats, files: set[str] | None = None, **of: str
) -> list[int] | None:
    """The numbers of five chunks, where they were the first that were added."""
    store, model = of.get("store", "vs_1"), of.get("model", "m")
    ranked = await vectors.nearest(store, model, state, query[numpy.newaxis], 5, files)
    return None if ranked is None else [near.id // MOST_WINDOWS - 1 for near in ranked[0]]


def are_nearest(places: Sequence[int] | None, rows: Floats, query: Floats, allowed: Sequence[int] | None = None) -> bool:
    """But for the differences that a byte a number makes."""
    assert places is not None
    allowed = range(len(rows)) if allowed is None else allowed
    best = sorted((float(rows[place] @ query) for place in allowed), reverse=True)[: len(places)]
    return bool(numpy.allclose([float(rows[place] @ query) for place in places], best, atol=0.02))


async def sql(url: str, text: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(url, server_settings={"search_path": "antiphon_files"})
    try:
        return [tuple(row) for row in await connection.fetch(text, *values)]
    finally:
        await connection.close()


async def hnsw_indexes(url: str) -> list[str]:
    rows = await sql(url, "SELECT indexname FROM pg_indexes WHERE indexname LIKE '%hnsw%' ORDER BY indexname")
    return [row[0] for row in rows]


async def plan_of(url: str, operation: Operation[Any]) -> str:
    """Of the first search of an operation in which no row lacks the value."""
    connection = await asyncpg.connect(url, server_settings=session_of("antiphon_files"))
    try:
        step = next(operation)
        while "AS distance" not in step.text:  # type: ignore[union-attr]
            rows = await connection.fetch(step.text, *step.values)  # type: ignore[union-attr]
            step = operation.send(rows)
        # The first table is that of versions before windows.
        step = operation.send([])
        plan = await connection.fetch(f"EXPLAIN {step.text}", *step.values)  # type: ignore[union-attr]
        return "\n".join(row[0] for row in plan)
    finally:
        await connection.close()


# ---- what is made of a database --------------------------------------------------------------------------------------


async def test_other_programs_find_the_extension_too(database: Database, vectors: DatabaseVectors, url: str) -> None:
    """A database has it once."""
    await put(database, clustered(1))
    await vectors.arranged()
    assert (await database.read(pgvector.look())).schema == "public"
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT '[1,2]'::vector::text") == "[1,2]"
    await connection.close()


async def test_vectors_that_are_there_get_into_the_column_and_then_it_is_searched(
    database: Database, vectors: DatabaseVectors, url: str
) -> None:
    rows = clustered(40)
    state = await put(database, rows)
    assert await found(vectors, state, rows[7]) is None
    await vectors.arranged()
    assert are_nearest(await found(vectors, state, rows[7]), rows, rows[7])
    assert await sql(url, "SELECT count(*) FROM chunk_windows WHERE embedding IS NULL") == [(0,)]
    assert await hnsw_indexes(url) == []


async def test_without_vectors_nothing_is_made(vectors: DatabaseVectors, database: Database, url: str) -> None:
    await vectors.arranged()
    assert await database.read(pgvector.look()) == Column(is_available=True)


async def test_the_column_has_what_the_bytes_have(database: Database, vectors: DatabaseVectors, url: str) -> None:
    (row,) = clustered(1)
    await put(database, row[numpy.newaxis])
    await vectors.arranged()
    await put(database, row[numpy.newaxis], first=1, put_vector=await vectors.put_vector())
    ((filled,), (written,)) = await sql(url, "SELECT embedding::text FROM chunk_windows ORDER BY id")
    numbers = numpy.array([float(each) for each in filled.strip("[]").split(",")])
    assert filled == written
    assert numpy.abs(normalized(numbers[numpy.newaxis])[0] - row).max() < 0.01


async def test_a_model_with_many_chunks_gets_an_index_that_is_used(
    database: Database, vectors: DatabaseVectors, url: str
) -> None:
    rows = clustered(400)
    state = await put(database, rows)
    await vectors.arranged()
    (name,) = await hnsw_indexes(url)
    assert name == pgvector.index_of_model("chunk_windows", "m", WIDTH)
    for query in rows[::50]:
        assert are_nearest(await found(vectors, state, query), rows, query)
    column = await database.read(pgvector.look())
    sought = Sought("vs_1", "m", 400, [_to_texts(rows[:1])[0]], WIDTH, 5, None)
    assert name in await plan_of(url, pgvector.nearest(column, sought, SMALL.search))
    assert name not in await plan_of(url, pgvector.nearest(column, sought, SearchLimits()))


async def test_filters_and_other_stores_take_nothing_from_what_is_found(
    database: Database, vectors: DatabaseVectors, clock: Clock
) -> None:
    """The index has the vectors of all stores and files."""
    rows = clustered(400)
    state = await put(database, rows, file=lambda number: f"file-{number % 4}")
    await put(database, rows, store="vs_2")
    await vectors.arranged()
    for query in rows[::50]:
        # By the index, and, as few match, one by one.
        assert are_nearest(await found(vectors, state, query), rows, query)
        many = [place for place in range(400) if place % 4 != 1]
        files = {"file-0", "file-2", "file-3", "file-none"}
        assert are_nearest(await found(vectors, state, query, files), rows, query, many)
    few = await put(database, rows[:40], store="vs_3", file=lambda number: f"file-{number}")
    clock.forward(SMALL.look_again)
    await vectors.arranged()
    ranked = await vectors.nearest("vs_3", "m", few, rows[:1], 5, {"file-3", "file-9"})
    assert ranked is not None
    assert len(ranked[0]) == 2


async def test_matching_vectors_that_are_far_from_the_query_are_found_by_the_index(
    database: Database, vectors: DatabaseVectors
) -> None:
    """It is read on: none of those that it gives first match."""
    query, opposite = numpy.eye(WIDTH, dtype=numpy.float32)[0], -numpy.eye(WIDTH, dtype=numpy.float32)[0]
    noise = 0.1 * numpy.random.default_rng(1).standard_normal((1_000, WIDTH))
    rows = normalized(numpy.where(numpy.arange(1_000)[:, numpy.newaxis] < 900, query, opposite) + noise)
    made = [NewChunk(at, "", [], "", [vector_to_bytes(row)]) for at, row in enumerate(rows)]
    await database.write(chunks.add("vs_1", "near", made[:900], "m"))
    await database.write(chunks.add("vs_1", "far", made[900:], "m"))
    await vectors.arranged()
    column = await database.read(pgvector.look())
    # More match than are compared one by one.
    sought = Sought("vs_1", "m", len(rows), _to_texts(query[numpy.newaxis]), WIDTH, 2, ["far"])
    nearest = await database.read(pgvector.nearest(column, sought, SMALL.search))
    assert nearest is not None
    places = [place // MOST_WINDOWS - 1 for place, _ in nearest.found[0]]
    assert len(places) == 2
    assert are_nearest(places, rows, query, range(900, 1_000))


async def test_the_settings_of_a_search_end_with_it(database: Database, vectors: DatabaseVectors) -> None:
    """The next operation gets the same connection."""
    rows = clustered(400)
    state = await put(database, rows)
    await vectors.arranged()
    names = ("enable_sort", "hnsw.iterative_scan", "hnsw.ef_search", "hnsw.max_scan_tuples", "hnsw.scan_mem_multiplier")

    def settings() -> Operation[list[Any]]:
        (row,) = yield Statement(f"SELECT pg_backend_pid(), {', '.join(f'current_setting({name!r}, true)' for name in names)}")
        return list(row)

    connection, *_ = await database.read(settings())
    assert await found(vectors, state, rows[3])
    assert await database.read(settings()) == [connection, "on", "off", "40", "20000", "1"]


async def test_each_model_and_width_has_an_index(database: Database, vectors: DatabaseVectors, url: str) -> None:
    names = ["m", "it's \\ a 'model'", "a name with more than sixty-three characters, as long as nobody thinks it will be"]
    tables = [clustered(60, 8 * (at + 1)) for at in range(len(names))]
    states = [
        await put(database, rows, store=f"vs_{at}", model=model)
        for at, (model, rows) in enumerate(zip(names, tables, strict=True))
    ]
    await vectors.arranged()
    assert len(await hnsw_indexes(url)) == len(names)
    for at, (model, rows, state) in enumerate(zip(names, tables, states, strict=True)):
        ranked = await vectors.nearest(f"vs_{at}", model, state, rows[5:6], 1, None)
        assert ranked is not None
        assert ranked[0][0].similarity == pytest.approx(1, abs=0.01)


async def test_vectors_of_another_width_are_not_compared(database: Database, vectors: DatabaseVectors) -> None:
    """A server may serve another model by the same name."""
    await put(database, clustered(60, 8))
    rows = clustered(60)
    state = await put(database, rows, first=60)
    await vectors.arranged()
    places = await found(vectors, state, rows[3])
    assert are_nearest([place - 60 for place in places or ()], rows, rows[3])


async def test_vectors_without_direction_or_too_wide_for_an_index_do_no_harm(
    database: Database, vectors: DatabaseVectors
) -> None:
    rows = clustered(40)
    rows[4] = 0
    state = await put(database, rows)
    wide = await put(database, clustered(2, pgvector.WIDEST + 1), store="vs_2", model="wide")
    await vectors.arranged()
    assert 4 not in (await found(vectors, state, rows[3]) or [4])
    ranked = await vectors.nearest("vs_1", "m", state, rows[4:5], 40, None)
    assert ranked is not None
    assert {near.similarity for near in ranked[0]} == {0.0}
    queries = clustered(1, pgvector.WIDEST + 1)
    assert await vectors.nearest("vs_2", "wide", wide, queries, 1, None) is None
    await put(database, queries, store="vs_2", model="wide", first=5, put_vector=await vectors.put_vector())


async def test_an_index_of_a_model_that_nobody_uses_any_more_is_dropped(
    database: Database, vectors: DatabaseVectors, url: str, clock: Clock
) -> None:
    await put(database, clustered(60))
    await vectors.arranged()
    assert len(await hnsw_indexes(url)) == 1
    ids = [row[0] for row in await sql(url, "SELECT id FROM chunks")]
    await database.write(chunks.remove("vs_1", {id: [] for id in ids}))
    await database.write(chunks.forget_store("vs_1"))
    await put(database, clustered(1), store="vs_2")
    clock.forward(SMALL.look_again)
    await vectors.arranged()
    assert await hnsw_indexes(url) == []


# ---- several gateways, and what is interrupted -----------------------------------------------------------------------


async def test_what_a_gateway_adds_that_does_not_know_the_column_is_found_too(
    database: Database, vectors: DatabaseVectors, url: str, clock: Clock
) -> None:
    rows = clustered(100)
    await put(database, rows[:60])
    await vectors.arranged()
    state = await put(database, rows[60:70], first=60, file=lambda number: "file-2")
    for query in rows[55:70]:
        assert are_nearest(await found(vectors, state, query), rows[:70], query)
        assert are_nearest(await found(vectors, state, query, {"file-2"}), rows[:70], query, range(60, 70))
    # Too many for a search to compare them itself.
    state = await put(database, rows[70:], first=70)
    assert await found(vectors, state, rows[0]) is None
    clock.forward(SMALL.look_again)
    await vectors.arranged()
    assert are_nearest(await found(vectors, state, rows[80]), rows, rows[80])


async def test_two_gateways_index_one_store_together(database: Database, url: str, clock: Clock) -> None:
    rows = clustered(200)
    states = {}
    async with (
        open_store(url, clock) as other,
        vectors_in(database) as here,
        vectors_in(other.files.database) as there,
    ):

        async def add(to: Database, vectors: DatabaseVectors, first: int) -> None:
            for at in range(first, len(rows), 2):
                put_vector = await vectors.put_vector()
                states[to] = await put(to, rows[at : at + 1], first=at, file=str, put_vector=put_vector)
                if at % 20 == first:
                    clock.forward(SMALL.try_again)
                    await vectors.arranged()

        await asyncio.gather(add(database, here, 0), add(other.files.database, there, 1))
        clock.forward(SMALL.try_again)
        await here.arranged()
        await here.arranged()
        places = {id: int(file) for id, file in await sql(url, "SELECT id, file FROM chunks")}
        state = max(states.values(), key=lambda state: state.additions)
        for vectors in (here, there):
            clock.forward(SMALL.look_again)
            for query in rows[::40]:
                ranked = await vectors.nearest("vs_1", "m", state, query[numpy.newaxis], 5, None)
                assert ranked is not None
                assert are_nearest([places[near.id // MOST_WINDOWS] for near in ranked[0]], rows, query)
    assert await sql(url, "SELECT count(*) FROM chunk_windows WHERE embedding IS NOT NULL") == [(len(rows),)]
    assert len(await hnsw_indexes(url)) == 1


FILL = """
import asyncio, sys
from antiphon.files.vector_stores.search.database_vectors import DatabaseVectorOptions, DatabaseVectors
from antiphon.store import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        await DatabaseVectors(store.files.database, memory=2**23, options=DatabaseVectorOptions(filled=1)).arranged()

asyncio.run(main())
"""


async def test_what_a_killed_gateway_has_left_is_filled_by_another(
    database: Database, vectors: DatabaseVectors, url: str
) -> None:
    rows = clustered(2_000)
    made = [NewChunk(at, "", [], "", [vector_to_bytes(row)]) for at, row in enumerate(rows)]
    await database.write(chunks.add("vs_1", "file-1", made, "m"))
    state = (await database.read(chunks.states(["vs_1"])))["vs_1"]
    await database.maintain(pgvector.create())
    left = "SELECT count(*) FROM chunk_windows WHERE embedding IS NULL"
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", FILL, url)
    async with asyncio.timeout(60):
        while await sql(url, left) == [(len(rows),)]:
            pass
    killed.kill()
    await killed.wait()
    ((number,),) = await sql(url, left)
    assert 0 < number < len(rows)
    await vectors.arranged()
    assert await sql(url, left) == [(0,)]
    assert are_nearest(await found(vectors, state, rows[7]), rows, rows[7])


async def test_two_gateways_make_it_together(database: Database, url: str, clock: Clock) -> None:
    rows = clustered(300)
    state = await put(database, rows)
    async with (
        open_store(url, clock) as other,
        vectors_in(database) as here,
        vectors_in(other.files.database) as there,
    ):
        for _ in range(20):
            await asyncio.gather(here.arranged(), there.arranged())
            clock.forward(SMALL.try_again)
        for vectors in (here, there):
            assert are_nearest(await found(vectors, state, rows[9]), rows, rows[9])
    assert len(await hnsw_indexes(url)) == 1


async def test_an_index_that_was_interrupted_is_made_anew(
    database: Database, vectors: DatabaseVectors, url: str, clock: Clock
) -> None:
    rows = clustered(100)
    state = await put(database, rows)
    await vectors.arranged()
    (name,) = await hnsw_indexes(url)
    # As an interrupted CREATE INDEX CONCURRENTLY leaves it.
    for index in (name, "chunk_windows_not_embedded"):
        await sql(url, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::regclass", f"antiphon_files.{index}")
    clock.forward(SMALL.look_again)
    assert await found(vectors, state, rows[0]) is None
    await vectors.arranged()
    assert are_nearest(await found(vectors, state, rows[0]), rows, rows[0])
    assert await hnsw_indexes(url) == [name]
    assert await sql(url, "SELECT count(*) FROM pg_index WHERE NOT indisvalid") == [(0,)]


async def test_another_model_takes_over_while_all_is_found(database: Database, url: str, clock: Clock) -> None:
    """Of another width, and with an index of its own."""
    old, new = (WideEmbedder("old", 8), WideEmbedder("new", 24))
    names = [f"{subject} {number}" for number in range(30) for subject in ("cat", "bank")]
    async with vectors_in(database) as vectors:
        before = ChunkIndex(database, old, in_database=vectors)
        for number, name in enumerate(names):
            await before.add("vs_1", f"file-{number}", [name])
        await vectors.arranged()
        assert await hnsw_indexes(url) == [pgvector.index_of_model("chunk_windows", "old", 8)]
        after = ChunkIndex(database, new, embedder_of={"old": old}.get, embeds_again=True, in_database=vectors)
        steps = 0
        while await after.embed_later():
            steps += 1
            found = await after.search(["vs_1"], ["feline"], Wanted(most=60, text_weight=0, threshold=0.9))
            assert {each.text for each in found} == {name for name in names if name.startswith("cat")}
        assert steps == 3
        clock.forward(SMALL.look_again)
        await vectors.arranged()
        assert await hnsw_indexes(url) == [pgvector.index_of_model("chunk_windows", "new", 24)]
        assert await sql(url, "SELECT model, count(*) FROM chunk_windows GROUP BY model") == [("new", 60)]


async def test_files_that_are_removed_are_not_found(database: Database, url: str) -> None:
    embedder = WideEmbedder("m", 8)
    async with vectors_in(database) as vectors:
        index = ChunkIndex(database, embedder, in_database=vectors)
        for number in range(60):
            await index.add("vs_1", f"file-{number}", [f"cat {number}"])
        await index.add("vs_2", "file-0", ["cat of another store"])
        await vectors.arranged()
        assert len(await hnsw_indexes(url)) == 1
        for number in range(55):
            await index.remove("vs_1", f"file-{number}")
        wanted = Wanted(most=60, text_weight=0)
        assert {each.file for each in await index.search(["vs_1"], ["feline"], wanted)} == {f"file-{n}" for n in range(55, 60)}
        await index.remove_store("vs_1")
        assert await index.search(["vs_1"], ["feline"], wanted) == []
        assert [each.text for each in await index.search(["vs_1", "vs_2"], ["feline"], wanted)] == ["cat of another store"]


async def test_vectors_whose_values_cannot_be_written_in_time_are_added_without(store: Store, url: str, clock: Clock) -> None:
    """As where a large index takes long for each."""
    vectors = DatabaseVectors(store.files.database, memory=2**23, options=SMALL)
    index = ChunkIndex(store.files.database, SubjectEmbedder(), in_database=vectors)
    await index.add("vs_1", "file-1", ["a cat"])
    await vectors.arranged()
    failing = "CHECK (embedding IS NULL OR id <= 1)"
    await sql(url, f"ALTER TABLE chunk_windows ADD CONSTRAINT slow {failing}")
    with pytest.raises(StoreUnavailable):
        await index.add("vs_1", "file-2", ["a kitten"])
    await index.add("vs_1", "file-2", ["a kitten"])
    assert len(await index.search(["vs_1"], ["feline"], MEANING)) == 2
    clock.forward(SMALL.look_again)
    for filled in (3, 1, 1):
        await vectors.arranged()
        assert vectors._filled == filled
        clock.forward(SMALL.try_again)
    await sql(url, "ALTER TABLE chunk_windows DROP CONSTRAINT slow")
    await vectors.arranged()
    assert await sql(url, "SELECT count(*) FROM chunk_windows WHERE embedding IS NULL") == [(0,)]
    assert len(await index.search(["vs_1"], ["feline"], MEANING)) == 2
    await index.close()


NO_SHARED_MEMORY = """
CREATE FUNCTION antiphon_files.no_shared_memory() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('max_parallel_maintenance_workers') <> '0' THEN
        RAISE EXCEPTION 'could not resize shared memory segment';
    END IF;
END $$
"""


async def test_an_index_that_several_processes_have_no_memory_for_is_made_by_one(
    database: Database, vectors: DatabaseVectors, url: str
) -> None:
    """As in a container."""
    rows = clustered(100)
    state = await put(database, rows)
    await database.maintain(pgvector.create())
    await sql(url, NO_SHARED_MEMORY)
    trigger = "ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION antiphon_files.no_shared_memory()"
    # It ends with its function.
    await sql(url, f"CREATE EVENT TRIGGER no_shared_memory {trigger}")
    await vectors.arranged()
    assert len(await hnsw_indexes(url)) == 1
    assert are_nearest(await found(vectors, state, rows[0]), rows, rows[0])


async def test_an_extension_that_is_dropped_is_missed_by_no_search(store: Store, url: str, clock: Clock) -> None:
    embedder = SubjectEmbedder()
    vectors = DatabaseVectors(store.files.database, memory=2**23, options=SMALL)
    index = ChunkIndex(store.files.database, embedder, in_database=vectors)
    await index.add("vs_1", "file-1", ["a cat"])
    await vectors.arranged()
    await index.add("vs_1", "file-2", ["a kitten"])
    assert len(await index.search(["vs_1"], ["feline"], MEANING)) == 2
    await sql(url, "DROP EXTENSION vector CASCADE")
    assert len(await index.search(["vs_1"], ["feline"], MEANING)) == 2
    await index.add("vs_1", "file-3", ["a feline"])
    assert len(await index.search(["vs_1"], ["kitten"], MEANING)) == 3
    clock.forward(SMALL.look_again)
    await vectors.arranged()
    assert (await store.files.database.read(pgvector.look())).is_ready
    assert len(await index.search(["vs_1"], ["kitten"], MEANING)) == 3
    await index.close()


async def test_a_write_that_the_extension_is_missing_for_fails_once(store: Store, url: str) -> None:
    """The indexer tries it again."""
    vectors = DatabaseVectors(store.files.database, memory=2**23, options=SMALL)
    index = ChunkIndex(store.files.database, SubjectEmbedder(), in_database=vectors)
    await index.add("vs_1", "file-1", ["a cat"])
    await vectors.arranged()
    await index.add("vs_1", "file-1", ["a dog"], first=1)
    await sql(url, "DROP EXTENSION vector CASCADE")
    with pytest.raises(StoreUnavailable):
        await index.add("vs_1", "file-1", ["a kitten"], first=2)
    await index.add("vs_1", "file-1", ["a kitten"], first=2)
    assert len(await index.search(["vs_1"], ["feline"], MEANING)) == 3
    await index.close()


async def test_a_user_who_may_not_create_the_extension_searches_as_without_it(
    database: Database, vectors: DatabaseVectors, url: str, clock: Clock
) -> None:
    rows = clustered(60)
    state = await put(database, rows)
    name = url.rpartition("/")[2].partition("?")[0]
    await sql(url, f"DROP ROLE IF EXISTS plain_{name}")
    await sql(url, f"CREATE ROLE plain_{name} LOGIN")
    for schema in ("antiphon", "antiphon_files"):
        await sql(url, f"GRANT USAGE ON SCHEMA {schema} TO plain_{name}")
        await sql(url, f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO plain_{name}")
    async with (
        open_store(url.replace("antiphon@", f"plain_{name}@"), clock) as store,
        vectors_in(store.files.database) as others,
    ):
        await others.arranged()
        assert await found(others, state, rows[0]) is None
        # Another one creates it: then it is used without a restart.
        await vectors.arranged()
        clock.forward(SMALL.try_again)
        for each in (vectors, others):
            assert are_nearest(await found(each, state, rows[0]), rows, rows[0])
    await sql(url, f"DROP OWNED BY plain_{name}")
