"""Databases of every older version are brought up to date with all that is in them, and older gateways can go on using them."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from support.older_store import (
    BEGINNING,
    CONVERSATION,
    DELETED,
    EVENTS,
    FILE,
    FOLDER,
    ITEMS,
    LEASE,
    REQUEST,
    RESPONSES,
    recorded_statements,
    rows,
)
from support.postgres import PostgresServer
from support.stores import Clock, find_by_digests, put_with_digests, queued, record

from antiphon.ids import new_id
from antiphon.store import CannotOpen, Store, open_store
from antiphon.store.files import files
from antiphon.store.files.batches import overview
from antiphon.store.files.opened import files_in_memory
from antiphon.store.files.records import FileRecord
from antiphon.store.files.schema import FILE_MIGRATIONS
from antiphon.store.postgres.database import SCHEMA, Timeouts, open_postgres, session_of
from antiphon.store.records import Conversation, Event, Item, Record
from antiphon.store.sql.schema import BREAKS_OLDER, MIGRATIONS
from antiphon.store.sql.store import SqlStore
from antiphon.store.sqlite.database import open_sqlite
from antiphon.store.wakeups import Wakeups

VERSIONS = range(1, len(MIGRATIONS) + 1)
# What an older gateway does not notice, unless by its time. A column that must have a value has a default.
ADDITIVE = re.compile(r"CREATE TABLE|CREATE INDEX|DROP INDEX|ALTER TABLE \w+ ADD COLUMN (?!.*NOT NULL(?!.*DEFAULT))")
FUTURE = ("CREATE TABLE future (id text PRIMARY KEY)",)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> PostgresServer:
    running: PostgresServer = request.getfixturevalue("postgres")
    return running


async def older_database(kind: str, version: int, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a database as that version left it."""
    text = (FOLDER / f"{version}_{kind}.sql").read_text()
    if kind == "sqlite":
        with closing(sqlite3.connect(folder / "responses.db")) as database:
            database.executescript(text)
        return f"sqlite:{folder / 'responses.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.new_database()
    connection = await asyncpg.connect(url)
    await connection.execute(text)
    await connection.close()
    return url


async def check_contents(store: Store, clock: Clock) -> None:
    for id, members in RESPONSES.items():
        assert await store.get(members["owner"], id) == Record(**members), id
    assert await store.get("bob", "first") is None
    assert await store.get("ada", DELETED) is None
    assert [link.id for link in await store.chain("ada", "second")] == ["first", "second"]
    assert await store.get_conversation("ada", "talk") == Conversation(**CONVERSATION)
    items = [Item(id, data) for id, data in ITEMS.items()]
    assert await store.conversation_items("ada", "talk") == items
    wanted = ["in_first", "out_second", "out_answer", "out_finished", "said_1", "said_4", "out_of_bob"]
    assert (await store.find_items("ada", wanted)).keys() == set(wanted) - {"out_of_bob"}
    finished, running = await store.events("ada", "finished"), await store.events("ada", "running")
    assert finished is not None
    assert running is not None
    events = [Event(number, data) for number, data in EVENTS]
    assert (finished.status, finished.events) == ("completed", events)
    assert (running.status, running.attempt, running.events) == ("in_progress", 1, events[:2])


async def finish_background_work(store: Store, clock: Clock) -> None:
    """A response that waited is run, and one whose gateway is gone is run again."""
    jobs = [await store.claim("new", LEASE, 3)]
    assert await store.claim("new", LEASE, 3) is None
    clock.forward(LEASE + 1)
    jobs += [await store.claim("newer", LEASE, 3) for _ in range(2)]
    claimed = [(job.record.id, job.request, job.attempt) for job in jobs if job is not None]
    assert claimed[0] == ("queued", REQUEST, 1)
    assert sorted(claimed[1:]) == [("queued", REQUEST, 2), ("running", REQUEST, 2)]
    assert await store.finish(Record(**RESPONSES["running"] | {"status": "completed"}), "newer", 2, [Event(0, b"data: 0\n\n")])
    done = await store.get("ada", "running")
    assert done is not None
    assert done.status == "completed"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_all_that_an_older_version_stored_is_there(
    kind: str, version: int, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest
) -> None:
    assert clock.now == BEGINNING
    url = await older_database(kind, version, request, tmp_path)
    async with open_store(url, clock) as store:
        await check_contents(store, clock)
        await store.put(record("new", parent="second"))
        assert len(await store.chain("ada", "new")) == 3
        await finish_background_work(store, clock)
    async with open_store(url, clock) as store:
        assert await store.get("ada", "new") == record("new", parent="second")


def test_every_version_has_its_recordings() -> None:
    """With a new migration, record the version before it: see tests/support/older_store.py."""
    names = {f"{version}_{name}" for version in VERSIONS for name in ("sqlite.sql", "postgres.sql", "statements.jsonl")}
    assert {file.name for file in FOLDER.iterdir()} >= names


FILE_VERSIONS = range(1, len(FILE_MIGRATIONS))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("version", FILE_VERSIONS)
async def test_the_files_of_an_older_version_are_there_and_its_database_has_all_that_is_new(
    kind: str, version: int, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest
) -> None:
    text = (FOLDER / f"files_{version}_{kind}.sql").read_text()
    if kind == "sqlite":
        (tmp_path / "responses.files").mkdir()
        with closing(sqlite3.connect(tmp_path / "responses.files" / "files.db")) as database:
            database.executescript(text)
        url = f"sqlite:{tmp_path / 'responses.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_database()
        connection = await asyncpg.connect(url)
        await connection.execute(text)
        await connection.close()
    async with open_store(url, clock) as store:
        stored = store.files.database
        found = await stored.read(files.find("ada", [FILE["id"]], BEGINNING))
        assert found == {FILE["id"]: FileRecord(**FILE)}
        assert (await stored.read(overview(clock.now))).running == []


@pytest.mark.parametrize("statement", [statement for migration in FILE_MIGRATIONS[1:] for statement in migration])
def test_a_migration_of_the_files_only_adds(statement: str) -> None:
    assert ADDITIVE.match(statement) or statement.startswith("INSERT INTO")


async def replay(connection: Any, statements: list[tuple[str, str, list[Any], Any]]) -> None:
    """The statements of an older gateway, each of which must do what it did then."""
    for method, text, values, result in statements:
        assert rows(await getattr(connection, method)(text, *values)) == result, text


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("upgrade", ["before", "meanwhile"])
async def test_an_older_gateway_does_all_it_did_after_a_newer_one_has_migrated(
    version: int, upgrade: str, server: PostgresServer, clock: Clock
) -> None:
    url = server.new_database()
    statements = list(recorded_statements(version))
    ends = [at for at, (_, text, _, _) in enumerate(statements, 1) if text == "COMMIT"]
    moment = ends[len(ends) // 2] if upgrade == "meanwhile" else 0
    async with open_postgres(url, Wakeups(), clock, migrations=MIGRATIONS[:version]):
        pass
    connection = await asyncpg.connect(url, server_settings=session_of(SCHEMA))
    await replay(connection, statements[:moment])
    async with open_store(url, clock) as newer:
        # Its own work does not disturb the older one.
        await newer.put(record("new", owner="carol"))
        await newer.index_items()
        await replay(connection, statements[moment:])
        await connection.close()
        await check_contents(newer, clock)
        assert await newer.get("carol", "new") is not None


def with_new_ids(response: str, owner: str = "ada", **members: object) -> tuple[Record, list[str]]:
    """A record whose items have ids that were made here, and these ids."""
    ids = [new_id("msg"), new_id("msg")]
    contents = ("input", "output") if members.get("status") != "queued" else ("input",)
    lists = {name: msgspec.json.encode([{"id": id, "type": "message"}]) for name, id in zip(contents, ids, strict=False)}
    return record(response, owner, **lists, **members), ids[: len(contents)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_gateways_with_and_without_digests_as_keys_of_items_find_what_the_other_one_wrote(
    kind: str, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest
) -> None:
    url = await older_database(kind, 9, request, tmp_path)
    async with open_store(url, clock) as store:
        assert isinstance(store, SqlStore)
        older = store._database
        # What has ended in the older database.
        await store.index_items()
        mine, ids = with_new_ids("mine")
        theirs, their_ids = with_new_ids("theirs")
        hidden, hidden_ids = with_new_ids("hidden", kept_after_end=600)
        running, running_ids = with_new_ids("running_too", status="queued", output=b"[]", background=True)
        await store.put(mine)
        await store.put(hidden)
        await store.enqueue(running, b"{}")
        await older.write(put_with_digests(theirs, clock.now))
        every = [*ids, *their_ids, *running_ids]
        assert await store.index_items() == 0
        assert (await store.find_items("ada", [*every, *hidden_ids])).keys() == set(every)
        assert await older.write(find_by_digests("ada", [*every, *hidden_ids])) == set(every)
        assert await older.write(find_by_digests("bob", ids)) == set()
        # What both have indexed is found once, and nothing is left to do.
        assert await store.find_items("ada", ids) == {id: b'{"id":"%s","type":"message"}' % id.encode() for id in ids}
        assert await store.index_items() == 0
        # Both find what has got another owner, also what only one of them has indexed.
        latest, latest_ids = with_new_ids("latest")
        await store.put(latest)
        every += latest_ids
        await store.move_owner("ada", "carol")
        assert (await store.find_items("carol", every)).keys() == set(every)
        assert await older.write(find_by_digests("carol", every)) == set(every)
        assert await store.find_items("ada", every) == {}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_older_gateway_finds_the_items_of_what_a_newer_one_has_finished(
    kind: str, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest
) -> None:
    url = await older_database(kind, 9, request, tmp_path)
    async with open_store(url, clock) as store:
        assert isinstance(store, SqlStore)
        await store.enqueue(queued("background"), b"{}")
        while (job := await store.claim("new", LEASE, 3)) is not None and job.record.id != "background":
            pass
        finished, ids = with_new_ids("background", background=True)
        assert await store.finish(finished, "new", 1, [])
        assert await store._database.write(find_by_digests("ada", ids)) == set(ids)
        assert (await store.find_items("ada", ids)).keys() == set(ids)


@pytest.mark.parametrize("statement", [statement for migration in MIGRATIONS for statement in migration])
def test_a_migration_only_adds_unless_it_says_that_it_breaks_older_versions(statement: str) -> None:
    breaking = {each for migration in MIGRATIONS if BREAKS_OLDER in migration for each in migration}
    assert statement in breaking or ADDITIVE.match(statement)


def test_a_column_without_a_default_does_not_only_add() -> None:
    assert not ADDITIVE.match("ALTER TABLE responses ADD COLUMN extra text NOT NULL")
    assert not ADDITIVE.match("ALTER TABLE responses DROP COLUMN parent")
    assert not ADDITIVE.match("CREATE UNIQUE INDEX one ON items (id)")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_gateway_uses_newer_tables_that_only_have_more(
    kind: str, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    url = await older_database(kind, len(MIGRATIONS), request, tmp_path)
    await open_as(url, clock, (*MIGRATIONS, FUTURE))
    async with open_store(url, clock) as store:
        await check_contents(store, clock)
        await store.put(record("old"))
    noted = [vars(line)["members"] for line in caplog.records if line.message == "newer_tables"]
    assert [(each["version"], each["supported"]) for each in noted] == [(len(MIGRATIONS) + 1, len(MIGRATIONS))]
    # The newer one finds its tables as it left them.
    await open_as(url, clock, (*MIGRATIONS, FUTURE))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_gateway_refuses_newer_tables_that_it_cannot_use(
    kind: str, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest
) -> None:
    url = await older_database(kind, len(MIGRATIONS), request, tmp_path)
    await open_as(url, clock, (*MIGRATIONS, (BREAKS_OLDER, *FUTURE)))
    with pytest.raises(CannotOpen, match=f"tables of version {len(MIGRATIONS) + 1}.*Use a newer Antiphon"):
        async with open_store(url, clock):
            pass
    # One that only adds, after it, does not make them usable again.
    await open_as(url, clock, (*MIGRATIONS, (BREAKS_OLDER, *FUTURE), ("CREATE TABLE more (id text)",)))
    with pytest.raises(CannotOpen, match="Use a newer Antiphon"):
        async with open_store(url, clock):
            pass


async def open_as(url: str, clock: Clock, migrations: tuple[tuple[str, ...], ...]) -> None:
    """What the gateway of another version does with the database."""
    if url.startswith("sqlite:"):
        async with open_sqlite(url.removeprefix("sqlite:"), Wakeups(), clock, migrations=migrations) as database:
            await check_contents(SqlStore(database, files_in_memory()), clock)
    else:
        async with open_postgres(url, Wakeups(), clock, timeouts=Timeouts(open=0.0), migrations=migrations) as server:
            await check_contents(SqlStore(server, files_in_memory()), clock)
