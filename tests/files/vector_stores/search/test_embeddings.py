"""Texts become vectors: by the model of an engine or another server, or by wordllama."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import numpy
import pytest
import pytest_asyncio
from support.embedding_server import EmbeddingEngine, running_embeddings

from antiphon.app.retrieval import EmbeddingModels, SentenceModel, check_embeddings
from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.named_models import ModelFile
from antiphon.engines.pool import Pool
from antiphon.engines.upstream import Engine
from antiphon.files.vector_stores.search.embeddings import (
    BATCH,
    REQUESTS,
    Embedder,
    NotEmbedded,
    WordVectors,
    answer_to_vectors,
    normalized,
)
from antiphon.files.vector_stores.search.vectors import bytes_to_vector, vector_to_bytes
from antiphon.settings.errors import SettingsError
from antiphon.settings.tables import VectorStoreSettings
from antiphon.transport import make_session


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EmbeddingEngine]:
    async with running_embeddings() as running:
        yield running


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with make_session() as opened:
        yield opened


def embedder_of(server: EmbeddingEngine, session: aiohttp.ClientSession, **settings: object) -> Embedder:
    chosen = VectorStoreSettings(embedding_model="embedder", embedding_url=server.url, **settings)  # type: ignore[arg-type]
    made = EmbeddingModels(chosen, Pool([]), session).of_model("embedder")
    assert made is not None
    return made


# ---- a server --------------------------------------------------------------------------------------------------------


async def test_a_server_is_asked_in_batches_and_answers_in_any_order(
    server: EmbeddingEngine, session: aiohttp.ClientSession
) -> None:
    texts = ["cat" if number % 2 else "bank" for number in range(BATCH + 8)]
    vectors = await embedder_of(server, session).embed(texts, query=False)
    assert vectors is not None
    assert [int(row.argmax()) for row in vectors] == [0 if number % 2 else 1 for number in range(BATCH + 8)]
    assert numpy.allclose(numpy.linalg.norm(vectors, axis=1), 1)
    assert [len(each["input"]) for each in server.requests] == [BATCH, 8]
    assert server.requests[0]["model"] == "embedder"


async def test_the_key_and_the_prefixes_are_sent(
    server: EmbeddingEngine, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "abc")
    made = embedder_of(server, session, embedding_key="$SECRET", query_prefix="query: ", text_prefix="passage: ")
    await made.embed(["cat"], query=True)
    await made.embed(["cat"], query=False)
    assert [each["input"] for each in server.requests] == [["query: cat"], ["passage: cat"]]
    assert server.headers[0]["Authorization"] == "Bearer abc"


async def test_a_text_that_is_too_long_for_the_model_is_shortened(
    server: EmbeddingEngine, session: aiohttp.ClientSession
) -> None:
    vectors = await embedder_of(server, session).embed(["bank", "cat " * 1900], query=False)
    assert vectors is not None
    assert [int(row.argmax()) for row in vectors] == [1, 0]
    assert [len(each["input"][-1]) for each in server.requests] == [7600, 4, 7600, 3800, 1900]


async def test_a_text_that_is_never_taken_has_no_vector(server: EmbeddingEngine, session: aiohttp.ClientSession) -> None:
    server.longest = -1
    assert await embedder_of(server, session).embed(["cat"], query=False) is None
    assert len(server.requests) == 5
    server.longest = 10
    vectors = await embedder_of(server, session).embed(["cat", "cat " * 1000], query=False)
    assert vectors is not None
    assert [vector.any() for vector in vectors] == [True, False]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, None),
        (401, None),
        (200, b"not JSON"),
        (200, b'{"data": []}'),
        (200, b'{"data": [{"embedding": []}]}'),
        (200, b'{"data": [{"embedding": [1, 2]}, {"embedding": [1]}]}'),
    ],
)
async def test_a_server_that_fails_gives_no_vectors_and_is_logged_once(
    server: EmbeddingEngine,
    session: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: bytes | None,
) -> None:
    server.status, server.body = status, body
    made = embedder_of(server, session)
    with caplog.at_level(logging.WARNING):
        assert await made.embed(["cat"], query=False) is None
        assert await made.embed(["cat"], query=False) is None
    assert len(caplog.records) == 1
    server.status, server.body = 200, None
    assert await made.embed(["cat"], query=False) is not None


async def test_a_server_that_is_gone_gives_no_vectors(server: EmbeddingEngine, session: aiohttp.ClientSession) -> None:
    chosen = VectorStoreSettings(embedding_model="embedder", embedding_url="http://127.0.0.1:9")
    made = await EmbeddingModels(chosen, Pool([]), session).current()
    assert made is not None
    assert await made.embed(["cat"], query=True) is None


async def test_a_server_that_does_not_answer_in_time_gives_no_vectors(
    server: EmbeddingEngine, session: aiohttp.ClientSession
) -> None:
    server.may_answer.clear()
    assert await embedder_of(server, session, embedding_timeout=0.05).embed(["cat"], query=True) is None


async def test_a_server_gets_few_requests_at_once(server: EmbeddingEngine, session: aiohttp.ClientSession) -> None:
    made = embedder_of(server, session)
    asked = [asyncio.create_task(made.embed(["cat"], query=False)) for _ in range(20)]
    assert all(vectors is not None for vectors in await asyncio.gather(*asked))
    assert server.at_once <= REQUESTS


async def test_an_engine_is_asked_for_its_own_model(server: EmbeddingEngine, session: aiohttp.ClientSession) -> None:
    pool = Pool([Engine(server.url, session)])
    made = await EmbeddingModels(VectorStoreSettings(embedding_model="embedder"), pool, session).current()
    assert made is not None
    assert made.model == "embedder"
    assert await made.embed(["cat"], query=False) is not None
    missing = await EmbeddingModels(VectorStoreSettings(embedding_model="another"), pool, session).current()
    assert missing is not None
    assert await missing.embed(["cat"], query=False) is None
    assert len(server.requests) == 1
    await pool.close()


def test_an_answer_with_numbers_that_are_none_is_similar_to_nothing() -> None:
    assert normalized(numpy.array([[numpy.nan, 1.0], [0.0, 0.0], [numpy.inf, 0.0]])).tolist() == [[0, 1], [0, 0], [0, 0]]


def test_an_answer_for_other_texts_is_no_answer() -> None:
    with pytest.raises(NotEmbedded):
        answer_to_vectors(b'{"data": [{"embedding": [1.0]}]}', 2)


# ---- wordllama -------------------------------------------------------------------------------------------------------


async def test_wordllama_knows_what_is_alike_and_reads_no_network() -> None:
    vectors = await WordVectors().embed(["the cat sat on the mat", "a kitten on a rug", "stock markets fell", ""], query=False)
    assert vectors is not None
    assert vectors.shape == (4, 256)
    alike = vectors @ vectors.T
    assert alike[0, 1] > alike[0, 2] + 0.1
    assert not vectors[3].any()


async def test_wordllama_does_not_change_how_others_log() -> None:
    before = list(logging.getLogger().handlers)
    await WordVectors().embed(["a"], query=False)
    assert logging.getLogger().handlers == before


async def test_a_text_is_embedded_alike_alone_and_among_others() -> None:
    texts = [f"text number {number} " * number for number in range(1, 40)]
    together = await WordVectors().embed(texts, query=False)
    alone = await WordVectors().embed(texts[20:21], query=False)
    assert together is not None
    assert alone is not None
    assert numpy.allclose(together[20], alone[0], atol=1e-5)


# ---- which one -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "installed", "model"),
    [
        (VectorStoreSettings(), True, "wordllama-256"),
        (VectorStoreSettings(), False, None),
        (VectorStoreSettings(embedding_model="wordllama"), True, "wordllama-256"),
        (VectorStoreSettings(embedding_model="off"), True, None),
        (VectorStoreSettings(embedding_model="bge"), True, "bge"),
    ],
)
async def test_the_settings_choose_the_model(
    settings: VectorStoreSettings,
    installed: bool,
    model: str | None,
    session: aiohttp.ClientSession,
) -> None:
    current = await EmbeddingModels(settings, Pool([]), session, lambda: installed).current()
    assert (current.model if current is not None else None) == model


async def test_chunks_of_an_earlier_model_are_still_searched_with_it(session: aiohttp.ClientSession) -> None:
    models = EmbeddingModels(VectorStoreSettings(embedding_model="bge"), Pool([]), session)
    for model in ("wordllama-256", "nomic"):
        found = models.of_model(model)
        assert found is not None
        assert found.model == model
        assert models.of_model(model) is found


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (VectorStoreSettings(embedding_url="http://127.0.0.1:1"), "embedding_model is missing"),
        (VectorStoreSettings(embed_again=True), "embed_again needs the name of a model"),
        (VectorStoreSettings(embedding_model="bge", embedding_url="127.0.0.1"), "embedding_url must be"),
        (VectorStoreSettings(embedding_model="bge", embedding_key="k"), "embedding_url is missing"),
        (
            VectorStoreSettings(embedding_model="b", embedding_url="http://a", embedding_key="$NOT_SET_ANYWHERE"),
            "needs the environment variable NOT_SET_ANYWHERE",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_an_error(settings: VectorStoreSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_embeddings(settings)


def test_wordllama_that_is_not_installed_is_an_error_if_it_is_asked_for() -> None:
    with pytest.raises(SettingsError, match=r"\.\[search\]"):
        check_embeddings(VectorStoreSettings(embedding_model="wordllama"), lambda: False)


# ---- vectors as they are stored --------------------------------------------------------------------------------------


def test_a_stored_vector_is_nearly_the_same() -> None:
    random = numpy.random.default_rng(0)
    vectors = normalized(random.standard_normal((50, 256)))
    stored = numpy.array([bytes_to_vector(vector_to_bytes(vector)) for vector in vectors])
    assert abs(vectors @ vectors.T - stored @ vectors.T).max() < 0.01
    assert not bytes_to_vector(vector_to_bytes(numpy.zeros(8, numpy.float32))).any()


# ---- the model of sentences, which is downloaded ---------------------------------------------------------------------


class Downloads:
    def __init__(self, *, works: bool = True) -> None:
        self.asked: list[str] = []
        self._works = works

    async def fetch(self, model: ModelFile, folder: Path) -> Path:
        self.asked.append(model.name)
        if not self._works:
            raise CannotEmbed("no network")
        return await asyncio.to_thread(_make, model, folder)


def _make(model: ModelFile, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = model.path_in(folder)
    with path.open("wb") as file:
        file.truncate(model.size)
    return path


@pytest.mark.parametrize(
    ("named", "allowed", "works", "expected", "asked"),
    [
        (None, True, True, "all-minilm-l6-v2", 1),
        (None, False, True, "wordllama-256", 0),
        (None, True, False, "wordllama-256", 1),
        ("all-minilm-l6-v2", False, True, "all-minilm-l6-v2", 1),
        ("all-minilm-l6-v2", False, False, None, 1),
        ("wordllama", True, True, "wordllama-256", 0),
        ("off", True, True, None, 0),
    ],
)
async def test_the_model_of_sentences_is_downloaded_once_where_it_is_wanted(
    named: str | None,
    allowed: bool,
    works: bool,
    expected: str | None,
    asked: int,
    session: aiohttp.ClientSession,
    tmp_path: Path,
) -> None:
    downloads = Downloads(works=works)
    sentences = SentenceModel(tmp_path / "models", downloads=allowed, fetch=downloads.fetch)
    models = EmbeddingModels(VectorStoreSettings(embedding_model=named), Pool([]), session, lambda: True, sentences)
    for chosen in [await models.current() for _ in range(2)]:
        assert (chosen.model if chosen is not None else None) == expected
    assert len(downloads.asked) == asked
    there = models.of_model("all-minilm-l6-v2")
    assert (there is not None) == (expected == "all-minilm-l6-v2")
