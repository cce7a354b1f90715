"""Vector stores in whole gateways: with the tool that searches them, beside other gateways, and when one stops."""

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.postgres import PostgresServer

from antiphon.app.lifetime import BESIDE
from antiphon.app.options import Intervals
from antiphon.files.vector_stores.indexer import IndexerOptions
from antiphon.settings.tables import VectorStoreSettings

SEARCHED = answer(call("file_search", '{"queries": ["basalt"]}'), finish="tool_calls")
IDLE = VectorStoreSettings(indexing_workers=0)
KEYS = {"ada": ("key-a",), "bob": ("key-b",)}


def client_of(gateway: GatewayUnderTest, key: str = "none") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)


async def moon(client: openai.AsyncOpenAI) -> tuple[str, str]:
    """A vector store with one file about the moon, and the file."""
    store = await client.vector_stores.create()
    file = await client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("moon.txt", b"The moon is made of basalt."), attributes={"year": 1969}
    )
    assert file.status == "completed"
    return store.id, file.id


def searching(store: str, **more: Any) -> Any:
    return {
        "model": "mock",
        "input": "What is the moon made of?",
        "tools": [{"type": "file_search", "vector_store_ids": [store], **more}],
        "include": ["file_search_call.results"],
    }


async def test_the_tool_finds_and_cites_what_was_uploaded(engine: MockEngine, vector_url: str) -> None:
    engine.will(SEARCHED, text("Basalt [1]."))
    async with running_gateway(engine, store=vector_url) as gateway, client_of(gateway) as client:
        store, file = await moon(client)
        response = await client.responses.create(**searching(store))
    found, message = (item.to_dict() for item in response.output)
    (row,) = found["results"]
    assert (row["file_id"], row["filename"], row["text"]) == (file, "moon.txt", "The moon is made of basalt.")
    assert row["attributes"] == {"year": 1969}
    (cited,) = message["content"][0]["annotations"]
    assert (cited["type"], cited["file_id"], cited["filename"]) == ("file_citation", file, "moon.txt")


async def test_the_tool_searches_only_what_its_filters_let_through(engine: MockEngine, vector_url: str) -> None:
    engine.will(SEARCHED, text("Nothing."))
    async with running_gateway(engine, store=vector_url) as gateway, client_of(gateway) as client:
        store, _ = await moon(client)
        filters = {"type": "gt", "key": "year", "value": 2000}
        response = await client.responses.create(**searching(store, filters=filters))
    assert response.output[0].to_dict()["results"] == []


async def test_the_tool_does_not_reach_the_stores_of_another_key(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, keys=KEYS) as gateway,
        client_of(gateway, "key-a") as ada,
        client_of(gateway, "key-b") as bob,
    ):
        store, _ = await moon(ada)
        with pytest.raises(openai.NotFoundError) as refused:
            await bob.responses.create(**searching(store))
        with pytest.raises(openai.NotFoundError) as missing:
            await bob.responses.create(**searching("vs_none"))
    assert refused.value.message.replace(store, "vs_none") == missing.value.message
    assert engine.requests == []


async def test_a_key_that_gets_a_name_keeps_its_stores(engine: MockEngine, tmp_path: object) -> None:
    url = f"sqlite:{tmp_path}/responses.db"
    async with running_gateway(engine, store=url, api_key=("key-a",)) as gateway, client_of(gateway, "key-a") as client:
        store, file = await moon(client)
    async with running_gateway(engine, store=url, keys=KEYS) as gateway, client_of(gateway, "key-a") as client:
        found = await client.vector_stores.search(store, query="basalt")
        assert [row.file_id for row in found.data] == [file]
        assert (await client.vector_stores.files.retrieve(file, vector_store_id=store)).status == "completed"


async def test_another_gateway_indexes_at_once_what_this_one_was_given(engine: MockEngine, postgres: PostgresServer) -> None:
    """Without waiting for its next look."""
    with postgres.shared_database() as url:
        async with (
            running_gateway(engine, store=url, vector_stores=IDLE, poll=600) as given,
            running_gateway(engine, store=url, poll=600) as other,
            client_of(given) as client,
        ):
            assert not given.app[BESIDE].retrieval.indexer._working
            assert other.app[BESIDE].retrieval.indexer._working
            async with asyncio.timeout(20):
                store, file = await moon(client)
            found = await client.vector_stores.search(store, query="basalt")
            assert [row.file_id for row in found.data] == [file]
            await client.vector_stores.files.delete(file, vector_store_id=store)
            assert (await client.vector_stores.search(store, query="basalt")).data == []


async def test_a_gateway_that_stops_while_it_indexes_does_so_in_time(engine: MockEngine, tmp_path: object) -> None:
    url = f"sqlite:{tmp_path}/responses.db"
    words = b"The quick brown fox jumps over the lazy dog. " * 20_000
    slow = Intervals(indexing=IndexerOptions(chunks=1))
    async with running_gateway(engine, store=url, intervals=slow) as gateway, client_of(gateway) as client:
        store = await client.vector_stores.create()
        file = await client.vector_stores.files.upload(vector_store_id=store.id, file=("fox.txt", words))
        running = gateway.app[BESIDE].retrieval.indexer._running
        async with asyncio.timeout(20):
            while not running:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        loop = asyncio.get_running_loop()
        began = loop.time()
    assert loop.time() - began < 10
    async with running_gateway(engine, store=url) as gateway, client_of(gateway) as client:
        # It was given back: nobody waits for the end of a lease.
        async with asyncio.timeout(20):
            done = await client.vector_stores.files.poll(file.id, vector_store_id=store.id)
        assert done.status == "completed"


async def test_a_gateway_without_files_makes_no_place_for_them(engine: MockEngine, tmp_path: Path) -> None:
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}", poll=0.005) as gateway:
        await gateway.create()
        # Several looks of the indexer.
        await asyncio.sleep(0.05)
        assert not (tmp_path / "responses.files").exists()
