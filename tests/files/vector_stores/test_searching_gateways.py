"""Searches by meaning in whole gateways: with the model of an engine, with one that fails, and without numpy."""

import asyncio
import subprocess
import sys
from pathlib import Path

import openai
from support.embedders import SubjectEmbedder
from support.embedding_server import running_embeddings
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import Clock
from support.vector_stores import SimpleVectorStores, indexed

from antiphon.files.vector_stores.search.chunk_index import EMBED_AGAIN, ChunkIndex
from antiphon.files.vector_stores.search.found import Wanted
from antiphon.settings.tables import VectorStoreSettings
from antiphon.store import open_store

FILES = {"pets.txt": b"A kitten sleeps all day.", "money.txt": b"The bank gave a loan.", "port.txt": b"The harbour is old."}


def client_of(gateway: GatewayUnderTest) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)


async def filled_store(client: openai.AsyncOpenAI) -> str:
    store = await client.vector_stores.create()
    files = list(FILES.items())
    batch = await client.vector_stores.file_batches.upload_and_poll(vector_store_id=store.id, files=files)
    assert batch.file_counts.completed == len(FILES)
    return store.id


async def first(client: openai.AsyncOpenAI, store: str, query: str) -> str:
    found = await client.vector_stores.search(store, query=query, max_num_results=1)
    return found.data[0].filename


async def test_the_model_of_an_engine_finds_what_is_said_in_other_words(engine: MockEngine) -> None:
    async with running_embeddings() as embeddings:
        settings = VectorStoreSettings(embedding_model="embedder")
        async with running_gateway(engine, embeddings.url, vector_stores=settings) as gateway, client_of(gateway) as client:
            store = await filled_store(client)
            assert await first(client, store, "feline") == "pets.txt"
            assert await first(client, store, "credit interest") == "money.txt"
            assert await first(client, store, "harbour") == "port.txt"
        assert {each["model"] for each in embeddings.requests} == {"embedder"}


async def test_with_a_model_that_fails_files_are_indexed_and_found_by_words(engine: MockEngine) -> None:
    async with running_embeddings() as embeddings:
        embeddings.status = 503
        settings = VectorStoreSettings(embedding_model="embedder", embedding_url=f"{embeddings.url}/v1")
        async with running_gateway(engine, vector_stores=settings) as gateway, client_of(gateway) as client:
            store = await filled_store(client)
            assert await first(client, store, "kitten") == "pets.txt"
            assert embeddings.requests


async def test_the_indexer_makes_missing_vectors_when_the_model_is_back(tmp_path: Path) -> None:
    clock, embedder = Clock(), SubjectEmbedder()
    embedder.is_away = True
    async with open_store(f"sqlite:{tmp_path}/responses.db", clock, poll=0.005) as store:
        index = ChunkIndex(store.files.database, embedder)
        await index.add("vs_1", "file-1", ["a kitten sleeps"])
        assert await index.search(["vs_1"], ["feline"], Wanted()) == []
        embedder.is_away = False
        async with indexed(SimpleVectorStores(store, index=index)), asyncio.timeout(20):
            while not await index.search(["vs_1"], ["feline"], Wanted()):
                clock.forward(EMBED_AGAIN)
        await index.close()


WITHOUT_NUMPY = """
import asyncio, sys
sys.modules["numpy"] = None
from antiphon.app.retrieval import EmbeddingModels
from antiphon.engines.pool import Pool
from antiphon.store import open_store
from antiphon.settings.tables import VectorStoreSettings
from antiphon.files.vector_stores.search.chunk_index import ChunkIndex
from antiphon.files.vector_stores.search.found import Wanted

async def main():
    models = EmbeddingModels(VectorStoreSettings(), Pool([]), None)
    assert await models.current() is None
    async with open_store("memory:") as store:
        index = ChunkIndex(store.files.database, current=models.current, embedder_of=models.of_model)
        await index.add("vs_1", "file-1", ["the harbour", "the mill"])
        found = await index.search(["vs_1"], ["harbour"], Wanted())
        await index.close()
    print(found[0].text)

asyncio.run(main())
"""


def test_without_numpy_there_are_words() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True)
    assert done.stdout == "the harbour\n", done.stderr
