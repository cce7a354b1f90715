"""Measures how much of what an exact search finds the indexes of vectors find, and writes a table of docs/file_search.md.

`PYTHONPATH=tests python -m bench.search.vectors --write`, with `--chunks 1000000` for a million. The vectors are generated: in
clusters, a file each. So what a filter lets through is mostly far from the query, which is the hardest for an index.
`--times` adds how long it takes, on a machine that does nothing else.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import numpy
from msgspec import Struct
from support.postgres import PostgresServer, programs_with_pgvector

from antiphon.files.vector_stores.search.chunk_index import DEPTH, WINDOWS_OF_CHUNK
from antiphon.files.vector_stores.search.database_vectors import DatabaseVectors
from antiphon.files.vector_stores.search.embeddings import normalized
from antiphon.files.vector_stores.search.vector_cache import VectorCache
from antiphon.files.vector_stores.search.vectors import Floats, Near, VectorTable, vector_to_bytes
from antiphon.store import open_store
from antiphon.store.files import chunks, pgvector
from antiphon.store.files.chunks import MOST_WINDOWS, NewChunk, StoreState, VectorRow
from antiphon.store.operations import Database
from bench.retrieval import PAGE, rewritten

STORE, MODEL = "vs_1", "generated"
# As the default model makes them.
WIDTH = 384
CLUSTERS = 200
# Of the vectors of a cluster around its middle, whose numbers have a deviation of 1.
DEVIATION = 0.7
QUERIES = 50
# What one search asks for, and how many of them it may show.
ASKED, SHOWN = WINDOWS_OF_CHUNK * DEPTH, 10
WRITTEN_AT_ONCE = 100
MEMORY = 4 * 2**30
SHARES = {"none": None, "leaves half": 0.5, "leaves a fifth": 0.2, "leaves 1 %": 0.01}

# The nearest to a query, in some files or in all.
Search = Callable[[Floats, Collection[str] | None], Awaitable[list[Near]]]


class Recall(Struct, frozen=True):
    """The shares of what is found of what an exact search finds. Times in milliseconds."""

    of_shown: float
    of_asked: float
    p50: float
    p95: float


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


async def write(database: Database, number: int, put_vector: str) -> tuple[VectorTable, StoreState]:
    """With all of them in memory, for the exact search."""
    rows: list[VectorRow] = []
    for file, vectors in generated(number):
        data = [vector_to_bytes(vector) for vector in vectors]
        new = [NewChunk(len(rows) + at, "", [], "", [each]) for at, each in enumerate(data)]
        await database.write(chunks.add(STORE, file, new, MODEL, put_vector))
        rows += [VectorRow((len(rows) + at) * MOST_WINDOWS, file, each) for at, each in enumerate(data, 1)]
    table = await asyncio.to_thread(VectorTable.of_rows, rows)
    return table, (await database.read(chunks.states([STORE])))[STORE]


async def measure(search: Search, table: VectorTable, share: float | None) -> Recall:
    files = None if share is None else {f"file-{number}" for number in range(round(share * CLUSTERS))}
    shown, asked, durations = [], [], []
    for query in queries():
        (exact,) = table.nearest(query[numpy.newaxis], ASKED, files)
        begun = time.perf_counter()
        found = await search(query, files)
        durations.append(1000 * (time.perf_counter() - begun))
        shown.append(_share(exact[:SHOWN], found[:SHOWN]))
        asked.append(_share(exact, found))
    durations.sort()
    return Recall(sum(shown) / QUERIES, sum(asked) / QUERIES, durations[QUERIES // 2], durations[QUERIES * 95 // 100])


def _share(exact: Sequence[Near], found: Sequence[Near]) -> float:
    return len({near.id for near in exact} & {near.id for near in found}) / len(exact)


# ---- the databases ---------------------------------------------------------------------------------------------------


class Measured(Struct, frozen=True):
    """What is searched, how long its index took to build, in seconds, and its search."""

    name: str
    table: VectorTable
    built: float
    search: Search


@asynccontextmanager
async def in_sqlite(number: int) -> AsyncIterator[Measured]:
    """With the index of the gateway, also of fewer vectors than it usually indexes."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"sqlite:{folder}/responses.db") as store:
            database = store.files.database
            table, state = await write(database, number, chunks.PUT_VECTOR)
            cache = VectorCache(database, MEMORY, exact_rows=0)

            async def search(query: Floats, files: Collection[str] | None) -> list[Near]:
                (found,) = await cache.nearest(STORE, MODEL, state, query[numpy.newaxis], ASKED, files)
                return found

            begun = time.perf_counter()
            await search(queries()[0], None)
            building = cache._cached[STORE, MODEL].indexing
            assert building is not None, "usearch is not installed"
            await building
            yield Measured("SQLite", table, time.perf_counter() - begun, search)
            await cache.close()


@asynccontextmanager
async def in_postgres(number: int) -> AsyncIterator[Measured]:
    """With pgvector."""
    with running_postgres() as url:
        async with open_store(url) as store:
            database = store.files.database
            await database.maintain(pgvector.create())
            vectors = DatabaseVectors(database, memory=MEMORY)
            table, state = await write(database, number, await vectors.put_vector())
            begun = time.perf_counter()
            await vectors.arranged()

            async def search(query: Floats, files: Collection[str] | None) -> list[Near]:
                found = await vectors.nearest(STORE, MODEL, state, query[numpy.newaxis], ASKED, files)
                assert found is not None, "pgvector was not used"
                return found[0]

            yield Measured("Postgres with pgvector", table, time.perf_counter() - begun, search)
            await vectors.close()


@contextmanager
def running_postgres() -> Iterator[str]:
    server = PostgresServer(programs_with_pgvector())
    server.create()
    server.start()
    try:
        yield server.new_database()
    finally:
        server.remove()


# ---- the table -------------------------------------------------------------------------------------------------------


async def run(number: int, *, times: bool) -> str:
    columns = ["database", "chunks", "filter", f"the first {SHOWN}", f"all {ASKED}", *(["p50", "p95"] if times else [])]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    print("\n".join(lines))
    for opened in (in_sqlite(number), in_postgres(number)):
        async with opened as measured:
            if times:
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
                print(f"{measured.name}: built in {measured.built:.0f} s, the gateway has had {memory:.0f} MB at most")
            for name, share in SHARES.items():
                recall = await measure(measured.search, measured.table, share)
                cells = [measured.name, f"{number:,}", name, f"{recall.of_shown:.3f}", f"{recall.of_asked:.3f}"]
                cells += [f"{recall.p50:.0f} ms", f"{recall.p95:.0f} ms"] if times else []
                lines.append(f"| {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what the indexes of vectors find of what an exact search finds.")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--times", action="store_true", help="also how long it takes")
    parser.add_argument("--write", action="store_true", help="write the table into docs/file_search.md")
    chosen = parser.parse_args()
    table = asyncio.run(run(chosen.chunks, times=chosen.times))
    if chosen.write:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), "vectors", table), encoding="utf-8")


if __name__ == "__main__":
    main()
