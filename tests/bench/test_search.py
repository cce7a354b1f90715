"""What the ways find that the script compares which measures the search."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.engine import OWN_FIELDS, MockEngine, Refusal, objection, text
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.embeddings import WordVectors
from antiphon.files.vector_stores.search.found import Wanted
from antiphon.gateway.runs.short_answers import ModelJudge, QueryRewriter
from antiphon.store import open_store
from bench.search.__main__ import STORE, Model, Score, judged_way, model_ways, rewritten_way, rows, score, way
from bench.search.answers import answer_all, read_answers, read_lines, request_line
from bench.search.corpora import Corpus, Question, digest
from bench.search.recorded import recorded_engine

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


async def test_a_model_on_another_machine_answers_what_was_recorded(
    index: ChunkIndex, engine: MockEngine, tmp_path: Path
) -> None:
    question = Question("What sleeps all the day?", "trees.txt", "own")
    requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    # They are written for llama-server.
    engine.objects_to = lambda body: objection(body, own_fields=OWN_FIELDS["llamacpp"])

    async def places(record: Path | None) -> tuple[list[str], int]:
        async with (
            recorded_engine(read_answers([answers]), record) as recorded,
            running_gateway(recorded.url) as gateway,
        ):
            found = model_ways(index, gateway.gateway)["both by the model"]
            return await found(question), recorded.missed

    assert await places(requests) == (["cats.txt", "trees.txt"], 2)
    asked = [line["body"]["messages"][-1]["content"] for line in read_lines(requests)]
    assert [text.startswith("Question: ") for text in asked] == [False, True]
    engine.will(text('{"queries": ["oak"]}'), text('{"best": [1]}'))
    assert await answer_all(engine.url, requests, answers, concurrency=1) == 0
    # The queries of the model find other passages, about which it has not been asked yet.
    assert (await places(requests))[1] == 1
    engine.will(text('{"best": [2]}'))
    assert await answer_all(engine.url, requests, answers, concurrency=1) == 0
    assert await places(None) == (["cats.txt", "trees.txt"], 0)
    before = len(engine.requests)
    assert await answer_all(engine.url, requests, answers, concurrency=1) == 0
    assert len(engine.requests) == before, "what has an answer is not asked again"


async def test_what_an_engine_refuses_is_asked_again_later(engine: MockEngine, tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    requests.write_text(request_line({"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}) + "\n")
    engine.will(Refusal(503, {"error": {"message": "Loading model"}}))
    assert await answer_all(engine.url, requests, answers, concurrency=1) == 1
    assert read_answers([answers]) == {}
    assert await answer_all(engine.url, requests, answers, concurrency=1) == 0
    assert [answer.status for answer in read_answers([answers]).values()] == [200]


async def test_a_row_without_all_of_its_answers_is_left_out(gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus("cats", "", "", digest(TEXTS), lambda folder: iter(TEXTS.items()))
    asked = [Question("What sleeps?", "cats.txt", kind) for kind in ("own", "other")]
    monkeypatch.setattr(Corpus, "documents", lambda self: TEXTS)
    monkeypatch.setattr(Corpus, "questions", lambda self: asked)
    ways: list[tuple[Iterator[int], int]] = [(itertools.count(), 0), (itertools.repeat(0), 3)]
    for missed, expected in ways:
        model = Model(gateway.gateway, missed.__next__)
        measured = [each async for each in rows(corpus, [WordVectors()], model)]
        assert sum("by the model" in each for each in measured) == expected
