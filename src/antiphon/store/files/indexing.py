"""Operations of those who index: files in progress are claimed, renewed, and finished or given back.

A file counts as lost each time that a claim ended without a word and without a chunk.
"""

from collections.abc import Collection, Sequence

from antiphon.store.files.records import IndexingJob, StoreFileRecord
from antiphon.store.files.vector_store_files import COLUMNS, row_to_record
from antiphon.store.files.vector_stores import DISCARD, INDEXING, Room, cancel_files, room_left
from antiphon.store.operations import Change, Operation, Statement, Wake, placeholders

_NEXT = """
SELECT store, file FROM vector_store_files
WHERE status = 'in_progress' AND held_until <= $1 AND owner {sign} $2{others}
ORDER BY owner, held_until LIMIT 1 FOR UPDATE SKIP LOCKED"""
_CLAIM = f"""
UPDATE vector_store_files SET holder = $3, held_until = $4, attempts = attempts + 1
WHERE store = $1 AND file = $2 RETURNING attempts, {COLUMNS}"""
# As long as it is still this document that is to be made, and made here.
_LEASED = "store = $1 AND file = $2 AND document = $3 AND holder = $4 AND status = 'in_progress'"


def is_work_left(now: float) -> Operation[bool]:
    text = "SELECT 1 FROM vector_store_files WHERE status = 'in_progress' AND held_until <= $1 LIMIT 1"
    return bool((yield Statement(text, (now,))))


def claim(worker: str, lease: float, served: str | None, not_of: Collection[str], now: float) -> Operation[IndexingJob | None]:
    """A file of the owner that comes after the one served last; or, if there is none, of the first. None: there is no work
    now, except for owners in `not_of`."""
    while True:
        rows = yield from _next(served, not_of, now)
        if not rows:
            return None
        store, file = rows[0]
        if (yield Statement("SELECT 1 FROM vector_stores WHERE id = $1 AND expires_at > $2", (store, int(now)))):
            attempts, *row = (yield Statement(_CLAIM, (store, file, worker, now + lease)))[0]
            return IndexingJob(record=row_to_record(row), lost=attempts - 1)
        # It was deleted, or has expired.
        yield from cancel_files(store)


def _next(served: str | None, not_of: Collection[str], now: float) -> Operation[Sequence[Sequence[str]]]:
    others = f" AND owner NOT IN ({placeholders(3, len(not_of))})" if not_of else ""
    if served is not None:
        rows = yield Statement(_NEXT.format(sign=">", others=others), (now, served, *not_of))
        if rows:
            return rows
    return (yield Statement(_NEXT.format(sign=">=", others=others), (now, "", *not_of)))


def still_leased(worker: str, files: Sequence[StoreFileRecord]) -> Operation[set[str]]:
    """The documents that are still claimed."""
    kept = set()
    for each in files:
        if (yield Statement(f"SELECT 1 FROM vector_store_files WHERE {_LEASED}", _lease_of(each, worker))):
            kept.add(each.document)
    return kept


def renew(worker: str, files: Sequence[StoreFileRecord], lease: float, now: float) -> Operation[None]:
    text = f"UPDATE vector_store_files SET held_until = $5 WHERE {_LEASED}"
    for each in sorted(files, key=lambda file: (file.store, file.file)):
        yield Statement(text, (*_lease_of(each, worker), now + lease))


def report(worker: str, file: StoreFileRecord, lease: float, now: float) -> Operation[bool]:
    """Some chunks were added. False: the claim is lost."""
    text = f"UPDATE vector_store_files SET held_until = $5, attempts = 1 WHERE {_LEASED}"
    return bool((yield Change(text, (*_lease_of(file, worker), now + lease)))[0][0])


def reserve(worker: str, file: StoreFileRecord, size: int, room: Room) -> Operation[bool]:
    """Counts the text of a file's chunks before they are added. False: there is no room for it."""
    # Others wait, so that two do not take the same room.
    yield Statement("SELECT id FROM file_room WHERE id = 1 FOR UPDATE")
    yield Statement(f"UPDATE vector_store_files SET size = $5 WHERE {_LEASED}", (*_lease_of(file, worker), size))
    return (yield from room_left(file.owner, room)) >= 0


def finish(worker: str, file: StoreFileRecord) -> Operation[bool]:
    text = f"UPDATE vector_store_files SET status = 'completed', holder = NULL WHERE {_LEASED}"
    return bool((yield Change(text, _lease_of(file, worker)))[0][0])


def fail(worker: str, file: StoreFileRecord, code: str, message: str) -> Operation[bool]:
    """What there is of it is discarded."""
    text = f"""UPDATE vector_store_files SET status = 'failed', holder = NULL, size = 0, error_code = $5, error_message = $6
        WHERE {_LEASED}"""
    if not (yield Change(text, (*_lease_of(file, worker), code, message)))[0][0]:
        return False
    yield Statement(DISCARD, (file.store, file.document))
    return True


def give_back(worker: str, file: StoreFileRecord, available_at: float, *, is_lost: bool) -> Operation[None]:
    """Another one may claim it from then on. `is_lost`: this attempt counts."""
    text = f"""UPDATE vector_store_files SET holder = NULL, held_until = $5, attempts = attempts - $6 WHERE {_LEASED}"""
    yield Statement(text, (*_lease_of(file, worker), available_at, 0 if is_lost else 1))
    yield Wake(INDEXING)


def discard(file: StoreFileRecord) -> Operation[None]:
    """Marks the document for removal, unless the file in the store still names it."""
    text = """SELECT 1 FROM vector_store_files
        WHERE store = $1 AND file = $2 AND document = $3 AND status IN ('in_progress', 'completed')"""
    if not (yield Statement(text, (file.store, file.file, file.document))):
        yield Statement(DISCARD, (file.store, file.document))
        yield Wake(INDEXING)


def _lease_of(file: StoreFileRecord, worker: str) -> tuple[str, str, str, str]:
    return file.store, file.file, file.document, worker
