"""SQLite: acknowledged writes survive, several gateways can share a file, and an unusable file is an error with a reason."""

import asyncio
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from support.commands import python_path
from support.stores import BEGINNING, DAY, Clock, conversation, events, interposed, item, items, put_as_before, queued, record

from antiphon.errors import StoreUnavailable
from antiphon.ids import random_hex
from antiphon.store import CannotOpen, IdTaken, Store, default_url, open_store
from antiphon.store.files.opened import files_in_memory
from antiphon.store.operations import Operation
from antiphon.store.records import Record
from antiphon.store.sql import conversations, responses
from antiphon.store.sql.schema import MIGRATIONS
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite.connections import Connect, connect
from antiphon.store.sqlite.database import OPERATION_TIMEOUT, open_sqlite
from antiphon.store.wakeups import Wakeups

NEWEST = len(MIGRATIONS)
T = TypeVar("T")

# A job's id, its owner and its request.
JOB = ("r1", "ada", b"{}")
# A conversation of an older database.
OLD = ("c1", "ada", BEGINNING, BEGINNING + DAY, b"{}")
# Results of other queries, and an index of only the rows that are wanted, are read completely.
IS_SCAN = re.compile("SCAN (?!links|CONSTANT|numbered|.subquery|responses USING INDEX responses_to_index)")
WRITER = Path(__file__).parents[2] / "support" / "store_writer.py"


def url_of(path: Path) -> str:
    return f"sqlite:{path}"


async def check_acknowledged(store: Store, line: str) -> None:
    kind, id = line.split()
    found = await store.get("ada", id)
    assert found is not None, line
    if kind == "response":
        assert found.output.startswith(f'["{id}"]'.encode())
    elif kind == "answer":
        conversation = id.partition("-answer-")[0]
        for expected in items(f"{id}-a", f"{id}-b"):
            assert await store.get_item("ada", conversation, expected.id) == expected
    else:
        progress = await store.events("ada", id)
        assert progress is not None
        assert progress.events == events(0, 1, 2)


@pytest.mark.timeout(100)
async def test_acknowledged_writes_survive_when_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    acknowledged: list[str] = []
    for number in range(6):
        command = [sys.executable, str(WRITER), url_of(path), f"writer{number}"]
        environment = os.environ | {"PYTHONPATH": python_path()}
        writer = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
        assert writer.stdout is not None
        # At a different point in each round.
        for _ in range(20 + 37 * number):
            acknowledged.append((await writer.stdout.readline()).decode())
        writer.kill()
        rest, _ = await writer.communicate()
        acknowledged += rest.decode().splitlines()
        async with open_store(url_of(path)) as store:
            for line in acknowledged:
                await check_acknowledged(store, line)
    assert {line.split()[0] for line in acknowledged} == {"response", "answer", "job"}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def connect_and_trace(statements: list[str]) -> Connect:
    """The statements that are executed are added to the list, with their values."""

    def traced(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(statements.append)
        return connection

    return traced


async def test_no_operation_scans_a_table(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    statements: list[str] = []
    async with open_sqlite(str(path), Wakeups(), clock, connect=connect_and_trace(statements)) as database:
        store = SqlStore(database, files_in_memory())
        statements.clear()
        await store.put(record("r1", parent="r0"))
        await store.chain("ada", "r1")
        await store.keep_until("ada", ["r1", "r0"], int(clock.now) + 40 * DAY)
        await store.was_deleted("ada", "r0")
        await store.create_conversation(conversation("c1"), items("i1", "i2"))
        await database.write(put_as_before(record("r9")))
        await store.find_items("ada", ["in_r1", "i1", "i9"])
        await database.write(put_as_before(record("r10")))
        assert await store.index_items() == 1
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
        assert await store.sweep() == 4
    plans = {}
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")):
                steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
                plans[statement] = [step[3] for step in steps if IS_SCAN.match(step[3])]
    assert len(plans) > 40
    assert {statement: plan for statement, plan in plans.items() if plan} == {}


async def test_concurrent_operations_share_a_transaction(tmp_path: Path) -> None:
    statements: list[str] = []
    path = str(tmp_path / "responses.db")
    async with open_sqlite(path, Wakeups(), connect=connect_and_trace(statements)) as database:
        before = statements.count("COMMIT")
        # What is written in one turn of the loop is handed over together.
        await asyncio.gather(*(database.put(record(f"r{number}")) for number in range(200)))
        assert statements.count("COMMIT") - before == 1
        assert [text for text in statements if "SAVEPOINT" in text] == []


async def test_of_a_group_only_the_operation_fails_that_fails(tmp_path: Path) -> None:
    def half_done() -> Operation[None]:
        yield from responses.put(record("r3"), BEGINNING)
        raise IdTaken("r3")

    async with open_sqlite(str(tmp_path / "responses.db"), Wakeups()) as database:
        await database.put(record("r1"))
        puts = [database.put(record(f"r{number}")) for number in (1, 2)]
        outcomes = await asyncio.gather(*puts, database.write(half_done()), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [IdTaken, type(None), IdTaken]
        found = [await database.read(responses.get("ada", f"r{number}", BEGINNING)) for number in (1, 2, 3)]
        assert [each is not None for each in found] == [True, True, False]


async def test_a_group_with_a_change_that_cannot_be_undone_alone_is_not_acknowledged(tmp_path: Path) -> None:
    """Nothing that promises to fail before its first change does this, and if it did, nothing false would be said."""

    def half_done() -> Operation[None]:
        yield from responses.put(record("r2"), BEGINNING)
        raise IdTaken("r2")

    async with open_sqlite(str(tmp_path / "responses.db"), Wakeups()) as database:
        writes = [database.put(record("r1")), database.write(half_done(), fails_first=True)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable, StoreUnavailable]
        found = [await database.read(responses.get("ada", id, BEGINNING)) for id in ("r1", "r2")]
        assert found == [None, None]


async def test_what_was_written_right_before_the_end_is_stored(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    async with open_sqlite(path, Wakeups()) as database:
        writing = asyncio.ensure_future(database.put(record("r1")))
        await asyncio.sleep(0)
    await writing
    async with open_sqlite(path, Wakeups()) as database:
        assert await database.read(responses.get("ada", "r1", BEGINNING)) is not None


async def test_an_operation_alone_needs_no_savepoint_and_leaves_nothing_if_it_fails(tmp_path: Path) -> None:
    statements: list[str] = []

    def half_done() -> Operation[None]:
        yield from responses.put(record("r2"), BEGINNING)
        raise IdTaken("r2")

    async with open_sqlite(str(tmp_path / "responses.db"), Wakeups(), connect=connect_and_trace(statements)) as database:
        statements.clear()
        await database.put(record("r1"))
        assert [text for text in statements if "SAVEPOINT" in text] == []
        with pytest.raises(IdTaken):
            await database.write(half_done())
        assert await database.read(responses.get("ada", "r2", BEGINNING)) is None
        assert await database.read(responses.get("ada", "r1", BEGINNING)) is not None
        await database.put(record("r2"))


async def test_two_gateways_share_one_database(tmp_path: Path, clock: Clock) -> None:
    url = url_of(tmp_path / "responses.db")
    async with open_store(url, clock) as one, open_store(url, clock) as other:
        await asyncio.gather(*(store.put(record(f"{name}")) for name, store in zip("ab", (one, other), strict=True)))
        assert await one.get("ada", "b") == record("b")
        assert await other.get("ada", "a") == record("a")
        await asyncio.gather(*(one.enqueue(queued(f"r{number}"), b"{}") for number in range(10)))
        jobs = await asyncio.gather(*(store.claim("w", 60, 3) for store in [one, other] * 5))
        assert sorted(job.record.id for job in jobs if job) == [f"r{number}" for number in range(10)]


async def test_gateways_that_start_together_create_the_tables_once(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from antiphon.store import open_store\n"
        "async def main():\n"
        "    async with open_store(sys.argv[1]) as store:\n"
        "        assert await store.sweep() == 0\n"
        "asyncio.run(main())\n"
    )
    url = url_of(tmp_path / "new" / "responses.db")
    starts = [await asyncio.create_subprocess_exec(sys.executable, "-c", code, url) for _ in range(6)]
    assert [await process.wait() for process in starts] == [0] * 6


async def test_reads_do_not_wait_for_a_write(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_store(url_of(path), clock) as store:
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


async def test_a_database_that_stays_locked_is_an_error(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    impatient = partial(connect, busy_timeout=0.1)
    async with open_sqlite(str(path), Wakeups(), clock, connect=impatient) as database:
        store = SqlStore(database, files_in_memory())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable) as error:
                await store.put(record("r1"))
            assert (error.value.status, error.value.retry_after) == (503, 2.0)
            other.execute("ROLLBACK")
        await store.put(record("r1"))
        assert await store.get("ada", "r1") == record("r1")


async def test_an_operation_that_takes_too_long_times_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "responses.db"
    async with open_sqlite(str(path), Wakeups(), operation_timeout=0.1) as database:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await database.put(record("r1"))
            other.execute("ROLLBACK")
    assert "store_timeout" in caplog.text


async def test_an_answer_that_comes_too_late_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()

    def read_slowly() -> Operation[Record | None]:
        go_on.wait()
        return (yield from responses.get("ada", "r1", 0))

    def write_slowly() -> Operation[None]:
        go_on.wait()
        yield from responses.put(record("r1"), 0)

    async with open_sqlite(str(tmp_path / "responses.db"), Wakeups(), operation_timeout=0.1) as database:
        with pytest.raises(StoreUnavailable):
            await database.read(read_slowly())
        with pytest.raises(StoreUnavailable):
            await database.write(write_slowly())
        database.operation_timeout = OPERATION_TIMEOUT
        go_on.set()
        # Queued after the write that was late.
        await database.put(record("r2"))
        assert await database.read(responses.get("ada", "r2", 0)) is not None
    assert caplog.text.count("store_timeout") == 2
    assert "Exception in callback" not in caplog.text


async def test_a_database_from_before_the_first_version_gets_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with closing(sqlite3.connect(path)) as empty:
        assert empty.execute("PRAGMA user_version").fetchone() == (0,)
    async with open_store(url_of(path)) as store:
        assert await store.get("ada", "r1") is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)


async def test_a_database_of_the_first_version_is_brought_up_to_date(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_sqlite(str(path), Wakeups(), clock, migrations=MIGRATIONS[:1]) as database:
        await database.write(put_as_before(record("r1")))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        # A job as the first version wrote it.
        connection.execute(
            "INSERT INTO jobs (id, owner, available_at, worker, attempt, request) VALUES (?, ?, 0, 'w', 1, ?)", JOB
        )
        connection.commit()
    async with open_store(url_of(path), clock) as store:
        assert await store.get("ada", "r1") == record("r1")
        job = await store.claim("w1", 60, 3)
        assert job is not None
        assert (job.record.id, job.request, job.attempt, job.lost) == ("r1", b"{}", 2, 1)
        await store.give_back("w1", ["r1"])
        job = await store.claim("w1", 60, 3)
        assert job is not None
        assert (job.attempt, job.lost) == (3, 1)


async def test_items_of_an_older_database_are_indexed_in_small_transactions(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_sqlite(str(path), Wakeups(), clock, migrations=MIGRATIONS[:3]) as database:
        await asyncio.gather(*(database.write(put_as_before(record(f"r{number}"))) for number in range(220)))
        await database.write(put_as_before(queued("waiting")))
    statements: list[str] = []
    async with open_sqlite(str(path), Wakeups(), clock, connect=connect_and_trace(statements)) as database:
        store = SqlStore(database, files_in_memory())
        statements.clear()
        assert await store.index_items() == 220
        assert statements.count("COMMIT") >= 5
        assert (await store.find_items("ada", ["in_r0", "out_r219"])).keys() == {"in_r0", "out_r219"}
        assert await store.index_items() == 0


async def test_items_of_an_older_database_are_found_before_they_are_indexed(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    async with open_sqlite(str(path), Wakeups(), clock, migrations=MIGRATIONS[:3]) as database:
        for number in range(3):
            await database.write(put_as_before(record(f"r{number}")))
            await database.write(put_as_before(record(f"b{number}", "bob")))
        await database.write(put_as_before(record("damaged", output=b"no JSON")))
    with closing(sqlite3.connect(path)) as connection:
        # An item of a conversation as it was written then.
        connection.execute(f"INSERT INTO conversations ({conversations.COLUMNS}) VALUES (?, ?, ?, ?, ?)", OLD)
        connection.execute("INSERT INTO items (conversation, position, id, data) VALUES ('c1', 0, 'i1', ?)", (item("i1").data,))
        connection.commit()
    async with open_store(url_of(path), clock) as store:
        found = await store.find_items("ada", ["in_r1", "out_r2", "out_b1", "i1"])
        assert found.keys() == {"in_r1", "out_r2", "i1"}
        # Of the other owner, nothing was indexed.
        assert await store.index_items() == 3


async def test_items_that_are_written_one_after_the_other_are_neighbours_in_the_index(tmp_path: Path) -> None:
    """Otherwise each of them is in a page of its own, which each write puts into the log as a whole."""
    path = tmp_path / "responses.db"
    async with open_store(url_of(path)) as store:
        for number, owner in enumerate(("ada", "bob") * 50):
            # A tenth of a millisecond after the one before.
            answer = f"msg_{BEGINNING * 10**9 + number * 100_000:016x}{random_hex()}"
            await store.put(record(f"r{number:02}", owner, input=b"[]", output=b'[{"id":"%s"}]' % answer.encode()))
    with closing(sqlite3.connect(path)) as connection:
        written = [response for (response,) in connection.execute("SELECT response FROM response_items ORDER BY item")]
    assert len(written) == 100
    assert written == sorted(written)


async def test_items_that_others_index_while_they_are_looked_for_are_found(tmp_path: Path, clock: Clock) -> None:
    path = str(tmp_path / "responses.db")
    async with open_sqlite(path, Wakeups(), clock, migrations=MIGRATIONS[:3]) as database:
        await database.write(put_as_before(record("r1")))
    async with open_sqlite(path, Wakeups(), clock) as database, open_store(url_of(Path(path)), clock) as other:
        racing, interference = interposed(database)

        async def read_and_lose_the_race(operation: Operation[T]) -> T:
            result = await database.read(operation)
            await other.index_items()
            return result

        interference.instead["read"] = read_and_lose_the_race
        assert (await SqlStore(racing, files_in_memory()).find_items("ada", ["out_r1"])).keys() == {"out_r1"}


async def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with open_store(url_of(path)) as store:
        await store.put(record("r1"))
    broken = (*MIGRATIONS, ("ALTER TABLE responses ADD COLUMN extra text", "CREATE TABLE responses (id text)"))
    with pytest.raises(CannotOpen, match="already exists"):
        async with open_sqlite(str(path), Wakeups(), migrations=broken):
            pass
    async with open_store(url_of(path)) as store:
        assert await store.get("ada", "r1") == record("r1")
    with closing(sqlite3.connect(path)) as connection:
        assert "extra" not in [row[1] for row in connection.execute("PRAGMA table_info(responses)")]


async def reason(path: Path) -> str:
    with pytest.raises(CannotOpen) as error:
        async with open_store(url_of(path)):
            pass
    return str(error.value)


async def test_a_newer_database_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with open_store(url_of(path)):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
        # As a version before the note about older ones leaves it.
        connection.execute("DROP TABLE compatibility")
    message = await reason(path)
    assert f"version {NEWEST + 1}" in message
    assert "newer Antiphon" in message


async def test_a_file_that_is_not_a_database_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    path.write_bytes(b"This is a letter, not a database. " * 100)
    assert "not a database" in await reason(path)


async def test_another_programs_database_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE responses (id)")
    assert "another program's" in await reason(path)


async def test_a_path_that_cannot_be_written_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot open" in await reason(tmp_path / "file" / "responses.db")
    assert "cannot open" in await reason(tmp_path)


async def test_only_the_user_can_read_the_database(tmp_path: Path) -> None:
    path = tmp_path / "new" / "responses.db"
    async with open_store(url_of(path)) as store:
        await store.put(record("r1"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"responses.db": 0o600, "responses.db-wal": 0o600, "responses.db-shm": 0o600}


@pytest.mark.parametrize("url", ["", "sqlite:", "mysql://host/db", "responses.db"])
async def test_a_url_without_a_known_scheme_cannot_be_opened(url: str) -> None:
    with pytest.raises(CannotOpen, match="must be one of: sqlite:PATH, "):
        async with open_store(url):
            pass


async def test_the_default_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    assert default_url(tmp_path) == url_of(tmp_path / "responses.db")
