"""Operations on vector stores. Whose they are is part of every statement. What was deleted is removed later, in parts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from antiphon.store.files.records import NEVER, FileCounts, VectorStoreRecord
from antiphon.store.operations import Change, Operation, Row, Statement, Wake, in_groups, placeholders
from antiphon.store.sql import owners
from antiphon.store.sql.listings import RowList, RowPage, list_rows

# The topic of indexers that wait for a file to index, or for a change of one that they index.
INDEXING = "indexing"
DAY = 86_400

COLUMNS = "id, owner, created_at, expires_at, last_active_at, details"
_INSERT = f"INSERT INTO vector_stores ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)"
_UPDATE = "UPDATE vector_stores SET expires_at = $3, last_active_at = $4, details = $5 WHERE id = $1 AND owner = $2"
_COUNTS = """
SELECT store, status, count(*), CAST(sum(size) AS bigint) FROM vector_store_files
WHERE store IN ({ids}) GROUP BY store, status"""
# Several files of a store are always locked in this order: otherwise Postgres could deadlock.
LOCK = "SELECT 1 FROM vector_store_files WHERE {condition} ORDER BY store, file FOR UPDATE"
_CANCEL = (
    "UPDATE vector_store_files SET status = 'cancelled', holder = NULL, size = 0 WHERE store = $1 AND status = 'in_progress'"
)
DISCARD = "INSERT INTO discarded_documents (store, document) VALUES ($1, $2) ON CONFLICT (store, document) DO NOTHING"
# Stores whose rows were removed in one transaction, and rows of their files.
MOST_REMOVED = 500


class Details(msgspec.Struct, omit_defaults=True):
    expires_after_days: int | None = None
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str] = {}


class Counted(NamedTuple):
    record: VectorStoreRecord
    counts: FileCounts


class Room(NamedTuple):
    """How many bytes of text there may be in the chunks of one owner, and of everybody."""

    owned: int | None
    all: int


class CountedPage(NamedTuple):
    stores: list[Counted]
    has_more: bool


def expiry(days: int | None, last_active_at: int) -> int:
    return NEVER if days is None else last_active_at + days * DAY


def create(record: VectorStoreRecord, most: int) -> Operation[bool]:
    """False: the owner has `most` already."""
    rows = yield Statement("SELECT count(*) FROM vector_stores WHERE owner = $1", (record.owner,))
    if rows[0][0] >= most:
        return False
    yield Statement(_INSERT, (record.id, record.owner, record.created_at, *_changeable(record)))
    return True


def get(owner: str, id: str, *, locked: bool = False) -> Operation[VectorStoreRecord | None]:
    """Also one that has expired. `locked`: nobody else changes it, or adds files to it, before this operation ends."""
    lock = " FOR UPDATE" if locked else ""
    rows = yield Statement(f"SELECT {COLUMNS} FROM vector_stores WHERE id = $1 AND owner = $2{lock}", (id, owner))
    return row_to_record(rows[0]) if rows else None


def counted(owner: str, id: str) -> Operation[Counted | None]:
    record = yield from get(owner, id)
    return None if record is None else Counted(record, (yield from count_files(id)))


def count_files(store: str) -> Operation[FileCounts]:
    return (yield from _count([store]))[store]


def _count(stores: Sequence[str]) -> Operation[dict[str, FileCounts]]:
    rows = (yield Statement(_COUNTS.format(ids=placeholders(1, len(stores))), stores)) if stores else []
    return {store: rows_to_counts([row[1:] for row in rows if row[0] == store]) for store in stores}


def rows_to_counts(rows: Sequence[Row]) -> FileCounts:
    """Of rows with a status, its number of files, and their size."""
    return FileCounts(**{status: number for status, number, _ in rows}, size=sum(size for _, _, size in rows))


def room_left(owner: str, room: Room) -> Operation[int]:
    """Below 0: more is used. What is being indexed counts as soon as its size is known."""
    total = yield Statement("SELECT CAST(coalesce(sum(size), 0) AS bigint) FROM vector_store_files")
    if room.owned is None:
        return room.all - int(total[0][0])
    text = "SELECT CAST(coalesce(sum(size), 0) AS bigint) FROM vector_store_files WHERE owner = $1"
    owned = yield Statement(text, (owner,))
    return min(room.all - int(total[0][0]), room.owned - int(owned[0][0]))


def list_stores(owner: str, page: RowPage) -> Operation[CountedPage]:
    listed = yield from list_rows(RowList("vector_stores", COLUMNS, "id", "owner = $1", (owner,)), page)
    counts = yield from _count([row[0] for row in listed.rows])
    return CountedPage([Counted(row_to_record(row), counts[row[0]]) for row in listed.rows], listed.has_more)


def update(record: VectorStoreRecord) -> Operation[bool]:
    return bool((yield Change(_UPDATE, (record.id, record.owner, *_changeable(record))))[0][0])


def touch(owner: str, ids: Sequence[str], now: float) -> Operation[None]:
    """They are used now, unless they have expired."""
    for id in ids:
        record = yield from get(owner, id, locked=True)
        if record is not None and record.last_active_at < int(now) < record.expires_at:
            active = msgspec.structs.replace(
                record, last_active_at=int(now), expires_at=expiry(record.expires_after_days, int(now))
            )
            yield from update(active)


def delete(owner: str, id: str) -> Operation[bool]:
    """Nobody sees it any more. `remove_some` removes what it had."""
    removed = yield Change("DELETE FROM vector_stores WHERE id = $1 AND owner = $2", (id, owner))
    if not removed[0][0]:
        return False
    yield from _discard(id)
    return True


def discard_expired(expired_before: float) -> Operation[int]:
    text = "SELECT id FROM vector_stores WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED"
    rows = yield Statement(text, (int(expired_before), MOST_REMOVED))
    for (id,) in rows:
        yield Statement("DELETE FROM vector_stores WHERE id = $1", (id,))
        yield from _discard(id)
    return len(rows)


def _discard(id: str) -> Operation[None]:
    yield from cancel_files(id)
    yield Statement(DISCARD, (id, ""))
    yield Wake(INDEXING)


def cancel_files(store: str) -> Operation[None]:
    """Nobody can use what would be made of them."""
    yield Statement(LOCK.format(condition="store = $1 AND status = 'in_progress'"), (store,))
    yield Statement(_CANCEL, (store,))


# ---- what is left of what was deleted --------------------------------------------------------------------------------


def discarded(limit: int) -> Operation[list[tuple[str, str]]]:
    """(store, document): a document of '' is all that the store had."""
    rows = yield Statement("SELECT store, document FROM discarded_documents ORDER BY store, document LIMIT $1", (limit,))
    return [(store, document) for store, document in rows]


def has_discarded(stores: Sequence[str]) -> Operation[bool]:
    text = f"SELECT 1 FROM discarded_documents WHERE store IN ({placeholders(1, len(stores))}) LIMIT 1"
    return bool((yield Statement(text, stores)))


def remove_some(store: str) -> Operation[bool]:
    """Some rows of a store that was deleted. Returns whether there may be others."""
    for text, batches in (
        ("SELECT file FROM vector_store_files WHERE store = $1 LIMIT $2", False),
        ("SELECT id FROM file_batches WHERE store = $1 LIMIT $2", True),
    ):
        ids = [row[0] for row in (yield Statement(text, (store, MOST_REMOVED)))]
        if ids and batches:
            yield from remove_batches(ids)
        elif ids:
            names = placeholders(2, len(ids))
            yield Statement(f"DELETE FROM vector_store_files WHERE store = $1 AND file IN ({names})", (store, *ids))
        if ids:
            return True
    return False


def remove_batches(ids: Sequence[str]) -> Operation[None]:
    for group in in_groups(ids):
        names = placeholders(1, len(group))
        yield Statement(f"DELETE FROM batch_files WHERE batch IN ({names})", group)
        yield Statement(f"DELETE FROM file_batches WHERE id IN ({names})", group)


def is_removed(store: str, document: str) -> Operation[None]:
    yield Statement("DELETE FROM discarded_documents WHERE store = $1 AND document = $2", (store, document))


# ---- owners ----------------------------------------------------------------------------------------------------------


def owner_of(id: str) -> Operation[str | None]:
    rows = yield Statement("SELECT owner FROM vector_stores WHERE id = $1", (id,))
    return rows[0][0] if rows else None


def move_some(earlier: str, owner: str) -> Operation[int]:
    """Gives some stores and their files to another owner. Returns how many there were: 0 when none are left."""
    moved = yield from owners.move_rows("vector_stores", earlier, owner)
    text = """UPDATE vector_store_files SET owner = $2 WHERE (store, file) IN (
        SELECT store, file FROM vector_store_files WHERE owner = $1 ORDER BY store, file LIMIT $3 FOR UPDATE)"""
    files = yield Change(text, (earlier, owner, MOST_REMOVED))
    return moved + int(files[0][0])


# ---- rows ------------------------------------------------------------------------------------------------------------


def row_to_record(row: Row) -> VectorStoreRecord:
    id, owner, created_at, expires_at, last_active_at, details = row
    return VectorStoreRecord(
        id=id,
        owner=owner,
        created_at=created_at,
        expires_at=expires_at,
        last_active_at=last_active_at,
        **msgspec.structs.asdict(msgspec.json.decode(details, type=Details)),
    )


def _changeable(record: VectorStoreRecord) -> tuple[Any, ...]:
    details = Details(record.expires_after_days, record.name, record.description, record.metadata)
    return record.expires_at, record.last_active_at, msgspec.json.encode(details)
