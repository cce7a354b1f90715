"""What the tests of the store share: a clock that they set, and functions that make records."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from typing import Any

import asyncpg
import msgspec

from antiphon.store import Store
from antiphon.store.memory.store import MemoryStore
from antiphon.store.operations import Many, Operation, Row, Statement, placeholders
from antiphon.store.records import Conversation, Event, Item, Record, item_ids
from antiphon.store.sql import item_index, responses

DAY = 86_400
BEGINNING = 1_800_000_000


class Clock:
    """Shows the same time until a test changes it."""

    def __init__(self) -> None:
        self.now = float(BEGINNING)

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


def record(id: str, owner: str = "ada", **members: object) -> Record:
    defaults: dict[str, object] = {
        "created_at": BEGINNING,
        "expires_at": BEGINNING + 30 * DAY,
        "status": "completed",
        "input": msgspec.json.encode([{"id": f"in_{id}", "type": "message"}]),
        "output": msgspec.json.encode([{"id": f"out_{id}", "type": "message"}]),
        "settings": msgspec.json.encode({"id": id, "model": "m"}),
    }
    return msgspec.convert({"id": id, "owner": owner, **defaults, **members}, Record)


# The columns of the versions that stored every background response for long.
COLUMNS_BEFORE = ", ".join(name for name in responses.FIELDS if name != "kept_after_end")
VALUES_BEFORE = placeholders(1, len(responses.FIELDS) - 1)


def values_before(record: Record) -> Row:
    return tuple(getattr(record, name) for name in COLUMNS_BEFORE.split(", "))


def put_as_before(record: Record) -> Operation[None]:
    """A put of the versions that had no index of items."""
    yield Statement(f"INSERT INTO responses ({COLUMNS_BEFORE}) VALUES ({VALUES_BEFORE})", values_before(record))


def finish_as_before(record: Record) -> Operation[None]:
    yield Statement("DELETE FROM jobs WHERE id = $1", (record.id,))
    yield Statement(f"UPDATE responses SET ({COLUMNS_BEFORE}) = ({VALUES_BEFORE}) WHERE id = $1", values_before(record))


def delete_as_before(id: str) -> Operation[None]:
    yield Statement("DELETE FROM responses WHERE id = $1", (id,))


# The versions whose index of items had digests as keys, whatever the ids were.


def digest(owner: str, id: str) -> bytes:
    return blake2b(id.encode(), digest_size=16, key=owner.encode()).digest()


def put_with_digests(record: Record, now: float) -> Operation[None]:
    text = f"INSERT INTO responses ({responses.COLUMNS}, items_indexed) VALUES ({placeholders(1, len(responses.FIELDS))}, true)"
    yield Statement(text, responses.record_values(record))
    yield Many(item_index.ADD, [(digest(record.owner, id), record.id, now) for id in record.item_ids])


def find_by_digests(owner: str, ids: Sequence[str]) -> Operation[set[str]]:
    """Which of the items such a version finds in responses. If it misses some, it indexes what is not indexed yet."""
    found = yield from _with_digests(owner, ids)
    if len(found) < len(ids):
        yield from _index_digests(owner)
        found = yield from _with_digests(owner, ids)
    return found


def _with_digests(owner: str, ids: Sequence[str]) -> Operation[set[str]]:
    keys = {digest(owner, id): id for id in ids}
    text = f"""SELECT i.item FROM response_items i JOIN responses r ON r.id = i.response
        WHERE i.item IN ({placeholders(2, len(keys))}) AND r.owner = $1"""
    return {keys[bytes(key)] for (key,) in (yield Statement(text, (owner, *keys)))}


def _index_digests(owner: str) -> Operation[None]:
    finished = "status NOT IN ('in_progress', 'queued')"
    text = f"SELECT id, input, output FROM responses WHERE NOT items_indexed AND {finished} AND owner = $1 ORDER BY id"
    for id, *lists in (yield Statement(text, (owner,))):
        yield Many(item_index.ADD, [(digest(owner, item), id, 0.0) for item in item_ids(*lists)])
        yield Statement("UPDATE responses SET items_indexed = true WHERE id = $1", (id,))


def queued(id: str, owner: str = "ada", **members: object) -> Record:
    return record(id, owner, **{"status": "queued", "output": b"[]", "background": True, **members})


def conversation(id: str, owner: str = "ada", **members: object) -> Conversation:
    defaults: dict[str, object] = {"created_at": BEGINNING, "expires_at": BEGINNING + 30 * DAY}
    return msgspec.convert({"id": id, "owner": owner, **defaults, **members}, Conversation)


def item(id: str, text: str = "") -> Item:
    return Item(id, msgspec.json.encode({"id": id, "text": text}))


def items(*ids: str) -> list[Item]:
    return [item(id) for id in ids]


def events(*numbers: int) -> list[Event]:
    return [Event(number, f"data: {number}\n\n".encode()) for number in numbers]


# How an empty store differs from a new one: in the highest number that was given to a job.
NUMBERS = "sqlite_sequence"


# What a response has used is kept when nothing else of it is.
USAGE = ("usage_entries", "usage_sums")


async def count_rows(url: str, store: Store) -> dict[str, int]:
    """How many rows each table of responses has, so that what is left of one is seen."""
    if isinstance(store, MemoryStore):
        tables = store._tables
        return {"rows": len(tables.rows), "items": len(tables._rows_with), "deleted": len(store._deleted)}
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name != ?", (NUMBERS,))
            counted = [name for (name,) in names.fetchall() if name not in USAGE]
            return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in counted}
    server = await asyncpg.connect(url)
    try:
        found = await server.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'antiphon'")
        counted = [name for (name,) in found if name not in USAGE]
        return {name: await server.fetchval(f"SELECT count(*) FROM antiphon.{name}") for name in counted}
    finally:
        await server.close()


class Interposed:
    """Stands before a store, or a database: `instead` has the operations that a test does in its place, by their names."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.instead: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.store, name)
        if not callable(member):
            return member

        def operation(*arguments: Any, **options: Any) -> Any:
            return self.instead.get(name, member)(*arguments, **options)

        return operation


def interposed(store: Any = None) -> tuple[Any, Interposed]:
    """A store for a gateway, and the same for a test that interferes with it. None: a new one in memory."""
    made = Interposed(store if store is not None else MemoryStore())
    return made, made
