"""A store as an older version leaves it: what it contains, and how it was recorded with the code of that version.

    PYTHONPATH=OLD/src:tests python tests/support/older_store.py VERSION [files]

writes to `tests/store/older/`, with VERSION as the number of migrations that the code in OLD has: the SQLite file as SQL, the
Postgres database as SQL, and every statement that the code sent to Postgres with its result. With `files`, the database of
uploaded files, without the statements. What was recorded once is never recorded again: an old version does not change.
"""

import asyncio
import base64
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "store" / "older"
BEGINNING = 1_800_000_000
DAY = 86_400
LEASE = 60.0
# Statements about the server's clock, of the listener, and of the pool of connections.
NOT_RECORDED = re.compile(r"\s*(SELECT extract\(|LISTEN|SELECT 1$|SELECT pg_advisory_unlock_all)")


def response(id: str, owner: str = "ada", **members: Any) -> dict[str, Any]:
    defaults = {
        "created_at": BEGINNING,
        "expires_at": BEGINNING + 30 * DAY,
        "status": "completed",
        "parent": None,
        "conversation": None,
        "background": False,
        "input": json.dumps([{"id": f"in_{id}", "type": "message"}]).encode(),
        "output": json.dumps([{"id": f"out_{id}", "type": "message"}]).encode(),
        "settings": json.dumps({"id": id, "model": "m"}).encode(),
    }
    return {"id": id, "owner": owner, **defaults, **members}


def waiting(id: str) -> dict[str, Any]:
    return response(id, status="queued", output=b"[]", background=True)


RESPONSES = {
    each["id"]: each
    for each in (
        response("first"),
        response("second", parent="first"),
        response("answer", conversation="talk"),
        response("of_bob", owner="bob"),
        response("finished", background=True),
        waiting("running") | {"status": "in_progress"},
        waiting("queued"),
        waiting("cancelled") | {"status": "cancelled"},
    )
}
DELETED = "deleted"
CONVERSATION: dict[str, Any] = {
    "id": "talk",
    "owner": "ada",
    "created_at": BEGINNING,
    "expires_at": BEGINNING + 30 * DAY,
    "metadata": b'{"topic":"tea"}',
}
ITEMS = {id: json.dumps({"id": id, "type": "message"}).encode() for id in ("said_1", "said_2", "said_3", "said_4")}
EVENTS = [(number, f"data: {number}\n\n".encode()) for number in range(3)]
REQUEST = b'{"model":"m","input":"Hi"}'


async def write_all(store: Any) -> None:
    """Everything above, by the methods that the store of every version has, under one name or another."""
    from antiphon.store.records import Conversation, Event, Item, Record

    lock = getattr(store, "lock_conversation", None) or store.take_turn
    put_and_unlock = getattr(store, "put_and_unlock", None) or store.finish_turn
    records = {id: Record(**members) for id, members in RESPONSES.items()}
    items = [Item(id, data) for id, data in ITEMS.items()]
    events = [Event(number, data) for number, data in EVENTS]
    for id in ("first", "second", "of_bob"):
        await store.put(records[id])
    await store.put(Record(**response(DELETED)))
    await store.delete("ada", DELETED)
    await store.create_conversation(Conversation(**CONVERSATION), items[:2])
    assert await lock("ada", "talk", "answer", LEASE)
    assert await put_and_unlock(records["answer"], items[2:])
    await store.enqueue(Record(**waiting("finished")), REQUEST)
    job = await store.claim("old", LEASE, 3)
    assert await store.renew("old", ["finished"], LEASE) == {"finished": False}
    assert await store.append_events("finished", "old", job.attempt, events[:2])
    assert await store.finish(records["finished"], "old", job.attempt, events[2:])
    await store.enqueue(Record(**waiting("running")), REQUEST)
    job = await store.claim("old", LEASE, 3)
    assert await store.append_events("running", "old", job.attempt, events[:2])
    await store.enqueue(Record(**waiting("cancelled")), REQUEST)
    assert await store.cancel("ada", "cancelled") == "cancelled"
    await store.enqueue(Record(**waiting("queued")), REQUEST)


async def read_all(store: Any) -> None:
    """What the gateway of this version reads. It is recorded, so that a newer database must give the same."""
    for id, members in RESPONSES.items():
        assert await store.get(members["owner"], id) is not None
    await store.chain("ada", "second")
    await store.get_conversation("ada", "talk")
    await store.conversation_items("ada", "talk")
    await store.list_items("ada", "talk", after="said_1", limit=2, ascending=True)
    await store.events("ada", "finished")
    await store.sweep()


# ---- recording -------------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]
    return value


def decode(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"])
    return [decode(each) for each in value] if isinstance(value, list) else value


def rows(result: Any) -> Any:
    """Of asyncpg: a list of rows, a status or nothing."""
    return [list(row) for row in result] if isinstance(result, list) else result


def recorded_statements(version: int) -> Iterator[tuple[str, str, list[Any], Any]]:
    for line in (FOLDER / f"{version}_statements.jsonl").read_text().splitlines():
        method, text, values, result = json.loads(line)
        yield method, text, decode(values), decode(result)


def record_statements(lines: list[str]) -> None:
    from asyncpg import Connection

    for method in ("execute", "executemany", "fetch"):
        setattr(Connection, method, _recorded(method, getattr(Connection, method), lines))


def _recorded(name: str, method: Any, lines: list[str]) -> Any:
    async def call(self: Any, text: str, *values: Any, **options: Any) -> Any:
        result = await method(self, text, *values, **options)
        if not NOT_RECORDED.match(text):
            given = [list(value) if isinstance(value, tuple | list) else value for value in values]
            lines.append(json.dumps([name, text, encode(given), encode(rows(result))]))
        return result

    return call


async def record_sqlite(version: int) -> None:
    from antiphon.store import open_store

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "responses.db"
        async with open_store(f"sqlite:{path}", lambda: float(BEGINNING)) as store:
            await write_all(store)
        dump_sqlite(path, version, FOLDER / f"{version}_sqlite.sql")


def dump_sqlite(path: Path, version: int, to: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        pragmas = [
            f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};"
            for name in ("application_id", "user_version")
        ]
        assert pragmas[1] == f"PRAGMA user_version = {version};"
        # Its tables of words are empty, and cannot be read from end to end.
        virtual = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'").fetchall()
        for name, _ in virtual:
            connection.execute(f"DROP TABLE {name}")
        to.write_text("\n".join([*pragmas, *connection.iterdump(), *(f"{sql};" for _, sql in virtual)]) + "\n")


async def record_postgres(version: int, url: str) -> None:
    from antiphon.store import open_store

    lines: list[str] = []
    async with open_store(url, lambda: float(BEGINNING)) as store:
        record_statements(lines)
        await write_all(store)
        await dump_postgres(url, "antiphon", FOLDER / f"{version}_postgres.sql")
        await read_all(store)
    (FOLDER / f"{version}_statements.jsonl").write_text("\n".join(lines) + "\n")


async def dump_postgres(url: str, schema: str, to: Path) -> None:
    dump = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", f"--schema={schema}", "--dbname", url]
    text = (await asyncio.to_thread(subprocess.run, dump, capture_output=True, text=True, check=True)).stdout
    kept = [line for line in text.splitlines() if line and not line.startswith(("--", "\\", "SET "))]
    await asyncio.to_thread(to.write_text, "\n".join(kept) + "\n")


# ---- the database of files -------------------------------------------------------------------------------------------

FILE: dict[str, Any] = {
    "id": "file-1",
    "owner": "ada",
    "created_at": BEGINNING,
    "expires_at": BEGINNING + 30 * DAY,
    "size": 3,
    "purpose": "batch",
    "filename": "a.jsonl",
    "content_type": None,
}


async def write_file(store: Any) -> None:
    from antiphon.store.files import files
    from antiphon.store.files.records import FileRecord

    assert await store.files.database.write(files.add(FileRecord(**FILE), None, 1000, BEGINNING)) is None


async def record_file_sqlite(version: int) -> None:
    from antiphon.store import open_store

    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"sqlite:{Path(folder) / 'responses.db'}", lambda: float(BEGINNING)) as store:
            await write_file(store)
        dump_sqlite(Path(folder) / "responses.files" / "files.db", version, FOLDER / f"files_{version}_sqlite.sql")


async def record_file_postgres(version: int, url: str) -> None:
    from antiphon.store import open_store
    from antiphon.store.postgres.database import FILE_SCHEMA

    async with open_store(url, lambda: float(BEGINNING)) as store:
        await write_file(store)
        await dump_postgres(url, FILE_SCHEMA, FOLDER / f"files_{version}_postgres.sql")


def main(version: int, *, files: bool) -> None:
    from support.postgres import PostgresServer

    FOLDER.mkdir(exist_ok=True)
    to_sqlite, to_postgres = (record_file_sqlite, record_file_postgres) if files else (record_sqlite, record_postgres)
    asyncio.run(to_sqlite(version))
    server = PostgresServer()
    server.create()
    server.start()
    try:
        asyncio.run(to_postgres(version, server.new_database()))
    finally:
        server.remove()


if __name__ == "__main__":
    main(int(sys.argv[1]), files="files" in sys.argv[2:])
