"""What the ways find that the script compares which measures the search."""

from collections.abc import AsyncIterator

import pytest_asyncio
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.found import Wanted
from antiphon.gateway.runs.short_answers import ModelJudge, QueryRewriter
from antiphon.store import open_store
from bench.search.__main__ import STORE, Score, judged_way, rewritten_way, score, way
from bench.search.corpora import Question

TEXTS = {
    "cats.txt": "The kitten sleeps all day.",
    "trees.txt": "An oak sleeps all winter and all night.",
    "bread.txt": "Yeast and flour and water.",
}


@pytest_asyncio.fixture
async def index() -> AsyncIterator[ChunkIndex]:
    async with open_store("memory:") as store:
        index = ChunkIndex(store.files.database)
        for name, content in TEXTS.items():
            await index.add(STORE, name, [content])
        yield index
        await index.close()


async def test_a_question_in_other_words_is_found_by_the_queries_of_the_model(
    index: ChunkIndex, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    question = Question("Which young animal rests?", "cats.txt", "other")
    assert await way(index, Wanted())(question) == []
    engine.otherwise = lambda body: text('{"queries": ["kitten"]}')
    assert await rewritten_way(index, QueryRewriter(gateway.gateway))(question) == ["cats.txt"]


async def test_passages_are_in_the_order_of_the_model(index: ChunkIndex, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    question = Question("What sleeps all the day?", "trees.txt", "own")
    assert await way(index, Wanted())(question) == ["cats.txt", "trees.txt"]
    engine.otherwise = lambda body: text('{"best": [2]}')
    judged = judged_way(index, ModelJudge(gateway.gateway))
    assert await judged(question) == ["trees.txt", "cats.txt"]
    assert await score(judged, [question]) == Score(1.0, 1.0, 1.0)
    assert await score(way(index, Wanted()), [question]) == Score(1.0, 1.0, 0.5)
