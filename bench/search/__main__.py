"""Measures how well a search finds, and writes a table of docs/file_search.md.

`PYTHONPATH=tests python -m bench.search --model FILE --write`, where FILE is all-MiniLM-L6-v2: a gateway downloads it into
`models/` of its cache. `--engine URL` adds rows with queries that the default model of that engine has written, and with its
order of the passages: short answers, in the time that a gateway gives them. The log says where there was none.

Where the model is on another machine, `--record FILE` writes the requests that it has to answer, and `--answers FILE` uses the
answers: see `bench.search.answers`. A row for which an answer is missing is left out.
"""

import argparse
import asyncio
import hashlib
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy
from support.gateway import running_gateway

from antiphon.files.vector_stores.chunking import pieces
from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.embeddings import Embedder, WordVectors
from antiphon.files.vector_stores.search.found import Piece, Wanted
from antiphon.files.vector_stores.search.sentence_vectors import SentenceVectors
from antiphon.files.vector_stores.vector_stores import MOST_JUDGED
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.runs.short_answers import ModelJudge, QueryRewriter
from antiphon.store import open_store
from antiphon.store.files.records import Chunking
from bench.retrieval import PAGE, rewritten
from bench.search.answers import read_answers
from bench.search.corpora import CACHE, CORPORA, Corpus, Question
from bench.search.recorded import recorded_engine

if TYPE_CHECKING:
    from antiphon.files.vector_stores.search.embeddings import Vectors

STORE, OWNER = "vs_1", "bench"
DEPTH = 10
# The names of documents that a way finds for a question, as its first results.
Way = Callable[[Question], Awaitable[list[str]]]


class CachedEmbedder:
    """Vectors of a corpus are made once."""

    def __init__(self, embedder: Embedder) -> None:
        self.model = embedder.model
        self.words_weight = embedder.words_weight
        self._embedder = embedder
        CACHE.mkdir(parents=True, exist_ok=True)
        self._cache = sqlite3.connect(CACHE / f"{embedder.model}.vectors", isolation_level=None)
        # What is lost is made again.
        self._cache.execute("PRAGMA synchronous = OFF")
        self._cache.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB)")

    async def windows(self, pieces: Sequence[Piece]) -> list[list[str]]:
        return await self._embedder.windows(pieces)

    async def embed(self, texts: Sequence[str], *, query: bool) -> "Vectors | None":
        return numpy.concatenate([await self._embed(text, query=query) for text in texts])

    async def _embed(self, text: str, *, query: bool) -> "Vectors":
        key = hashlib.sha256(f"{query} {text}".encode()).digest()
        row = self._cache.execute("SELECT vector FROM vectors WHERE text = ?", (key,)).fetchone()
        if row is not None:
            return numpy.frombuffer(row[0], numpy.float32)[numpy.newaxis]
        made = await self._embedder.embed([text], query=query)
        assert made is not None
        self._cache.execute("INSERT OR IGNORE INTO vectors VALUES (?, ?)", (key, made.astype(numpy.float32).tobytes()))
        return made


@asynccontextmanager
async def filled_index(corpus: Corpus, embedder: Embedder | None) -> AsyncIterator[ChunkIndex]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"sqlite:{folder}/responses.db") as store:
            index = ChunkIndex(store.files.database, embedder)
            for name, text in corpus.documents().items():
                await index.add(STORE, name, await asyncio.to_thread(pieces, text, Chunking()))
            yield index
            await index.close()


def way(index: ChunkIndex, wanted: Wanted) -> Way:
    async def found(question: Question) -> list[str]:
        return [each.file for each in await index.search([STORE], [question.text], wanted)]

    return found


def rewritten_way(index: ChunkIndex, rewriter: QueryRewriter) -> Way:
    """With the queries that the model makes of a question."""

    async def found(question: Question) -> list[str]:
        queries = await rewriter.rewrite(OWNER, [question.text]) or [question.text]
        return [each.file for each in await index.search([STORE], queries, Wanted(most=DEPTH))]

    return found


def judged_way(index: ChunkIndex, judge: ModelJudge, rewriter: QueryRewriter | None = None) -> Way:
    """In the order of the model; with its queries, too, if there is a rewriter."""

    async def found(question: Question) -> list[str]:
        asked = [question.text]
        queries = asked if rewriter is None else await rewriter.rewrite(OWNER, asked) or asked
        passages = await index.search([STORE], queries, Wanted(most=MOST_JUDGED))
        order = await judge.order(OWNER, queries, [each.text for each in passages])
        return [passages[place].file for place in order][:DEPTH]

    return found


def plain_fts5(corpus: Corpus) -> Way:
    """SQLite's own BM25 over the same chunks, with its English stemmer."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE chunks USING fts5 (file UNINDEXED, text, tokenize = 'porter unicode61')")
    for name, text in corpus.documents().items():
        database.executemany("INSERT INTO chunks VALUES (?, ?)", [(name, piece.text) for piece in pieces(text, Chunking())])

    async def found(question: Question) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in "".join(c if c.isalnum() else " " for c in question.text).split())
        rows = database.execute("SELECT file FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?", (words, DEPTH))
        return [row[0] for row in rows]

    return found


class Score(NamedTuple):
    """The share of questions whose document is among the first results; and the mean of 1 / its place."""

    at_5: float
    at_10: float
    mrr: float


async def score(way: Way, asked: Sequence[Question]) -> Score:
    places = []
    for question in asked:
        found = await way(question)
        places.append(found.index(question.document) + 1 if question.document in found else 0)
    number = len(places)
    return Score(
        sum(0 < place <= 5 for place in places) / number,
        sum(0 < place <= 10 for place in places) / number,
        sum(1 / place for place in places if place) / number,
    )


HEAD = "| corpus | search | own words: @5 | @10 | MRR | other words: @5 | @10 | MRR |\n| --- | --- |" + " --- |" * 6


class Model(NamedTuple):
    """The model that writes queries and orders passages, and how many requests have had no answer up to now."""

    gateway: Gateway
    missed: Callable[[], int]


async def rows(corpus: Corpus, embedders: Sequence[Embedder], model: Model | None) -> AsyncIterator[str]:
    yield await row(corpus, "FTS5", plain_fts5(corpus))
    for embedder in embedders:
        async with filled_index(corpus, embedder) as index:
            if embedder is embedders[0]:
                yield await row(corpus, "words", way(index, Wanted(most=DEPTH, embedding_weight=0)))
            yield await row(corpus, f"{embedder.model}", way(index, Wanted(most=DEPTH, text_weight=0)))
            both = f"words and {embedder.model}"
            yield await row(corpus, both, way(index, Wanted(most=DEPTH)))
            if model is not None and embedder is embedders[-1]:
                for what, found in model_ways(index, model.gateway).items():
                    before = model.missed()
                    measured = await row(corpus, f"{both}, {what}", found)
                    if model.missed() == before:
                        yield measured


def model_ways(index: ChunkIndex, gateway: Gateway) -> dict[str, Way]:
    rewriter, judge = QueryRewriter(gateway), ModelJudge(gateway)
    return {
        "queries by the model": rewritten_way(index, rewriter),
        "ordered by the model": judged_way(index, judge),
        "both by the model": judged_way(index, judge, rewriter),
    }


async def row(corpus: Corpus, name: str, way: Way) -> str:
    kinds = [[each for each in corpus.questions() if each.kind == kind] for kind in ("own", "other")]
    figures = [f"{value:.2f}" for asked in kinds for value in await score(way, asked)]
    return f"| {corpus.name} | {name} | {' | '.join(figures)} |"


@asynccontextmanager
async def answering(chosen: argparse.Namespace) -> AsyncIterator[Model | None]:
    async with AsyncExitStack() as opened:
        if chosen.engine is not None:
            yield Model((await opened.enter_async_context(running_gateway(chosen.engine))).gateway, lambda: 0)
        elif chosen.answers or chosen.record is not None:
            answers = read_answers(chosen.answers or [])
            engine = await opened.enter_async_context(recorded_engine(answers, chosen.record))
            gateway = (await opened.enter_async_context(running_gateway(engine.url))).gateway
            yield Model(gateway, lambda: engine.missed)
            print(f"{engine.missed} requests had no answer")
        else:
            yield None


async def run(chosen: argparse.Namespace) -> str:
    embedders: list[Embedder] = [CachedEmbedder(WordVectors())]
    embedders += [CachedEmbedder(SentenceVectors(chosen.model))] if chosen.model is not None else []
    lines = [HEAD]
    print(HEAD)
    async with answering(chosen) as model:
        for name in chosen.corpus or CORPORA:
            async for each in rows(CORPORA[name], embedders, model):
                print(each, flush=True)
                lines.append(each)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures how well a search finds.")
    parser.add_argument("--corpus", choices=list(CORPORA), action="append", help="only this one")
    parser.add_argument("--model", type=Path, help="the file of all-MiniLM-L6-v2")
    parser.add_argument("--engine", metavar="URL", help="an engine whose default model writes queries and orders passages")
    parser.add_argument("--answers", metavar="FILE", type=Path, action="append", help="its answers, where it is not here")
    parser.add_argument("--record", metavar="FILE", type=Path, help="write the requests that have no answer yet")
    parser.add_argument("--write", action="store_true", help="write the table into docs/file_search.md")
    chosen = parser.parse_args()
    table = asyncio.run(run(chosen))
    if chosen.write:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), "quality", table), encoding="utf-8")


if __name__ == "__main__":
    main()
