"""A database file that is deleted or replaced while it is open: what could not be found again is not acknowledged."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.engine import MockEngine
from support.gateway import running_gateway
from support.stores import Clock, record

from antiphon.errors import StoreUnavailable
from antiphon.store import open_store
from antiphon.store.sqlite.connections import connect
from antiphon.store.sqlite.database import open_sqlite
from antiphon.store.wakeups import Wakeups

LOST = "deleted or replaced"


def url_of(path: Path) -> str:
    return f"sqlite:{path}"


def backed_up(path: Path, copy: Path) -> Path:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def remove(path: Path) -> None:
    path.unlink()


def remove_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def remove_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("lose", [remove, remove_all, move_away, remove_the_folder])
async def test_nothing_is_acknowledged_while_the_file_is_gone(
    lose: Callable[[Path], None], tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data" / "responses.db"
    async with open_store(url_of(path), clock) as store:
        await store.put(record("r1"))
        await store.check()
        lose(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=LOST) as error:
                await store.put(record("r2"))
            assert (error.value.status, error.value.retry_after) == (503, 2.0)
        with pytest.raises(StoreUnavailable, match=LOST):
            await store.get("ada", "r1")
        with pytest.raises(StoreUnavailable, match=LOST):
            await store.check()
        # An empty database in its place would hide that everything is gone.
        assert not path.exists()
    assert [vars(line)["members"]["path"] for line in caplog.records if line.message == "store_lost"] == [str(path)]


async def test_a_file_that_comes_back_is_used_again(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_store(url_of(path), clock) as store:
        await store.put(record("r1"))
        move_away(path)
        with pytest.raises(StoreUnavailable, match=LOST):
            await store.put(record("r2"))
        path.with_name("elsewhere.db").rename(path)
        await store.put(record("r3"))
        assert await store.get("ada", "r1") == record("r1")
        await store.check()
    async with open_store(url_of(path), clock) as store:
        assert await store.get("ada", "r1") == record("r1")
        assert await store.get("ada", "r3") == record("r3")


async def test_a_restored_copy_is_opened_in_its_place(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "responses.db"
    async with open_store(url_of(path), clock) as store:
        await store.put(record("r1"))
        copy = backed_up(path, tmp_path / "copy.db")
        await store.put(record("r2"))
        remove_all(path)
        with pytest.raises(StoreUnavailable, match=LOST):
            await store.put(record("r3"))
        shutil.copy(copy, path)
        # A read finds it, too.
        assert await store.get("ada", "r1") == record("r1")
        assert await store.get("ada", "r2") is None
        await store.put(record("r4"))
    assert "store_reopened" in caplog.text
    async with open_store(url_of(path), clock) as store:
        assert await store.get("ada", "r4") == record("r4")


async def test_a_file_that_replaces_it_gets_all_later_writes_and_nothing_of_the_old_log(tmp_path: Path, clock: Clock) -> None:
    path, copy = tmp_path / "responses.db", tmp_path / "copy.db"
    async with open_store(url_of(copy), clock) as other:
        await other.put(record("other"))
    async with open_store(url_of(path), clock) as store:
        for number in range(50):
            await store.put(record(f"r{number}"))
        # The log of the old file stays beside the new one.
        copy.rename(path)
        await store.put(record("new"))
        assert await store.get("ada", "other") == record("other")
        assert await store.get("ada", "r1") is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT id FROM responses ORDER BY id").fetchall() == [("new",), ("other",)]


@pytest.mark.parametrize("replaced", [True, False])
async def test_a_file_that_was_moved_keeps_all_that_was_acknowledged(replaced: bool, tmp_path: Path, clock: Clock) -> None:
    path, copy, moved = tmp_path / "responses.db", tmp_path / "copy.db", tmp_path / "elsewhere.db"
    async with open_store(url_of(copy), clock):
        pass
    async with open_store(url_of(path), clock) as store:
        for number in range(5):
            await store.put(record(f"r{number}"))
        move_away(path)
        if replaced:
            copy.rename(path)
            await store.put(record("new"))
        else:
            with pytest.raises(StoreUnavailable, match=LOST):
                await store.put(record("new"))
    # Without the log that stayed behind.
    async with open_store(url_of(moved), clock) as store:
        assert [number for number in range(5) if await store.get("ada", f"r{number}") is None] == []


async def test_a_chain_of_the_old_file_is_not_continued_in_the_new_one(tmp_path: Path, clock: Clock) -> None:
    path, copy = tmp_path / "responses.db", tmp_path / "copy.db"
    async with open_store(url_of(copy), clock):
        pass
    async with open_store(url_of(path), clock) as store:
        await store.put(record("r1"))
        await store.put(record("r2", parent="r1"))
        assert len(await store.chain("ada", "r2")) == 2
        copy.rename(path)
        assert await store.chain("ada", "r2") == []


async def test_a_write_that_is_overtaken_by_a_replacement_is_not_acknowledged(tmp_path: Path, clock: Clock) -> None:
    path, copy = tmp_path / "responses.db", tmp_path / "copy.db"
    async with open_store(url_of(copy), clock):
        pass

    def replace(statement: str) -> None:
        if statement == "COMMIT" and copy.exists():
            os.replace(copy, path)

    def connect_and_replace(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(replace)
        return connection

    # Not yet while the tables are made.
    copy.rename(tmp_path / "kept.db")
    async with open_sqlite(str(path), Wakeups(), clock, connect=connect_and_replace) as database:
        (tmp_path / "kept.db").rename(copy)
        with pytest.raises(StoreUnavailable, match=LOST):
            await database.put(record("r1"))
        await database.put(record("r1"))
    async with open_store(url_of(path), clock) as store:
        assert await store.get("ada", "r1") == record("r1")


async def test_another_programs_file_in_its_place_is_left_alone(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path, foreign = tmp_path / "responses.db", tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE letters (text)")
    async with open_store(url_of(path), clock) as store:
        await store.put(record("r1"))
        foreign.rename(path)
        with pytest.raises(StoreUnavailable, match=LOST):
            await store.put(record("r2"))
    refused = [vars(line)["members"]["error"] for line in caplog.records if line.message == "store_not_reopened"]
    assert "another program's database" in refused[0]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("letters",)]


async def test_without_its_write_ahead_log_nothing_is_lost(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_store(url_of(path), clock) as store:
        await store.put(record("r1"))
        path.with_name("responses.db-wal").unlink()
        # The log of before is copied into the database, and a new one is begun.
        await store.put(record("r2"))
        assert await store.get("ada", "r1") == record("r1")
    async with open_store(url_of(path), clock) as store:
        assert await store.get("ada", "r1") == record("r1")
        assert await store.get("ada", "r2") == record("r2")


async def test_a_database_that_cannot_be_written_is_an_error_until_it_can_be(tmp_path: Path, clock: Clock) -> None:
    opened: list[sqlite3.Connection] = []

    def connect_and_keep(path: Path) -> sqlite3.Connection:
        opened.append(connect(path))
        return opened[-1]

    async with open_sqlite(str(tmp_path / "responses.db"), Wakeups(), clock, connect=connect_and_keep) as database:
        writer = opened[-1]
        # As on a disk that was mounted again for reading only: root may write to any file.
        writer.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreUnavailable):
            await database.put(record("r1"))
        writer.execute("PRAGMA query_only = OFF")
        await database.put(record("r1"))


async def test_a_gateway_without_its_database_file_answers_503_and_is_not_ready(engine: MockEngine, tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with running_gateway(engine, store=url_of(path)) as gateway:
        kept = await gateway.create()
        assert (await gateway.get("/ready"))[0] == 200
        move_away(path)
        status, body = await gateway.post({"model": "mock", "input": "Hi"})
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        assert LOST in body["error"]["message"]
        # The client must not learn where the gateway keeps its files.
        assert str(tmp_path) not in body["error"]["message"]
        events = await gateway.stream()
        assert events[-1]["type"] == "response.failed"
        assert LOST in events[-1]["response"]["error"]["message"]
        assert (await gateway.post({"model": "mock", "input": "Hi", "background": True}))[0] == 503
        status, body = await gateway.get("/ready")
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        # What is not stored is answered.
        assert (await gateway.create(store=False))["status"] == "completed"
        path.with_name("elsewhere.db").rename(path)
        assert (await gateway.get("/ready"))[0] == 200
        again = await gateway.create(previous_response_id=kept["id"])
        assert (await gateway.get(f"/v1/responses/{again['id']}"))[0] == 200
