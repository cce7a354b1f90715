"""Operations on the files of vector stores, and on the batches in which they were added.

Each of them gets the owner of the store, and does nothing for anybody else.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.store.files import vector_stores
from antiphon.store.files.records import AddedFile, BatchRecord, Chunking, FileCounts, Status, StoreFileRecord
from antiphon.store.files.vector_stores import DISCARD, INDEXING, LOCK, Room
from antiphon.store.operations import Many, Operation, Row, Statement, Wake, in_groups, placeholders
from antiphon.store.sql.listings import RowList, RowPage, list_rows

COLUMNS = "store, file, owner, created_at, status, document, size, error_code, error_message, attributes, chunking"
_INSERT = """
INSERT INTO vector_store_files (store, file, owner, created_at, status, document, held_until, attributes, chunking)
VALUES ($1, $2, $3, $4, 'in_progress', $5, $6, $7, $8)"""
_BEGIN_ANEW = """
UPDATE vector_store_files SET status = 'in_progress', size = 0, document = $3, held_until = $4, attributes = $5, chunking = $6,
    holder = NULL, attempts = 0, error_code = NULL, error_message = NULL
WHERE store = $1 AND file = $2"""
_DESCRIBE = "UPDATE vector_store_files SET attributes = $3 WHERE store = $1 AND file = $2"
_OF_BATCH = "store = $1 AND file IN (SELECT file FROM batch_files WHERE batch = $2)"
_ADD_TO_BATCH = "INSERT INTO batch_files (batch, file) VALUES ($1, $2) ON CONFLICT (batch, file) DO NOTHING"
_COUNT = f"SELECT status, count(*), CAST(sum(size) AS bigint) FROM vector_store_files WHERE {_OF_BATCH} GROUP BY status"
_DISCARD_UNFINISHED = f"""
INSERT INTO discarded_documents (store, document)
SELECT store, document FROM vector_store_files WHERE {_OF_BATCH} AND status = 'in_progress'
ON CONFLICT (store, document) DO NOTHING"""
_CANCEL = (
    f"UPDATE vector_store_files SET status = 'cancelled', holder = NULL, size = 0 WHERE {_OF_BATCH} AND status = 'in_progress'"
)


NO_ROOM = "There is no room for more text in vector stores (`key_bytes`, `max_bytes`). Remove files from them, or delete some."


class FilePage(NamedTuple):
    files: list[StoreFileRecord]
    has_more: bool


class Batch(NamedTuple):
    record: BatchRecord
    counts: FileCounts


class Addition(NamedTuple):
    """Files that are added to a store together."""

    files: Sequence[AddedFile]
    # Those that may be in one store.
    most: int
    room: Room
    new_document: Callable[[], str]
    # The batch to make of them, if there is to be one.
    batch: str | None = None
    # Those that a store remembers.
    most_batches: int = 1_000


def add(owner: str, store: str, addition: Addition, now: float) -> Operation[None]:
    """A file that is there already is indexed anew only if it failed, was cancelled, or is to be divided in another way. The
    store must be the owner's, and locked."""
    files = {each.file: each for each in addition.files}
    there = yield from _some(store, list(files))
    yield from _check_number(store, len(files) - len(there), addition.most)
    if files and (yield from vector_stores.room_left(owner, addition.room)) <= 0:
        raise InvalidRequest(NO_ROOM, code="vector_store_bytes_exceeded")
    new = [each for id, each in files.items() if id not in there]
    yield Many(_INSERT, [_new_row(owner, store, each, addition.new_document(), now) for each in new])
    for record in there.values():
        yield from _add_again(record, files[record.file], addition.new_document, now)
    if addition.batch is not None:
        text = "INSERT INTO file_batches (id, store, created_at) VALUES ($1, $2, $3)"
        yield Statement(text, (addition.batch, store, int(now)))
        yield Many(_ADD_TO_BATCH, [(addition.batch, id) for id in files])
        yield from _remove_old_batches(store, addition.most_batches)
    yield Wake(INDEXING)


def _remove_old_batches(store: str, most: int) -> Operation[None]:
    """Their files stay. Nobody asks for a batch long after it was made, and otherwise they would be endless."""
    text = "SELECT id FROM file_batches WHERE store = $1 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3"
    rows = yield Statement(text, (store, vector_stores.MOST_REMOVED, most))
    yield from vector_stores.remove_batches([row[0] for row in rows])


def _some(store: str, ids: Sequence[str]) -> Operation[dict[str, StoreFileRecord]]:
    found: dict[str, StoreFileRecord] = {}
    for group in in_groups(ids):
        names = placeholders(2, len(group))
        text = f"SELECT {COLUMNS} FROM vector_store_files WHERE store = $1 AND file IN ({names}) ORDER BY file FOR UPDATE"
        found |= {row[1]: row_to_record(row) for row in (yield Statement(text, (store, *group)))}
    return found


def _check_number(store: str, new: int, most: int) -> Operation[None]:
    if new and (yield from vector_stores.count_files(store)).total + new > most:
        message = f"A vector store may have at most {most} files (`max_files`). Add them to another one."
        raise InvalidRequest(message, code="vector_store_file_limit_exceeded")


def _new_row(owner: str, store: str, file: AddedFile, document: str, now: float) -> Row:
    values = msgspec.json.encode(file.attributes or {}), msgspec.json.encode(file.chunking)
    return (store, file.file, owner, int(now), document, now, *values)


def _add_again(record: StoreFileRecord, file: AddedFile, new_document: Callable[[], str], now: float) -> Operation[None]:
    attributes = msgspec.json.encode(record.attributes if file.attributes is None else file.attributes)
    is_same = (file.chunking.size, file.chunking.overlap) == (record.chunking.size, record.chunking.overlap)
    if is_same and record.status in ("in_progress", "completed"):
        yield Statement(_DESCRIBE, (record.store, record.file, attributes))
        return
    yield Statement(DISCARD, (record.store, record.document))
    chunking = msgspec.json.encode(file.chunking)
    yield Statement(_BEGIN_ANEW, (record.store, record.file, new_document(), now, attributes, chunking))


def get(owner: str, store: str, file: str) -> Operation[StoreFileRecord | None]:
    if (yield from vector_stores.get(owner, store)) is None:
        return None
    return (yield from _some(store, [file])).get(file)


def list_files(
    owner: str, store: str, page: RowPage, status: Status | None, batch: str | None = None
) -> Operation[FilePage | None]:
    """Of a batch, if one is named. None: there is no such store, or batch."""
    if (yield from vector_stores.get(owner, store)) is None:
        return None
    if batch is not None and (yield from _batch(store, batch)) is None:
        return None
    condition, values = ("store = $1", [store]) if batch is None else (_OF_BATCH, [store, batch])
    # An old file may be added after a new one.
    rows = RowList("vector_store_files", COLUMNS, "file", condition, values, ordered_by_id=False)
    listed = yield from list_rows(rows, page, status)
    return FilePage([row_to_record(row) for row in listed.rows], listed.has_more)


def set_attributes(owner: str, store: str, file: str, attributes: dict[str, Any]) -> Operation[StoreFileRecord | None]:
    if (yield from vector_stores.get(owner, store)) is None:
        return None
    text = f"{_DESCRIBE} RETURNING {COLUMNS}"
    rows = yield Statement(text, (store, file, msgspec.json.encode(attributes)))
    return row_to_record(rows[0]) if rows else None


def remove(owner: str, store: str, file: str) -> Operation[bool]:
    if (yield from vector_stores.get(owner, store)) is None:
        return False
    return (yield from _remove("store = $1 AND file = $2", (store, file))) > 0


def forget(file: str) -> Operation[int]:
    """A file that was deleted is in no store any more."""
    return (yield from _remove("file = $1", (file,)))


def _remove(condition: str, values: Sequence[str]) -> Operation[int]:
    yield Statement(LOCK.format(condition=condition), values)
    rows = yield Statement(f"DELETE FROM vector_store_files WHERE {condition} RETURNING store, document", values)
    if rows:
        yield Many(DISCARD, rows)
        yield Wake(INDEXING)
    return len(rows)


# ---- for a search ----------------------------------------------------------------------------------------------------


def of_documents(stores: Sequence[str], documents: Collection[str]) -> Operation[dict[str, StoreFileRecord]]:
    """The files whose chunks these documents are, of those that are completed."""
    found: dict[str, StoreFileRecord] = {}
    for group in in_groups(list(documents)):
        in_stores, named = placeholders(1, len(stores)), placeholders(len(stores) + 1, len(group))
        text = f"""SELECT {COLUMNS} FROM vector_store_files
            WHERE store IN ({in_stores}) AND status = 'completed' AND document IN ({named})"""
        found |= {row[5]: row_to_record(row) for row in (yield Statement(text, (*stores, *group)))}
    return found


def attributes_of(stores: Sequence[str]) -> Operation[list[tuple[str, str, bytes]]]:
    """(store, document, attributes as JSON) of all files that are completed."""
    text = f"""SELECT store, document, attributes FROM vector_store_files
        WHERE store IN ({placeholders(1, len(stores))}) AND status = 'completed'"""
    return [(store, document, bytes(attributes)) for store, document, attributes in (yield Statement(text, stores))]


def are_all_completed(stores: Sequence[str]) -> Operation[bool]:
    """All of their chunks belong to completed files."""
    names = placeholders(1, len(stores))
    text = f"SELECT 1 FROM vector_store_files WHERE store IN ({names}) AND status = 'in_progress' LIMIT 1"
    return not (yield Statement(text, stores)) and not (yield from vector_stores.has_discarded(stores))


# ---- batches ---------------------------------------------------------------------------------------------------------


def get_batch(owner: str, store: str, id: str) -> Operation[Batch | None]:
    if (yield from vector_stores.get(owner, store)) is None:
        return None
    record = yield from _batch(store, id)
    return None if record is None else Batch(record, vector_stores.rows_to_counts((yield Statement(_COUNT, (store, id)))))


def cancel_batch(owner: str, store: str, id: str) -> Operation[Batch | None]:
    """Its files that are not indexed yet are not."""
    batch = yield from get_batch(owner, store, id)
    if batch is None or not batch.counts.in_progress:
        return batch
    yield Statement(LOCK.format(condition=f"{_OF_BATCH} AND status = 'in_progress'"), (store, id))
    yield Statement(_DISCARD_UNFINISHED, (store, id))
    yield Statement(_CANCEL, (store, id))
    yield Statement("UPDATE file_batches SET cancelled = true WHERE id = $1", (id,))
    yield Wake(INDEXING)
    return (yield from get_batch(owner, store, id))


def _batch(store: str, id: str) -> Operation[BatchRecord | None]:
    rows = yield Statement("SELECT created_at, cancelled FROM file_batches WHERE id = $1 AND store = $2", (id, store))
    return BatchRecord(id=id, store=store, created_at=rows[0][0], cancelled=bool(rows[0][1])) if rows else None


# ---- rows ------------------------------------------------------------------------------------------------------------


def row_to_record(row: Row) -> StoreFileRecord:
    *plain, attributes, chunking = row
    names = COLUMNS.split(", ")
    return StoreFileRecord(
        **dict(zip(names, plain, strict=False)),
        attributes=msgspec.json.decode(attributes),
        chunking=msgspec.json.decode(chunking, type=Chunking),
    )
