"""How well a search of files finds, and how long it takes: `PYTHONPATH=tests python -m bench.retrieval`.

It rewrites the tables of docs/file_search.md. The documents and questions are those of tests/retrieval.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from retrieval.corpus import Question, documents, questions
from support.postgres import PostgresServer
from support.programs import Missing

from antiphon.files.vector_stores.chunking import chunks
from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.embeddings import WordVectors
from antiphon.files.vector_stores.search.found import Wanted
from antiphon.store import open_store
from antiphon.store.files.records import Chunking
from bench.page import machine

PAGE = Path(__file__).parents[1] / "docs" / "file_search.md"
STORE = "vs_1"
FOUND = 5
WAYS = {
    "words": Wanted(most=FOUND, embedding_weight=0),
    "embeddings (wordllama)": Wanted(most=FOUND, text_weight=0),
    "both": Wanted(most=FOUND),
}
KINDS = {"words": "in its words", "detail": "about a detail", "paraphrase": "in other words"}
# A chunk has about 800 tokens: twelve passages of forty words.
PASSAGES, WORDS = 12, 40
CHUNKS_IN_FILE = 1000
ROUNDS = 2


class Speed(msgspec.Struct):
    """Times in milliseconds, memory in megabytes."""

    chunks: int
    indexed: float
    p50: float
    p95: float
    filtered: float
    first: float
    memory: float
    base: float


# ---- how well --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def filled_index() -> AsyncIterator[ChunkIndex]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"sqlite:{folder}/responses.db") as store:
            index = ChunkIndex(store.files.database, WordVectors())
            for name, text in documents().items():
                await index.add(STORE, name, await asyncio.to_thread(chunks, text, Chunking()))
            yield index
            await index.close()


async def recall(index: ChunkIndex, wanted: Wanted, asked: Sequence[Question]) -> float:
    """The share of the questions whose document is among those that are found."""
    hits = 0
    for question in asked:
        found = await index.search([STORE], [question.text], wanted)
        hits += question.document in {each.file for each in found}
    return hits / len(asked)


async def recall_table() -> str:
    rows = ["| questions | number | " + " | ".join(WAYS) + " |", "| --- | --- |" + " --- |" * len(WAYS)]
    async with filled_index() as index:
        by_kind = {words: [each for each in questions() if each.kind == kind] for kind, words in KINDS.items()}
        for words, asked in {**by_kind, "all": questions()}.items():
            values = [await recall(index, wanted, asked) for wanted in WAYS.values()]
            rows.append(f"| {words} | {len(asked)} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return "\n".join(rows)


# ---- how fast --------------------------------------------------------------------------------------------------------


def made_text(random: random.Random, words: Sequence[str]) -> str:
    starts = [random.randrange(len(words) - WORDS) for _ in range(PASSAGES)]
    return " ".join(" ".join(words[start : start + WORDS]) for start in starts)


def memory() -> float:
    """Of this process, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


async def measure(url: str, number: int) -> Speed:
    words = " ".join(documents().values()).split()
    chance = random.Random(1)
    base = memory()
    async with open_store(url) as store:
        index = ChunkIndex(store.files.database, WordVectors())
        begun = time.perf_counter()
        for at in range(0, number, 100):
            texts = [made_text(chance, words) for _ in range(min(100, number - at))]
            await index.add(STORE, f"file-{at // CHUNKS_IN_FILE}", texts, first=at % CHUNKS_IN_FILE)
        indexed = 1000 * (time.perf_counter() - begun) / number
        await index.close()
        # As after a restart.
        index = ChunkIndex(store.files.database, WordVectors())
        first = (await times(index, Wanted(), questions()[:1]))[0]
        durations = await times(index, Wanted(), questions() * ROUNDS)
        tenth = frozenset((STORE, f"file-{each}") for each in range(0, 1 + number // CHUNKS_IN_FILE, 10))
        filtered = await times(index, Wanted(files=tenth), questions())
        used = memory()
        await index.close()
    p50, p95 = durations[len(durations) // 2], durations[len(durations) * 95 // 100]
    return Speed(number, indexed, p50, p95, filtered[len(filtered) // 2], first, used, base)


async def times(index: ChunkIndex, wanted: Wanted, asked: Sequence[Question]) -> list[float]:
    """In milliseconds, the shortest first."""
    durations = []
    for question in asked:
        begun = time.perf_counter()
        await index.search([STORE], [question.text], wanted)
        durations.append(1000 * (time.perf_counter() - begun))
    return sorted(durations)


def measured(url: str, number: int) -> Speed:
    """In a process of its own, whose memory is that of a search."""
    command = [sys.executable, "-m", "bench.retrieval", "--measure", url, "--chunks", str(number)]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Speed)


SPEED_HEAD = """\
| database | chunks | search p50 | p95 | in a tenth of the files, p50 | the first | indexing a chunk | memory | before |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def speed_table(number: int) -> str:
    rows = [SPEED_HEAD]
    with tempfile.TemporaryDirectory() as folder:
        rows.append(speed_row("SQLite", measured(f"sqlite:{folder}/responses.db", number)))
    try:
        server = PostgresServer()
    except Missing as reason:
        print(f"bench: without Postgres: {reason}", file=sys.stderr)
        return "\n".join(rows)
    try:
        server.create()
        server.start()
        rows.append(speed_row("Postgres", measured(server.new_database(), number)))
    finally:
        server.remove()
    return "\n".join(rows)


def speed_row(name: str, speed: Speed) -> str:
    spent = f"{speed.p50:.0f} ms | {speed.p95:.0f} ms | {speed.filtered:.0f} ms | {speed.first:.0f} ms"
    return f"| {name} | {speed.chunks:,} | {spent} | {speed.indexed:.1f} ms | {speed.memory:.0f} MB | {speed.base:.0f} MB |"


# ---- the page --------------------------------------------------------------------------------------------------------


def rewritten(page: str, part: str, table: str) -> str:
    """With another table between the marks of a part."""
    begin, end = f"<!-- measured: {part} -->\n", f"<!-- end of {part} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE} has no place for {part}: {begin.strip()} … {end}")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the search of files, and writes docs/file_search.md.")
    parser.add_argument("--chunks", type=int, default=100_000, help="how many are searched")
    parser.add_argument("--part", choices=("recall", "speed"), help="measure only this")
    parser.add_argument("--print", action="store_true", help="do not write the page")
    parser.add_argument("--measure", metavar="STORE", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(msgspec.json.encode(asyncio.run(measure(chosen.measure, chosen.chunks))).decode())
        return
    tables = {}
    if chosen.part != "speed":
        tables["recall"] = asyncio.run(recall_table())
    if chosen.part != "recall":
        tables["speed"] = f"On {machine()}:\n\n{speed_table(chosen.chunks)}"
    for part, table in tables.items():
        print(table)
        if not chosen.print:
            PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), part, table), encoding="utf-8")


if __name__ == "__main__":
    main()
