"""SQLite: what was acknowledged survives, several may have it open, and a file that will not do is refused with a reason."""

import asyncio
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.stores import DAY, Clock, conversation, events, items, queued, record

from antiphon.errors import StoreUnavailable
from antiphon.store import CannotOpen, Store, default_url, open_store, sqlite
from antiphon.store.sql.schema import MIGRATIONS, NEWEST

# A job's id, its owner and its request.
JOB = ("r1", "ada", b"{}")
WRITER = Path(__file__).parents[1] / "support" / "store_writer.py"


def kept(path: Path) -> str:
    return f"sqlite:{path}"


async def check_acknowledged(store: Store, line: str) -> None:
    kind, id = line.split()
    found = await store.get("ada", id)
    assert found is not None, line
    if kind == "response":
        assert found.output.startswith(f'["{id}"]'.encode())
    elif kind == "turn":
        conversation = id.partition("-turn-")[0]
        for item in items(f"{id}-a", f"{id}-b"):
            assert await store.get_item("ada", conversation, item.id) == item
    else:
        progress = await store.events("ada", id)
        assert progress is not None
        assert progress.events == events(0, 1, 2)


@pytest.mark.timeout(100)
async def test_what_was_acknowledged_survives_the_killing_of_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    acknowledged: list[str] = []
    for life in range(6):
        command = [sys.executable, str(WRITER), kept(path), f"life{life}"]
        environment = os.environ | {"PYTHONPATH": str(WRITER.parents[1])}
        writer = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
        assert writer.stdout is not None
        # Not always at the same point of its life.
        for _ in range(20 + 37 * life):
            acknowledged.append((await writer.stdout.readline()).decode())
        writer.kill()
        rest, _ = await writer.communicate()
        acknowledged += rest.decode().splitlines()
        async with open_store(kept(path)) as store:
            for line in acknowledged:
                await check_acknowledged(store, line)
    assert {line.split()[0] for line in acknowledged} == {"response", "turn", "job"}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that are executed, with their values."""
    executed: list[str] = []
    connect = sqlite.connect

    def traced(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(executed.append)
        return connection

    monkeypatch.setattr(sqlite, "connect", traced)
    return executed


async def test_no_operation_reads_a_table_from_end_to_end(tmp_path: Path, clock: Clock, statements: list[str]) -> None:
    path = tmp_path / "responses.db"
    async with open_store(kept(path), clock) as store:
        statements.clear()
        await store.put(record("r1", parent="r0"))
        await store.chain("ada", "r1")
        await store.create_conversation(conversation("c1"), items("i1", "i2"))
        await store.list_items("ada", "c1", after="i1", before="i2")
        await store.conversation_items("ada", "c1")
        await store.lock_conversation("ada", "c1", "r2", 60)
        await store.enqueue(queued("r2", conversation="c1"), b"{}")
        assert await store.claim("w1", 60, 3)
        await store.renew("w1", ["r2", "r3"], 60)
        await store.give_back("w1", ["r2", "r3"])
        assert await store.claim("w1", 60, 3)
        await store.append_events("r2", "w1", 2, events(0))
        await store.events("ada", "r2", 0)
        assert await store.finish(queued("r2", conversation="c1"), "w1", 2, events(1), items("i3"))
        await store.cancel("ada", "r2")
        await store.delete("ada", "r2")
        await store.delete_item("ada", "c1", "i1")
        await store.delete_conversation("ada", "c1")
        await store.create_conversation(conversation("c2"), items("i1", "i2"))
        clock.forward(100 * DAY)
        assert await store.sweep() == 2
    plans = {}
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")):
                steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
                plans[statement] = [step[3] for step in steps if re.match("SCAN (?!links|CONSTANT)", step[3])]
    assert len(plans) > 40
    assert {statement: plan for statement, plan in plans.items() if plan} == {}


async def test_operations_that_come_at_once_share_a_transaction(tmp_path: Path, statements: list[str]) -> None:
    async with open_store(kept(tmp_path / "responses.db")) as store:
        before = statements.count("COMMIT")
        await asyncio.gather(*(store.put(record(f"r{number}")) for number in range(200)))
        # The first may go alone, before the others have come.
        assert statements.count("COMMIT") - before <= 5


async def test_two_gateways_have_one_database_open(tmp_path: Path, clock: Clock) -> None:
    url = kept(tmp_path / "responses.db")
    async with open_store(url, clock) as one, open_store(url, clock) as other:
        await asyncio.gather(*(store.put(record(f"{name}")) for name, store in zip("ab", (one, other), strict=True)))
        assert await one.get("ada", "b") == record("b")
        assert await other.get("ada", "a") == record("a")
        await asyncio.gather(*(one.enqueue(queued(f"r{number}"), b"{}") for number in range(10)))
        jobs = await asyncio.gather(*(store.claim("w", 60, 3) for store in [one, other] * 5))
        assert sorted(job.record.id for job in jobs if job) == [f"r{number}" for number in range(10)]


async def test_gateways_that_start_at_once_make_the_tables_once(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from antiphon.store import open_store\n"
        "async def main():\n"
        "    async with open_store(sys.argv[1]) as store:\n"
        "        assert await store.sweep() == 0\n"
        "asyncio.run(main())\n"
    )
    url = kept(tmp_path / "new" / "responses.db")
    starts = [await asyncio.create_subprocess_exec(sys.executable, "-c", code, url) for _ in range(6)]
    assert [await process.wait() for process in starts] == [0] * 6


async def test_reads_do_not_wait_for_a_write(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_store(kept(path), clock) as store:
        await store.put(record("r1"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM responses")
            assert await store.get("ada", "r1") == record("r1")
            waiting = asyncio.create_task(store.put(record("r2")))
            assert [link.id for link in await store.chain("ada", "r1")] == ["r1"]
            assert not waiting.done()
            other.execute("ROLLBACK")
        await waiting
        assert await store.get("ada", "r2") == record("r2")


async def test_a_database_that_stays_locked_is_an_error_and_no_hang(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 0.1)
    path = tmp_path / "responses.db"
    async with open_store(kept(path), clock) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable) as refused:
                await store.put(record("r1"))
            assert (refused.value.status, refused.value.retry_after) == (503, 2.0)
            other.execute("ROLLBACK")
        await store.put(record("r1"))
        assert await store.get("ada", "r1") == record("r1")


async def test_an_operation_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "TIMEOUT", 0.1)
    path = tmp_path / "responses.db"
    async with open_store(kept(path)) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await store.put(record("r1"))
            other.execute("ROLLBACK")
    assert "store_timeout" in caplog.text


async def test_an_answer_that_comes_too_late_is_let_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()

    def slowly(connection: sqlite3.Connection, operation: Any) -> Any:
        go_on.wait()
        return run(connection, operation)

    run = sqlite.run
    async with open_store(kept(tmp_path / "responses.db")) as store:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "TIMEOUT", 0.1)
            patch.setattr(sqlite, "run", slowly)
            for operation in (store.get("ada", "r1"), store.put(record("r1"))):
                with pytest.raises(StoreUnavailable):
                    await operation
            go_on.set()
        # Behind the one that was late.
        await store.put(record("r2"))
        assert await store.get("ada", "r2") is not None
    assert caplog.text.count("store_timeout") == 2
    assert "Exception in callback" not in caplog.text


async def test_a_database_from_before_the_first_version_gets_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with closing(sqlite3.connect(path)) as empty:
        assert empty.execute("PRAGMA user_version").fetchone() == (0,)
    async with open_store(kept(path)) as store:
        assert await store.get("ada", "r1") is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)


async def test_a_database_of_the_first_version_is_brought_up_to_date(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "responses.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "MIGRATIONS", MIGRATIONS[:1])
        patch.setattr(sqlite, "NEWEST", 1)
        async with open_store(kept(path), clock) as store:
            await store.put(record("r1"))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        # As the first version wrote it.
        connection.execute(
            "INSERT INTO jobs (id, owner, available_at, worker, attempt, request) VALUES (?, ?, 0, 'w', 1, ?)", JOB
        )
        connection.commit()
    async with open_store(kept(path), clock) as store:
        assert await store.get("ada", "r1") == record("r1")
        job = await store.claim("w1", 60, 3)
        assert job is not None
        assert (job.record.id, job.request, job.attempt, job.lost) == ("r1", b"{}", 2, 1)
        await store.give_back("w1", ["r1"])
        job = await store.claim("w1", 60, 3)
        assert job is not None
        assert (job.attempt, job.lost) == (3, 1)


async def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "responses.db"
    async with open_store(kept(path)) as store:
        await store.put(record("r1"))
    broken = (*MIGRATIONS, ("ALTER TABLE responses ADD COLUMN extra text", "CREATE TABLE responses (id text)"))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "MIGRATIONS", broken)
        patch.setattr(sqlite, "NEWEST", NEWEST + 1)
        with pytest.raises(CannotOpen, match="already exists"):
            async with open_store(kept(path)):
                pass
    async with open_store(kept(path)) as store:
        assert await store.get("ada", "r1") == record("r1")
    with closing(sqlite3.connect(path)) as connection:
        assert "extra" not in [row[1] for row in connection.execute("PRAGMA table_info(responses)")]


async def refusal(path: Path) -> str:
    with pytest.raises(CannotOpen) as refused:
        async with open_store(kept(path)):
            pass
    return str(refused.value)


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with open_store(kept(path)):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    said = await refusal(path)
    assert f"version {NEWEST + 1}" in said
    assert "newer Antiphon" in said


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    path.write_bytes(b"This is a letter, and no database at all. " * 100)
    assert "not a database" in await refusal(path)


async def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE responses (id)")
    assert "another program's" in await refusal(path)


async def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot open" in await refusal(tmp_path / "file" / "responses.db")
    assert "cannot open" in await refusal(tmp_path)


async def test_the_database_is_readable_by_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "responses.db"
    async with open_store(kept(path)) as store:
        await store.put(record("r1"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"responses.db": 0o600, "responses.db-wal": 0o600, "responses.db-shm": 0o600}


@pytest.mark.parametrize("url", ["", "sqlite:", "mysql://host/db", "responses.db"])
async def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(CannotOpen, match="use sqlite:PATH"):
        async with open_store(url):
            pass


async def test_the_default_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    assert default_url(tmp_path) == kept(tmp_path / "responses.db")
