"""Databases of generated vectors, in a folder that stays: built once, perhaps in several goes, and searched afterwards.

The vectors are in clusters, a file each. So what a filter lets through is mostly far from the query, which is the hardest for
an index. What a search needs of the exact answers is stored, too: to find them takes longer than all that is measured.
"""

import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
import numpy
from msgspec import Struct
from support.postgres import OPTIONS, PostgresServer, programs_with_pgvector

from antiphon.errors import StoreUnavailable
from antiphon.files.vector_stores.search.chunk_index import DEPTH, WINDOWS_OF_CHUNK
from antiphon.files.vector_stores.search.database_vectors import DatabaseVectorOptions, DatabaseVectors
from antiphon.files.vector_stores.search.embeddings import normalized
from antiphon.files.vector_stores.search.vector_cache import Cached, Searchable, VectorCache
from antiphon.files.vector_stores.search.vectors import (
    ADDED_AT_ONCE,
    ApproximateIndex,
    Floats,
    Near,
    Numbers,
    VectorTable,
    joined,
    rows_beside,
    vector_to_bytes,
)
from antiphon.store import open_store
from antiphon.store.files import chunks, pgvector
from antiphon.store.files.chunks import NewChunk, StoreState
from antiphon.store.operations import Database, Operation, PostgresOnly, Statement
from bench.processes import TICKS_PER_SECOND, BenchFailed

STORE, MODEL = "vs_1", "generated"
# As the default model makes them.
WIDTH = 384
CLUSTERS = 200
# Of the vectors of a cluster around its middle, whose numbers have a deviation of 1.
DEVIATION = 0.7
QUERIES = 50
# What one search asks for, and how many of them it may show.
ASKED, SHOWN = WINDOWS_OF_CHUNK * DEPTH, 10
# Of one file; and so many of these are written in one transaction.
WRITTEN_AT_ONCE = 100
IN_TRANSACTION = 2
# So many are written between two reports.
REPORTED = 20_000
ATTEMPTS = 20
# How many are added to the index of the gateway before it is stored, so that little is lost if the process ends.
INDEXED_AT_ONCE = 25 * ADDED_AT_ONCE
MEMORY = 4 * 2**30
# A server that has a machine to itself. In these databases nothing is written that could not be written again.
POSTGRES_OPTIONS = ("shared_buffers=2GB", "max_wal_size=8GB", "wal_level=minimal", "max_wal_senders=0")
SHARES = {"none": None, "leaves half": 0.5, "leaves a fifth": 0.2, "leaves 1 %": 0.01}

# The nearest to a query, in some files or in all.
Search = Callable[[Floats, Collection[str] | None], Awaitable[list[Near]]]
# By the names of the filters: the places of the vectors nearest to each query, the best first.
Exact: TypeAlias = Mapping[str, Numbers]


class Costs(Struct):
    """Seconds of CPU time, of all processes: they do not depend on what else the machine does."""

    written: float = 0.0
    indexed: float = 0.0


class Built(Struct, frozen=True):
    name: str
    exact: Exact
    costs: Costs
    # Of the vectors and of the index, in memory or on disk.
    vectors_bytes: int
    index_bytes: int
    search: Search


# ---- what is written -------------------------------------------------------------------------------------------------


def generated(number: int) -> Iterator[tuple[str, Floats]]:
    """Vectors with the file that each is in, some at a time."""
    chance = numpy.random.default_rng(0)
    centers = chance.standard_normal((CLUSTERS, WIDTH))
    for at in range(0, number, WRITTEN_AT_ONCE):
        cluster = at // WRITTEN_AT_ONCE % CLUSTERS
        rows = centers[cluster] + DEVIATION * chance.standard_normal((min(WRITTEN_AT_ONCE, number - at), WIDTH))
        yield f"file-{cluster}", normalized(rows)


def queries() -> Floats:
    """Each near a cluster."""
    centers = numpy.random.default_rng(0).standard_normal((CLUSTERS, WIDTH))
    chance = numpy.random.default_rng(1)
    near = chance.integers(0, CLUSTERS, QUERIES)
    return normalized(centers[near] + DEVIATION * chance.standard_normal((QUERIES, WIDTH)))


def files_of(share: float | None) -> set[str] | None:
    return None if share is None else {f"file-{number}" for number in range(round(share * CLUSTERS))}


async def write(database: Database, number: int, put_vector: str, wrote: Callable[[], None]) -> StoreState:
    """Those that are not there yet. `wrote` is called now and then."""
    there = await _state(database)
    parts = islice(generated(number), -(-there.chunks // WRITTEN_AT_ONCE), None)
    first = there.chunks
    while some := list(islice(parts, IN_TRANSACTION)):
        await _written(database, partial(_add, first, some, put_vector))
        first += sum(len(vectors) for _, vectors in some)
        if first % REPORTED == 0 or first == number:
            wrote()
            print(f"{first:,} of {number:,} written", flush=True)
    return await _state(database)


async def _written(database: Database, operation: Callable[[], Operation[None]]) -> None:
    """A machine that does other things may take longer than a gateway waits. What is there already is not added again."""
    for _ in range(ATTEMPTS):
        try:
            return await database.write(operation())
        except StoreUnavailable:
            print("not written in time: tried again", flush=True)
    raise StoreUnavailable


def _add(first: int, parts: Sequence[tuple[str, Floats]], put_vector: str) -> Operation[None]:
    for file, vectors in parts:
        data = [vector_to_bytes(vector) for vector in vectors]
        new = [NewChunk(first + at, "", [], "", [each]) for at, each in enumerate(data)]
        yield from chunks.add(STORE, file, new, MODEL, put_vector)
        first += len(vectors)


async def _state(database: Database) -> StoreState:
    return (await database.read(chunks.states([STORE]))).get(STORE, StoreState())


async def read_table(database: Database) -> VectorTable:
    names: dict[str, int] = {}
    parts, after = [], 0
    while page := await database.read(chunks.vectors(STORE, MODEL, after)):
        parts.append(VectorTable.of_rows(page, names))
        after = page[-1].id
    return joined(parts)


def exact_answers(table: VectorTable) -> dict[str, Numbers]:
    return {
        name: numpy.array([[near.id for near in found] for found in table.nearest(queries(), ASKED, files_of(share))])
        for name, share in SHARES.items()
    }


async def exact_in(folder: Path, database: Database) -> Exact:
    """The exact answers, which are stored beside the database when they have been found."""
    path = folder / "exact.npz"
    if (stored := _read_exact(path)) is not None:
        return stored
    print("finding the exact answers", flush=True)
    found = exact_answers(await read_table(database))
    with _replacing(path) as written:
        numpy.savez(written, **cast(Any, found))
    return found


def _read_exact(path: Path) -> Exact | None:
    if not path.exists():
        return None
    with numpy.load(path) as file:
        return dict(file)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """What is killed meanwhile leaves the earlier file."""
    written = path.with_name(f"new-{path.name}")
    yield written
    written.replace(path)


class Clock:
    """Adds the CPU time of what is built to what earlier goes took."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "costs.json"
        self.costs = msgspec.json.decode(self._path.read_bytes(), type=Costs) if self._path.exists() else Costs()
        self._at = _cpu_seconds(os.getpid())

    def _lap(self) -> float:
        before, self._at = self._at, _cpu_seconds(os.getpid())
        return self._at - before

    def begin(self) -> None:
        self._lap()

    def wrote(self) -> None:
        self.costs.written += self._lap()
        self._keep()

    def indexed(self) -> None:
        self.costs.indexed += self._lap()
        self._keep()

    def _keep(self) -> None:
        with _replacing(self._path) as written:
            written.write_bytes(msgspec.json.encode(self.costs))


# ---- the databases ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def in_sqlite(folder: Path, number: int) -> AsyncIterator[Built]:
    """With the index of the gateway, also of fewer vectors than it usually indexes. A gateway makes it anew after each start;
    here it is stored."""
    folder = folder / f"sqlite-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    async with open_store(f"sqlite:{folder}/responses.db") as store:
        database = store.files.database
        clock = Clock(folder)
        state = await write(database, number, chunks.PUT_VECTOR, clock.wrote)
        exact = await exact_in(folder, database)
        table = await read_table(database)
        index = _sqlite_index(folder, table, clock)
        cache = VectorCache(database, MEMORY)
        # As if the cache had read the vectors and made the index.
        key = STORE, MODEL
        cache._cached[key] = Cached(Searchable(table, index, rows_beside(table, index)), state)

        async def search(query: Floats, files: Collection[str] | None) -> list[Near]:
            (found,) = await cache.nearest(STORE, MODEL, state, query[numpy.newaxis], ASKED, files)
            return found

        yield Built("SQLite", exact, clock.costs, table.bytes, index.bytes, search)
        await cache.close()


def _sqlite_index(folder: Path, table: VectorTable, clock: Clock) -> ApproximateIndex:
    path = folder / "index.usearch"
    index = ApproximateIndex(WIDTH)
    if path.exists():
        index._index.load(path)
        # They were added in this order.
        index.ids = table.ids[: len(index._index)]
    clock.begin()
    while len(missing := rows_beside(table, index)):
        index.add(table, missing[:INDEXED_AT_ONCE], threading.Event())
        with _replacing(path) as written:
            index._index.save(written)
        clock.indexed()
        print(f"{len(index.ids):,} of {len(table):,} indexed", flush=True)
    return index


@asynccontextmanager
async def in_postgres(folder: Path, number: int) -> AsyncIterator[Built]:
    """With pgvector."""
    folder = folder / f"pgvector-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    with running_postgres(folder / "data") as url:
        async with open_store(url) as store:
            database = store.files.database
            await database.maintain(pgvector.create())
            vectors = DatabaseVectors(database, memory=MEMORY)
            clock = Clock(folder)
            state = await write(database, number, await vectors.put_vector(), clock.wrote)
            clock.begin()
            await vectors.arranged()
            sizes = await database.read(_sizes())
            if not sizes[1] and number >= DatabaseVectorOptions().indexed:
                raise BenchFailed("pgvector's index could not be made. The log says why")
            clock.indexed()
            exact = await exact_in(folder, database)

            async def search(query: Floats, files: Collection[str] | None) -> list[Near]:
                found = await vectors.nearest(STORE, MODEL, state, query[numpy.newaxis], ASKED, files)
                assert found is not None, "pgvector was not used"
                return found[0]

            yield Built("Postgres with pgvector", exact, clock.costs, *sizes, search)
            await vectors.close()


def _sizes() -> Operation[tuple[int, int]]:
    """Of the table of vectors, and of their index."""
    table = yield Statement(PostgresOnly("SELECT pg_relation_size('chunk_windows')"))
    index = yield Statement(
        PostgresOnly(
            "SELECT COALESCE(sum(pg_relation_size(indexrelid)), 0)::bigint FROM pg_stat_user_indexes WHERE indexrelname = $1"
        ),
        (pgvector.index_of_model("chunk_windows", MODEL, WIDTH),),
    )
    return table[0][0], index[0][0]


@contextmanager
def running_postgres(data: Path) -> Iterator[str]:
    """The URL of its database."""
    server = PostgresServer(programs_with_pgvector(), data, [*OPTIONS, *POSTGRES_OPTIONS])
    try:
        if is_new := not (data / "PG_VERSION").exists():
            server.create()
        server.start()
        if is_new:
            server.create_database(STORE)
        yield server.url_of(STORE)
        # It stores all that it has in memory, so that the next start is as fast as this one.
        server.stop(signal.SIGINT)
    finally:
        server.remove()


def _cpu_seconds(pid: int) -> float:
    """Of a process and its descendants, also of those that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return 0.0
    # Its own in the program and in the system, and those of its children that have ended.
    ticks = sum(int(each) for each in stat.rpartition(")")[2].split()[11:15])
    return ticks / TICKS_PER_SECOND + sum(_cpu_seconds(int(child)) for child in children)
