"""A gateway that is killed while it indexes a file, and another one that goes on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from support.commands import served
from support.engine import MockEngine
from support.gateway import running_gateway
from support.postgres import PostgresServer

from antiphon.files.vector_stores.chunking import chunks
from antiphon.store import Store, open_store
from antiphon.store.files import pgvector
from antiphon.store.files.records import Chunking
from antiphon.store.operations import Operation, Statement

TEXT = "\n\n".join(f"Paragraph {number}: the quick brown fox jumps over the lazy dog. " * 5 for number in range(4_000))

SMALL: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}


# One kind stands for all but in the slow tests.
@pytest.fixture(
    params=["sqlite", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("postgres", "postgres_with_pgvector"))]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'responses.db'}"
        return
    server: PostgresServer = request.getfixturevalue(request.param)
    with server.shared_database() as database:
        yield database


def written() -> Operation[list[int]]:
    rows = yield Statement("SELECT id FROM chunks ORDER BY number")
    return [row[0] for row in rows]


def end_leases() -> Operation[None]:
    """The other gateway need not wait for that."""
    yield Statement("UPDATE vector_store_files SET held_until = 0")


async def some_chunks(store: Store) -> None:
    async with asyncio.timeout(60):
        while not await store.files.database.read(written()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest_asyncio.fixture(autouse=True)
async def with_column(request: pytest.FixtureRequest, url: str) -> None:
    """What pgvector needs is there from the beginning: so vectors are written with it."""
    if "pgvector" in request.node.name:
        async with open_store(url) as store:
            await store.files.database.maintain(pgvector.create())


async def test_a_file_is_indexed_to_its_end_by_another_gateway(engine: MockEngine, url: str) -> None:
    async with served("--upstream", engine.url, "--port", "0", ANTIPHON_STORE=url) as (process, ready):
        address = ready.split()[-1]
        async with openai.AsyncOpenAI(base_url=address, api_key="none") as client, open_store(url) as store:
            file = await client.files.create(file=("fox.txt", TEXT.encode()), purpose="assistants")
            made = await client.vector_stores.create(file_ids=[file.id], chunking_strategy=SMALL)
            await some_chunks(store)
            process.kill()
            await process.wait()
            before = await store.files.database.read(written())
            await store.files.database.write(end_leases())
    wanted = chunks(TEXT, Chunking(100, 0))
    assert 0 < len(before) < len(wanted)
    async with (
        running_gateway(engine, store=url) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client,
        open_store(url) as store,
    ):
        done = await client.vector_stores.files.poll(file.id, vector_store_id=made.id)
        assert (done.status, done.usage_bytes) == ("completed", sum(map(len, wanted)))
        content = await client.vector_stores.files.content(file.id, vector_store_id=made.id)
        assert [each.text for each in content.data] == wanted
        # What was there has stayed as it was.
        assert (await store.files.database.read(written()))[: len(before)] == before
        found = await client.vector_stores.search(made.id, query="Which animal jumps over the dog?", max_num_results=1)
        assert "fox" in found.data[0].content[0].text
