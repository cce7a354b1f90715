"""The commands of docs/backup.md, run as they are on the page, beside a gateway that serves."""

import asyncio
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.commands import ANTIPHON, bare_environment, served
from support.engine import MockEngine
from support.postgres import PostgresServer, find_programs

from antiphon.store import open_store

# Longer than one piece.
FILE = bytes(range(256)) * 2000
PAGE = Path(__file__).parents[2] / "docs" / "backup.md"


def commands(name: str) -> str:
    """The commands of the page under this name."""
    (found,) = re.findall(rf"^```sh {name}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert isinstance(found, str)
    return found


async def run(script: str, environment: dict[str, str]) -> None:
    shell = await asyncio.create_subprocess_exec("sh", "-euc", script, env=environment, stderr=subprocess.PIPE)
    _, errors = await shell.communicate()
    assert shell.returncode == 0, errors.decode()


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    """`antiphon`, as it is called after an installation."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "antiphon"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m antiphon "$@"\n')
    command.chmod(0o755)
    return folder


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def create(self, **fields: Any) -> Any:
        async with self._session.post(f"{self._url}/responses", json={"model": "mock", "input": "Hi", **fields}) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def upload(self, content: bytes) -> str:
        form = aiohttp.FormData({"purpose": "user_data"})
        form.add_field("file", content, filename="a.bin")
        async with self._session.post(f"{self._url}/files", data=form) as answer:
            assert answer.status == 200, await answer.text()
            id: str = (await answer.json())["id"]
            return id

    async def download(self, id: str) -> bytes:
        async with self._session.get(f"{self._url}/files/{id}/content") as answer:
            assert answer.status == 200, await answer.text()
            return await answer.read()

    async def status(self, id: str) -> int:
        async with self._session.get(f"{self._url}/responses/{id}") as answer:
            return answer.status

    async def store_until(self, over: asyncio.Event, stored: list[str], enough: asyncio.Event) -> None:
        while not over.is_set():
            stored.append((await self.create())["id"])
            if len(stored) >= 20:
                enough.set()


@asynccontextmanager
async def gateway(engine: MockEngine, environment: dict[str, str]) -> AsyncIterator[Client]:
    settings = {name: value for name, value in environment.items() if name.startswith("ANTIPHON_")}
    async with (
        served("--port", "0", "--upstream", engine.url, **settings) as (process, ready),
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, ready.split()[-1])
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def back_up_and_restore(engine: MockEngine, environment: dict[str, str], kind: str) -> None:
    async with gateway(engine, environment) as client:
        first = await client.create()
        file = await client.upload(FILE)
        stored: list[str] = []
        over, enough = asyncio.Event(), asyncio.Event()
        load = [asyncio.create_task(client.store_until(over, stored, enough)) for _ in range(4)]
        await enough.wait()
        acknowledged = list(stored)
        await run(commands(f"backup {kind}"), environment)
        over.set()
        await asyncio.gather(*load)
        late = await client.create()
    await destroy(environment, kind)
    await run(commands(f"restore {kind}"), environment)
    async with gateway(engine, environment) as client:
        assert [id for id in acknowledged if await client.status(id) != 200] == []
        assert await client.status(late["id"]) == 404
        assert await client.download(file) == FILE
        assert (await client.create(previous_response_id=first["id"]))["status"] == "completed"


async def destroy(environment: dict[str, str], kind: str) -> None:
    if kind == "postgres":
        await run('psql --quiet --dbname="$ANTIPHON_STORE" --command "DELETE FROM antiphon.responses"', environment)
        await run('psql --quiet --dbname="$ANTIPHON_STORE" --command "DELETE FROM antiphon_files.files"', environment)
    else:
        destroy_files(Path(environment["ANTIPHON_DATA_DIR"]), Path(environment["BACKUP"]))


def destroy_files(data: Path, backup: Path) -> None:
    assert (backup / "seal.key").read_bytes() == (data / "seal.key").read_bytes()
    files = [str(path.relative_to(data)) for path in (data / "responses.files").rglob("*") if path.is_file()]
    assert len(files) >= 2
    for name in ("responses.db", "responses.db-wal", "responses.db-shm", "seal.key", *files):
        # What a crash leaves: a log that does not belong to the copy.
        (data / name).write_bytes(os.urandom(5000))


def settings(tmp_path: Path, bin: Path, store: str) -> dict[str, str]:
    return bare_environment(
        ANTIPHON_DATA_DIR=str(tmp_path / "data"),
        ANTIPHON_STORE=store,
        # None: it is generated.
        ANTIPHON_SEAL_KEY="",
        BACKUP=str(tmp_path / "backup"),
        PATH=os.pathsep.join((str(bin), os.environ["PATH"])),
    )


@pytest.mark.timeout(240)
async def test_sqlite_is_backed_up_and_restored_by_the_commands_of_the_page(
    engine: MockEngine, tmp_path: Path, bin: Path
) -> None:
    environment = settings(tmp_path, bin, f"sqlite:{tmp_path / 'data' / 'responses.db'}")
    await back_up_and_restore(engine, environment, "sqlite")
    copies = list((tmp_path / "backup").rglob("*"))
    assert {"responses.db", "seal.key", "responses.files", "files.db", "contents"} < {copy.name for copy in copies}
    for copy in copies:
        assert stat.S_IMODE(copy.stat().st_mode) == (0o700 if copy.is_dir() else 0o600)
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o700


@pytest.mark.timeout(240)
async def test_postgres_is_backed_up_and_restored_by_the_commands_of_the_page(
    engine: MockEngine, tmp_path: Path, bin: Path, postgres: PostgresServer
) -> None:
    (tmp_path / "backup").mkdir()
    path = os.pathsep.join((str(find_programs()), str(bin), os.environ["PATH"]))
    environment = settings(tmp_path, bin, postgres.new_database()) | {"PATH": path}
    await back_up_and_restore(engine, environment, "postgres")


def antiphon_backup(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [*ANTIPHON, "backup", *arguments]
    return subprocess.run(command, env=bare_environment(**environment), capture_output=True, text=True)


def test_an_older_backup_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "responses.db").write_text("of yesterday")
    done = antiphon_backup(str(tmp_path / "backup"), ANTIPHON_STORE=f"sqlite:{tmp_path / 'responses.db'}")
    assert done.returncode == 2
    assert "is not empty. Name a new folder" in done.stderr
    assert (tmp_path / "backup" / "responses.db").read_text() == "of yesterday"


def test_a_backup_of_nothing_is_an_error(tmp_path: Path) -> None:
    missing = antiphon_backup(str(tmp_path / "one"), ANTIPHON_STORE=f"sqlite:{tmp_path / 'responses.db'}")
    assert (missing.returncode, "there is no database at" in missing.stderr) == (2, True)
    memory = antiphon_backup(str(tmp_path / "two"), ANTIPHON_STORE="memory:")
    assert (memory.returncode, "there is nothing to back up" in memory.stderr) == (2, True)


async def test_of_postgres_the_command_that_works_is_shown(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.new_database()
    async with open_store(url) as store:
        assert await store.get("ada", "resp_1") is None
    done = antiphon_backup(str(tmp_path / "backup"), ANTIPHON_STORE=f"{url}&password=s3cret")
    assert (done.returncode, done.stdout, "s3cret" in done.stderr) == (2, "", False)
    assert "the store is in Postgres, which this command does not copy. Copy it with:\n  pg_dump" in done.stderr
    path = os.pathsep.join((str(find_programs()), os.environ["PATH"]))
    await run(done.stderr.splitlines()[1], bare_environment(PATH=path))
    assert (tmp_path / "backup" / "antiphon.dump").read_bytes().startswith(b"PGDMP")


def test_a_seal_key_beside_postgres_is_copied_and_the_rest_is_still_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "seal.key").write_bytes(b"key")
    settings = {"ANTIPHON_DATA_DIR": str(tmp_path / "data"), "ANTIPHON_SEAL_KEY": ""}
    done = antiphon_backup(str(tmp_path / "backup"), ANTIPHON_STORE="postgres://ada:s3cret@db.example/answers", **settings)
    assert (done.returncode, "s3cret" in done.stderr) == (2, False)
    assert f"Copied: {tmp_path / 'backup' / 'seal.key'}." in done.stderr
    assert done.stderr.splitlines()[1].endswith(" postgres://ada@db.example/answers")
    assert (tmp_path / "backup" / "seal.key").read_bytes() == b"key"


def test_a_damaged_database_is_not_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE numbers (number integer)")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(5000)])
        connection.commit()
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(os.urandom(4096))
    done = antiphon_backup(str(tmp_path / "backup"), ANTIPHON_STORE=f"sqlite:{path}")
    assert (done.returncode, "damaged" in done.stderr or "malformed" in done.stderr) == (2, True)
