"""Postgres: several gateways with one server, a server that restarts or hangs, and a database that cannot be used."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest
from msgspec import structs
from support.commands import python_path
from support.postgres import PostgresServer
from support.stores import (
    DAY,
    Clock,
    conversation,
    delete_as_before,
    events,
    finish_as_before,
    items,
    put_as_before,
    queued,
    record,
)

from antiphon.errors import StoreUnavailable
from antiphon.installation import missing_extra
from antiphon.store import CannotOpen, Store, open_store
from antiphon.store.account_records import HOUR, Counts, Delivery, StoredKey, UsageEntry, UsageKind
from antiphon.store.files.opened import files_in_memory
from antiphon.store.operations import Operation, Statement
from antiphon.store.postgres.database import RETRY_DELAY, Timeouts, open_postgres
from antiphon.store.records import Record
from antiphon.store.sql import item_index
from antiphon.store.sql.schema import MIGRATIONS
from antiphon.store.sql.store import SqlStore
from antiphon.store.wakeups import Wakeups
from bench.processes import free_port

T = TypeVar("T")
WORKER = Path(__file__).parents[2] / "support" / "job_worker.py"
NEWEST = len(MIGRATIONS)
# An operation that takes longer than its timeout and the cleanup hangs.
HANG = Timeouts().operation + 5
FAR_FUTURE = 2**40


@pytest.fixture
def server(request: pytest.FixtureRequest) -> PostgresServer:
    running: PostgresServer = request.getfixturevalue("postgres")
    return running


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_database()


@contextlib.contextmanager
def suspended(server: PostgresServer) -> Iterator[None]:
    server.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal_all(signal.SIGCONT)


async def without_hanging(operation: Awaitable[T]) -> T:
    async with asyncio.timeout(HANG):
        return await operation


async def get_when_available(store: Store, id: str) -> Record | None:
    """The response, as soon as the store answers again."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StoreUnavailable):
                return await store.get("ada", id)
            await asyncio.sleep(0.05)


@pytest.mark.timeout(120)
async def test_a_server_that_restarts_under_load_loses_nothing_and_no_operation_hangs(server: PostgresServer, url: str) -> None:
    acknowledged: list[str] = []
    failures = 0
    over = False
    progress = asyncio.Condition()

    async def write(store: Store, name: str) -> None:
        nonlocal failures
        number = 0
        while not over:
            number += 1
            try:
                await without_hanging(store.put(record(f"{name}-{number}", expires_at=FAR_FUTURE)))
                acknowledged.append(f"{name}-{number}")
                async with progress:
                    progress.notify_all()
                await without_hanging(store.chain("ada", f"{name}-{number}"))
            except StoreUnavailable:
                failures += 1
                await asyncio.sleep(0.01)

    async with open_store(url) as store:
        writers = [asyncio.create_task(write(store, f"w{number}")) for number in range(8)]
        for number in (signal.SIGQUIT, signal.SIGINT, signal.SIGQUIT):
            enough = len(acknowledged) + 100
            async with progress:
                await progress.wait_for(lambda: len(acknowledged) >= enough)  # noqa: B023
            await asyncio.to_thread(server.stop, number)
            await asyncio.to_thread(server.start)
            await get_when_available(store, "anything")
        over = True
        await asyncio.gather(*writers)
        missing = [id for id in acknowledged if await store.get("ada", id) is None]
    assert missing == []
    assert failures > 0


SCANS = """
SELECT relname, seq_scan, idx_scan FROM pg_stat_user_tables
WHERE schemaname = 'antiphon' AND relname NOT IN ('version', 'compatibility')"""


async def use_accounts(store: Store, id: str, clock: Clock) -> None:
    accounts, now = store.accounts, int(clock.now)
    entry = UsageEntry(id, now - 1000, UsageKind("ada", "m", "http"), Counts(1))
    await store.put(record(f"counted-{id}", usage=structs.replace(entry, id=f"counted-{id}")))
    await accounts.add_usage([entry])
    await accounts.usage(now - DAY, now, HOUR, "ada")
    await accounts.usage(now - DAY, now, HOUR)
    await accounts.sum_up_usage()
    await accounts.forget_usage(now - 30 * DAY)
    await accounts.rotate_key(StoredKey(hash=id, name=f"key-{id}", hint="", created_at=now), now)
    await accounts.end_keys(f"key-{id}", now)
    await accounts.limit_key(f"key-{id}", b"{}")
    await accounts.keys()
    await accounts.add_deliveries([Delivery(id, "hook", now, b"{}")])
    await accounts.claim_deliveries("hook", 60, 10)
    await accounts.postpone_delivery(id, 1)
    await accounts.delivered(id)
    await accounts.expire_deliveries(now - DAY)
    await store.delete("ada", f"counted-{id}")


@pytest.mark.timeout(60)
async def test_no_operation_scans_a_table(url: str, clock: Clock) -> None:
    async with open_store(url, clock) as store:
        for number in range(50):
            id, conversation_id = f"r{number}", f"c{number}"
            await store.put(record(f"first-{id}"))
            await store.chain("ada", f"first-{id}")
            await store.keep_until("ada", [f"first-{id}"], int(clock.now) + 40 * DAY)
            await store.was_deleted("ada", id)
            await store.find_items("ada", [f"in_first-{id}", "i1", "i9"])
            assert await store.index_items() == 0
            assert await store.sweep() == 0
            await store.create_conversation(conversation(conversation_id), items("i1", "i2"))
            await store.list_items("ada", conversation_id, after="i1")
            await store.lock_conversation("ada", conversation_id, id, 60)
            await store.enqueue(queued(id, conversation=conversation_id), b"{}")
            assert await store.claim("w1", 60, 3)
            await store.renew("w1", [id], 60)
            await store.append_events(id, "w1", 1, events(0))
            await store.events("ada", id)
            assert await store.finish(queued(id, conversation=conversation_id), "w1", 1, events(1), items("i3"))
            await store.owner_of(id)
            assert not await store.unlock_conversation("ada", conversation_id, "none")
            await store.delete_conversation("ada", conversation_id)
            await store.delete("ada", id)
            await use_accounts(store, id, clock)
        assert await store.move_owner("ada", "bob") == 50
        clock.forward(100 * DAY)
        assert await store.sweep() == 50
    connection = await asyncpg.connect(url)
    scans: dict[str, tuple[int, int]] = {}
    # The server updates the counts when its processes end.
    while not scans or min(by_index for _, by_index in scans.values()) < 50:
        scans = {name: (sequential, by_index) for name, sequential, by_index in await connection.fetch(SCANS)}
    await connection.close()
    # Creating an index scans its table once.
    assert {name: sequential for name, (sequential, _) in scans.items() if sequential > 8} == {}


@pytest.mark.timeout(60)
async def test_no_statement_is_compiled(url: str) -> None:
    """Postgres takes a plan with a scan for a costly one, because scans are off."""

    def setting() -> Operation[str]:
        rows = yield Statement("SELECT current_setting('jit')")
        return str(rows[0][0])

    async with open_store(url) as store:
        assert await store.files.database.read(setting()) == "off"


async def test_operations_of_a_server_that_hangs_time_out(server: PostgresServer, url: str) -> None:
    async with open_postgres(url, Wakeups(), timeouts=Timeouts(operation=0.5, cleanup=0.2)) as database:
        store = SqlStore(database, files_in_memory())
        await store.put(record("r1", expires_at=FAR_FUTURE))
        with suspended(server):
            operations: list[Awaitable[object]] = [
                # More than fit into one group: those of later groups do not wait for earlier groups to fail.
                *(store.put(record(f"p{number}")) for number in range(3000)),
                store.get("ada", "r1"),
                store.claim("w1", 60, 3),
                *(store.delete("ada", f"r{number}") for number in range(20)),
            ]
            outcomes = await without_hanging(asyncio.gather(*operations, return_exceptions=True))
            assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3022
        assert await get_when_available(store, "r1") is not None


@pytest.mark.timeout(60)
async def test_followers_are_woken_by_another_gateway_also_after_a_restart(server: PostgresServer, url: str) -> None:
    async with open_store(url, poll=1000.0) as one, open_store(url, poll=1000.0) as other:
        await one.enqueue(queued("r1", expires_at=FAR_FUTURE), b"{}")
        job = await one.claim("w1", 1000, 3)
        assert job is not None
        with other.follow("r1") as wakeup, other.follow_jobs() as jobs:
            await one.append_events("r1", "w1", job.attempt, events(0))
            await wakeup.wait()
            await one.enqueue(queued("r2", expires_at=FAR_FUTURE), b"{}")
            await jobs.wait()
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            await get_when_available(one, "r1")
            # The listener has reconnected, and wakes all subscribers.
            await wakeup.wait()
            assert await one.finish(job.record, "w1", job.attempt, events(1))
            await wakeup.wait()
            progress = await other.events("ada", "r1")
            assert progress is not None
            assert progress.events == events(0, 1)


@pytest.mark.timeout(60)
async def test_processes_that_claim_concurrently_share_the_jobs(url: str) -> None:
    async with open_store(url) as store:
        await asyncio.gather(*(store.enqueue(queued(f"r{number}", expires_at=FAR_FUTURE), b"{}") for number in range(150)))
        environment = os.environ | {"PYTHONPATH": python_path()}
        workers = [
            await asyncio.create_subprocess_exec(
                sys.executable, str(WORKER), url, name, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            for name in ("one", "two")
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert await worker.stdout.readline() == b"ready\n"
        claimed = [out.decode().split() for out, _ in await asyncio.gather(*(worker.communicate(b"\n") for worker in workers))]
        assert [worker.returncode for worker in workers] == [0, 0]
        assert sorted(claimed[0] + claimed[1]) == sorted(f"r{number}" for number in range(150))
        assert all(claimed)
        for number in range(150):
            progress = await store.events("ada", f"r{number}")
            assert progress is not None
            assert (progress.status, progress.attempt, progress.events) == ("completed", 1, events(0, 1))


async def test_leases_use_the_clock_of_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(url) as one:
        # A gateway whose own clock is wrong.
        monkeypatch.setattr("time.time", lambda: 4e9)
        async with open_store(url) as other:
            await one.enqueue(queued("r1", expires_at=FAR_FUTURE), b"{}")
            assert await one.claim("w1", 0.5, 3)
            assert await other.claim("w2", 60, 3) is None
            job = None
            while job is None:
                job = await other.claim("w2", 60, 3)
            assert job.attempt == 2


async def test_gateways_that_start_together_create_the_tables_once(url: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opening = (stack.enter_async_context(open_store(url)) for _ in range(6))
        stores = await asyncio.gather(*opening)
        assert [await store.sweep() for store in stores] == [0] * 6


async def test_a_newer_database_cannot_be_opened(url: str) -> None:
    async with open_store(url):
        pass
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE antiphon.version SET number = $1", NEWEST + 1)
    # As a version before the note about older ones leaves it.
    await connection.execute("DROP TABLE antiphon.compatibility")
    await connection.close()
    with pytest.raises(CannotOpen, match=f"version {NEWEST + 1}.*newer Antiphon"):
        async with open_store(url):
            pass


async def test_a_database_of_the_first_version_is_brought_up_to_date(url: str, clock: Clock) -> None:
    async with open_postgres(url, Wakeups(), clock, migrations=MIGRATIONS[:1]) as database:
        await database.write(put_as_before(record("r1")))
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT number FROM antiphon.version") == 1
    # A job as the first version wrote it.
    text = "INSERT INTO antiphon.jobs (id, owner, available_at, worker, attempt, request) VALUES ('r1', 'ada', 0, 'w', 1, '{}')"
    await connection.execute(text)
    await connection.close()
    async with open_store(url, clock) as store:
        assert await store.get("ada", "r1") == record("r1")
        job = await store.claim("w1", 60, 3)
        assert job is not None
        assert (job.record.id, job.request, job.attempt, job.lost) == ("r1", b"{}", 2, 1)
        await store.give_back("w1", ["r1"])
        job = await store.claim("w1", 60, 3)
        assert job is not None
        assert (job.attempt, job.lost) == (3, 1)


async def test_an_older_gateway_can_use_the_same_database(url: str, clock: Clock) -> None:
    async with open_store(url, clock) as store, open_postgres(url, Wakeups(), clock) as older:
        await store.put(record("new"))
        await older.write(put_as_before(record("old")))
        assert (await store.find_items("ada", ["out_new", "out_old"])).keys() == {"out_new", "out_old"}
        # It finishes a response that this version has queued.
        await store.enqueue(queued("r1"), b"{}")
        assert await store.claim("older", 60, 3)
        await older.write(finish_as_before(record("r1", background=True)))
        assert (await store.find_items("ada", ["in_r1", "out_r1"])).keys() == {"in_r1", "out_r1"}
        # And one that is not to be stored: it writes that it is stored for long, and indexes its items.
        await store.enqueue(queued("r2", kept_after_end=600), b"{}")
        assert await store.claim("older", 60, 3)
        await older.write(finish_as_before(record("r2", background=True)))
        await older.write(item_index.add(record("r2"), clock.now))
        assert await store.find_items("ada", ["in_r2", "out_r2"]) == {}
        assert await store.sweep() == 0
        clock.forward(600)
        assert await store.get("ada", "r2") is None
        assert await store.sweep() == 1
        # It does not remove entries from the index, so the database does.
        await older.write(delete_as_before("new"))
        assert await store.find_items("ada", ["out_new"]) == {}
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM antiphon.response_items WHERE response = 'new'") == 0
    await connection.close()


async def test_gateways_that_index_an_older_database_together_do_it_once(url: str, clock: Clock) -> None:
    async with open_postgres(url, Wakeups(), clock, migrations=MIGRATIONS[:3]) as database:
        for number in range(200):
            await database.write(put_as_before(record(f"r{number}")))
    async with open_store(url, clock) as one, open_store(url, clock) as other:
        indexed = asyncio.gather(one.index_items(), other.index_items())
        found = await one.find_items("ada", [f"out_r{number}" for number in range(200)])
        assert len(found) == 200
        assert sum(await indexed) <= 200
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM antiphon.response_items") == 400
    await connection.close()


async def test_a_migration_that_fails_leaves_the_database_as_it_was(url: str, clock: Clock) -> None:
    async with open_store(url, clock) as store:
        await store.put(record("r1"))
    broken = ("ALTER TABLE responses ADD COLUMN extra text", "CREATE TABLE responses (id text)")
    with pytest.raises(CannotOpen, match="already exists"):
        async with open_postgres(url, Wakeups(), timeouts=Timeouts(open=0.0), migrations=(*MIGRATIONS, broken)):
            pass
    async with open_store(url, clock) as store:
        assert await store.get("ada", "r1") == record("r1")
        await store.put(record("r2"))


async def test_a_database_that_does_not_exist_cannot_be_opened(url: str) -> None:
    with pytest.raises(CannotOpen, match="does not exist"):
        async with open_store(url.replace("/test_", "/none_")):
            pass


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [(record.message, vars(record)["members"]) for record in caplog.records]


async def test_a_server_that_refuses_connections_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    url = f"postgresql://ada:s3cret@127.0.0.1:{port}/answers"
    where = f"127.0.0.1:{port}, database answers"
    # Long enough for a second attempt: the reason is logged at the first one, and only there.
    with pytest.raises(CannotOpen) as failed:
        async with open_postgres(url, Wakeups(), timeouts=Timeouts(reach=RETRY_DELAY / 2, open=600)):
            pass
    assert str(failed.value).startswith(f"cannot reach Postgres at {where}: connection refused. Start the server, or ")
    facts = {"store": where, "reason": "connection refused", "seconds_at_most": RETRY_DELAY / 2}
    assert warnings(caplog) == [("waiting for store", facts)]
    assert "s3cret" not in caplog.text + str(failed.value)


async def test_a_host_or_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    for url, said in (
        ("postgresql://ada@nowhere.invalid/db", "nowhere.invalid:5432, database db: the name of the host is not known"),
        (f"postgresql://ada@/db?host={tmp_path}", f"{tmp_path}, database db: no such file or directory"),
    ):
        with pytest.raises(CannotOpen, match=re.escape(f"cannot reach Postgres at {said}")):
            async with open_postgres(url, Wakeups(), timeouts=Timeouts(reach=0.0, open=600)):
                pass


async def test_a_server_that_accepts_connections_is_waited_for_longer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/db"
        with pytest.raises(CannotOpen, match="database db: no answer in time"):
            async with open_postgres(url, Wakeups(), timeouts=Timeouts(connect=0.1, reach=600, open=0.0)):
                pass


@pytest.mark.timeout(60)
async def test_opening_waits_for_a_server_that_is_starting(server: PostgresServer, url: str) -> None:
    await asyncio.to_thread(server.stop)
    opening = asyncio.create_task(_open(url, Timeouts(reach=50)))
    await asyncio.to_thread(server.start)
    await opening


async def _open(url: str, timeouts: Timeouts) -> None:
    async with open_postgres(url, Wakeups(), timeouts=timeouts) as database:
        assert await database.size(1) >= 0


async def test_without_asyncpg_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.store.postgres.database", None)
    with pytest.raises(CannotOpen, match=re.escape(missing_extra("the Postgres store", "postgres"))):
        async with open_store("postgresql://localhost/db"):
            pass


async def test_other_tables_of_the_database_are_not_changed(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE responses (mine text)")
    async with open_store(url) as store:
        await store.put(record("r1", expires_at=FAR_FUTURE))
        assert await store.get("ada", "r1") is not None
    assert await connection.fetchval("SELECT count(*) FROM public.responses") == 0
    await connection.close()
