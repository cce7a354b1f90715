"""A gateway that is killed in the middle of an upload: nothing of it is listed, and the sweeper removes the rest."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from openai import AsyncOpenAI
from support.commands import served
from support.engine import MockEngine
from support.postgres import PostgresServer
from support.ways_in import until

from antiphon.files.library import FileLibrary, FileLimits
from antiphon.ids import new_id
from antiphon.store import open_store
from antiphon.store.operations import Operation, Statement
from bench.processes import free_port

pytestmark = pytest.mark.timeout(90)

HEAD = (
    b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n"
    b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
)


def parts() -> Operation[int]:
    rows = yield Statement("SELECT count(*) FROM file_parts")
    count: int = rows[0][0]
    return count


async def killed_while_it_receives(engine: MockEngine, url: str, contents: Path | None) -> str:
    """The id of a file that was uploaded before."""
    port = free_port()
    async with (
        served("serve", "--port", str(port), "--upstream", engine.url, "--store", url) as (process, _),
        AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none") as client,
    ):
        kept = await client.files.create(file=b"kept", purpose="user_data")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + bytes(3_000_000))
        await writer.drain()
        if contents is not None:
            await until(lambda: any(path.stat().st_size > 2_000_000 for path in contents.iterdir()))
        else:
            async with open_store(url) as store:
                while await store.files.database.read(parts()) < 10:
                    pass
        process.kill()
        await process.wait()
        writer.close()
        # What it had not read yet makes the end of the connection a reset.
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    return kept.id


async def sees_only(url: str, kept: str) -> None:
    async with open_store(url) as store:
        young = FileLibrary(store.files, FileLimits(), new_id)
        assert [file.id for file in await young.list("", limit=10)] == [kept]
        # It might still be arriving at another gateway.
        assert await young.sweep() == 0
        old = FileLibrary(store.files, FileLimits(), new_id, lost_age=-1)
        assert await old.sweep() == 1
        (record,) = await old.list("", limit=10)
        assert b"".join([piece async for piece in old.read(record)]) == b"kept"


async def test_with_a_folder(engine: MockEngine, tmp_path: Path) -> None:
    url, contents = f"sqlite:{tmp_path / 'responses.db'}", tmp_path / "responses.files" / "contents"
    kept = await killed_while_it_receives(engine, url, contents)
    assert len(list(contents.iterdir())) == 2
    await sees_only(url, kept)
    assert [path.name for path in contents.iterdir()] == [kept]


async def test_with_a_shared_database(engine: MockEngine, postgres: PostgresServer) -> None:
    with postgres.shared_database() as url:
        kept = await killed_while_it_receives(engine, url, None)
        await sees_only(url, kept)
        async with open_store(url) as store:
            assert await store.files.database.read(parts()) == 1
