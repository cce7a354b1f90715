"""Operations on batches of requests: what their owners do, and the work of reading their input and writing their output.

validating → in_progress → finalizing → completed | expired | cancelled
validating → failed                     its input has no line that can be run
cancelling                              until the lines that run have ended; then finalizing. One that is cancelled while its
                                        input is read is `validating` until that is done
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from antiphon.store.files import files
from antiphon.store.files.records import BatchDetails, BatchLine, Complaint, FileRecord, LineResult, RequestBatch
from antiphon.store.operations import Change, Many, Operation, Row, Statement, Wake, placeholders
from antiphon.store.sql.listings import ListedRows, RowList, RowPage, list_rows

# The topic of gateways that wait for work on batches.
BATCHES = "batches"
# How many lines a batch, or an owner, runs before it is another one's turn.
TURN = 8
# How many lines and results one transaction removes.
REMOVED_ROWS = 1_000
# How many batches one transaction gives to another owner.
MOVED_ROWS = 500
# In which another batch may have a place: of these, an owner has a bounded number.
UNFINISHED = ("validating", "in_progress", "cancelling", "finalizing")

COLUMNS = ", ".join(RequestBatch.__struct_fields__)
_FIELDS = RequestBatch.__struct_fields__
_JSON = {"models": list[str], "details": BatchDetails}
_INSERT_LINE = """
INSERT INTO batch_lines (batch, number, place, start, size, custom_id, model, prefix)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
INSERT_RESULT = "INSERT INTO batch_results (batch, number, is_output, data) VALUES ($1, $2, $3, $4)"


def row_to_batch(row: Row) -> RequestBatch:
    members = dict(zip(_FIELDS, row, strict=True))
    return RequestBatch(**members | {name: msgspec.json.decode(members[name], type=kind) for name, kind in _JSON.items()})


def _values(batch: RequestBatch) -> list[Any]:
    return [msgspec.json.encode(value) if name in _JSON else value for name, value in structs.asdict(batch).items()]


# ---- what their owners do --------------------------------------------------------------------------------------------


def create(batch: RequestBatch, most: int) -> Operation[bool]:
    """False: the owner has as many unfinished ones as it may."""
    yield Statement("SELECT id FROM batch_room WHERE id = 1 FOR UPDATE")
    text = f"SELECT count(*) FROM batches WHERE owner = $1 AND status IN ({placeholders(2, len(UNFINISHED))})"
    if (yield Statement(text, (batch.owner, *UNFINISHED)))[0][0] >= most:
        return False
    yield Change(f"INSERT INTO batches ({COLUMNS}) VALUES ({placeholders(1, len(_FIELDS))})", _values(batch))
    yield Wake(BATCHES)
    return True


def get(owner: str, id: str, now: int) -> Operation[RequestBatch | None]:
    rows = yield Statement(f"SELECT {COLUMNS} FROM batches WHERE id = $1 AND owner = $2 AND kept_until > $3", (id, owner, now))
    return row_to_batch(rows[0]) if rows else None


def owner_of(id: str, now: int) -> Operation[str | None]:
    rows = yield Statement("SELECT owner FROM batches WHERE id = $1 AND kept_until > $2", (id, now))
    return rows[0][0] if rows else None


class ListedBatches(NamedTuple):
    batches: list[RequestBatch]
    has_more: bool


def list_batches(owner: str, page: RowPage, now: int, *, endpoint: str, is_endpoint: bool) -> Operation[ListedBatches]:
    """`endpoint`: only those of it, or only those of others."""
    sign = "=" if is_endpoint else "<>"
    condition = f"owner = $1 AND kept_until > $2 AND endpoint {sign} $3"
    listed: ListedRows = yield from list_rows(RowList("batches", COLUMNS, "id", condition, (owner, now, endpoint)), page)
    return ListedBatches([row_to_batch(row) for row in listed.rows], listed.has_more)


class BatchPage(NamedTuple):
    rows: list[RequestBatch]
    # Where the next page begins. None: there is none.
    after: str | None


def page(wanted: files.Wanted, now: int) -> Operation[BatchPage]:
    """Of one owner or of all, for those who operate the gateway."""
    rows = yield from files.read_page("batches", COLUMNS, wanted, expired_before=now, expiry="kept_until")
    found = [row_to_batch(row) for row in rows]
    shown, after = files.cut_page(found, wanted, lambda batch: [batch.id, batch.endpoint, batch.status, *batch.models])
    return BatchPage(shown, after)


def cancel(owner: str, id: str, now: int) -> Operation[RequestBatch | None]:
    """What runs comes to its end, and nothing more is begun. One that has ended stays as it is. None: it does not exist."""
    yield Statement("SELECT id FROM batch_room WHERE id = 1 FOR UPDATE")
    batch = yield from get(owner, id, now)
    if batch is None or batch.stop is not None or batch.status not in ("validating", "in_progress"):
        return batch
    batch.details.times.cancelling_at = now
    status = "cancelling" if batch.status == "in_progress" else batch.status
    text = "UPDATE batches SET status = $2, stop = 'cancelled', details = $3 WHERE id = $1"
    yield Change(text, (id, status, msgspec.json.encode(batch.details)))
    yield Wake(BATCHES)
    return structs.replace(batch, status=status, stop="cancelled")


def remove(owner: str, id: str) -> Operation[bool]:
    """One that has ended. Its lines are removed by a sweep."""
    ended = f"status NOT IN ({placeholders(3, len(UNFINISHED))})"
    changed = yield Change(
        f"UPDATE batches SET kept_until = 0 WHERE id = $1 AND owner = $2 AND {ended}", (id, owner, *UNFINISHED)
    )
    return bool(changed[0][0])


def move(earlier: str, owner: str) -> Operation[int]:
    """Gives batches to another owner. Returns how many: 0 when none are left."""
    changed = yield Change(
        """UPDATE batches SET owner = $2 WHERE id IN (
            SELECT id FROM batches WHERE owner = $1 ORDER BY id LIMIT $3 FOR UPDATE
        )""",
        (earlier, owner, MOVED_ROWS),
    )
    moved: int = changed[0][0]
    return moved


# ---- which work there is ---------------------------------------------------------------------------------------------


class Overview(NamedTuple):
    """Batches of which there is something to do. `running`: their lines may be run."""

    running: list[RequestBatch]
    is_work_left: bool


def overview(now: float) -> Operation[Overview]:
    rows = yield Statement(f"SELECT {COLUMNS} FROM batches WHERE status IN ('in_progress', 'cancelling')")
    text = "SELECT 1 FROM batches WHERE status IN ('validating', 'finalizing') AND held_until <= $1 LIMIT 1"
    return Overview([row_to_batch(row) for row in rows], bool((yield Statement(text, (now,)))))


def claim(worker: str, lease: float, now: float) -> Operation[RequestBatch | None]:
    """A batch whose input is to be read, or whose output is to be written, for this gateway alone."""
    rows = yield Statement(
        f"""SELECT {COLUMNS} FROM batches WHERE status IN ('validating', 'finalizing') AND held_until <= $1
        ORDER BY held_until, created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED""",
        (now,),
    )
    if not rows:
        return None
    batch = row_to_batch(rows[0])
    yield Change("UPDATE batches SET holder = $2, held_until = $3 WHERE id = $1", (batch.id, worker, now + lease))
    return batch


def renew(worker: str, ids: Collection[str], lease: float, now: float) -> Operation[None]:
    for id in sorted(ids):
        yield Change("UPDATE batches SET held_until = $3 WHERE id = $1 AND holder = $2", (id, worker, now + lease))


def give_back(worker: str, id: str, available_at: float, complaint: Complaint | None = None) -> Operation[None]:
    """`complaint`: why it has to wait, for its owner to see."""
    batch = yield from _held(worker, id)
    if batch is None:
        return
    others = [each for each in batch.details.errors if complaint is None or each.code != complaint.code]
    batch.details.errors = [*others, *([complaint] if complaint is not None else ())]
    text = "UPDATE batches SET holder = NULL, held_until = $2, details = $3 WHERE id = $1"
    yield Change(text, (id, available_at, msgspec.json.encode(batch.details)))
    yield Wake(BATCHES)


def _held(worker: str, id: str) -> Operation[RequestBatch | None]:
    """None: it is another gateway's by now, or it was cancelled."""
    rows = yield Statement(f"SELECT {COLUMNS} FROM batches WHERE id = $1 AND holder = $2 FOR UPDATE", (id, worker))
    return row_to_batch(rows[0]) if rows else None


# ---- its input -------------------------------------------------------------------------------------------------------


def begin_reading(worker: str, id: str) -> Operation[bool]:
    """Removes some of what a gateway that died has left. True: there may be more."""
    if (yield from _held(worker, id)) is None:
        return False
    yield Change("UPDATE batches SET has_lines = true WHERE id = $1", (id,))
    return (yield from remove_some(id))


def add_lines(worker: str, id: str, lines: Sequence[BatchLine], refused: Sequence[LineResult]) -> Operation[bool]:
    """`refused`: what came of lines that cannot be run. False: it is not to be read here any more."""
    if (yield from _held(worker, id)) is None:
        return False
    if lines:
        yield Many(_INSERT_LINE, [(id, *structs.astuple(each)) for each in lines])
    if refused:
        yield Many(INSERT_RESULT, [tuple(each[:4]) for each in refused])
    return True


class ReadInput(NamedTuple):
    total: int
    refused: int
    models: list[str]
    errors: list[Complaint]


def begin(worker: str, id: str, read: ReadInput, now: int) -> Operation[None]:
    """Its lines may be run from now on. Without any, it fails as soon as its error file is written."""
    yield Statement("SELECT id FROM batch_room WHERE id = 1 FOR UPDATE")
    batch = yield from _held(worker, id)
    if batch is None:
        return
    batch.details.times.in_progress_at = now
    batch.details.errors = read.errors
    yield from _join_turns(batch.owner)
    others = yield Statement("SELECT min(served) FROM batches WHERE owner = $1 AND status = 'in_progress'", (batch.owner,))
    text = """UPDATE batches SET status = $8, holder = NULL, held_until = 0, total = $2, failed = $3, models = $4,
        details = $5, served = $6, stop = $7 WHERE id = $1"""
    encoded = msgspec.json.encode(read.models), msgspec.json.encode(batch.details)
    stop = batch.stop or ("failed" if read.refused == read.total else None)
    status = "cancelling" if batch.stop is not None else "in_progress"
    yield Change(text, (id, read.total, read.refused, *encoded, (others[0][0] or 0) // TURN * TURN, stop, status))
    yield Wake(BATCHES)


def _join_turns(owner: str) -> Operation[None]:
    """One that had no batch for a while is not owed the turns of that time."""
    rows = yield Statement(
        """SELECT min(t.served) FROM batch_turns t
        WHERE EXISTS (SELECT 1 FROM batches b WHERE b.owner = t.owner AND b.status = 'in_progress')"""
    )
    served = (rows[0][0] or 0) // TURN * TURN
    yield Change(
        """INSERT INTO batch_turns (owner, served) VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE
        SET served = CASE WHEN batch_turns.served < excluded.served THEN excluded.served ELSE batch_turns.served END""",
        (owner, served),
    )


def fail(worker: str, id: str, errors: Sequence[Complaint], now: int) -> Operation[None]:
    batch = yield from _held(worker, id)
    if batch is None:
        return
    batch.details.times.failed_at = now
    batch.details.errors = list(errors)
    text = "UPDATE batches SET status = 'failed', holder = NULL, held_until = 0, details = $2 WHERE id = $1"
    yield Change(text, (id, msgspec.json.encode(batch.details)))


# ---- its output ------------------------------------------------------------------------------------------------------


def results(id: str, after: int, most: int, most_bytes: int) -> Operation[list[LineResult]]:
    """The next ones: so many, or so many bytes with the one that these end in."""
    text = "SELECT number, length(data) FROM batch_results WHERE batch = $1 AND number > $2 ORDER BY number LIMIT $3"
    last, size = after, 0
    for number, length in (yield Statement(text, (id, after, most))):
        if size >= most_bytes:
            break
        last, size = number, size + length
    text = """SELECT batch, number, is_output, data FROM batch_results WHERE batch = $1 AND number > $2 AND number <= $3
        ORDER BY number"""
    return [LineResult(row[0], row[1], bool(row[2]), bytes(row[3])) for row in (yield Statement(text, (id, after, last)))]


def not_run(id: str, after: int, most: int) -> Operation[list[tuple[int, str]]]:
    """The numbers and custom ids of lines without a result."""
    text = """SELECT number, custom_id FROM batch_lines WHERE batch = $1 AND number > $2 AND state <> 'done'
        ORDER BY number LIMIT $3"""
    return [(row[0], row[1]) for row in (yield Statement(text, (id, after, most)))]


class Output(NamedTuple):
    """Files that are written, and get their rows together with the end of the batch."""

    output: FileRecord | None
    error: FileRecord | None


def end_of(batch: RequestBatch) -> str:
    """How one ends whose lines are all done, or were stopped."""
    is_whole = batch.completed + batch.failed >= batch.total
    return "completed" if batch.stop is None or (batch.stop == "expired" and is_whole) else batch.stop


def finish(worker: str, id: str, output: Output, now: int) -> Operation[bool]:
    """False, and nothing is written: another gateway does it."""
    batch = yield from _held(worker, id)
    if batch is None:
        return False
    for record in filter(None, output):
        # Whatever the limits are: what the engine did would be lost.
        yield from files.insert(record)
    status = end_of(batch)
    setattr(batch.details.times, f"{status}_at", now)
    names = [None if each is None else each.id for each in output]
    text = """UPDATE batches SET status = $2, holder = NULL, held_until = 0, output_file = $3, error_file = $4, details = $5
        WHERE id = $1"""
    yield Change(text, (id, status, *names, msgspec.json.encode(batch.details)))
    return True


# ---- what is removed -------------------------------------------------------------------------------------------------


def with_leftovers() -> Operation[list[RequestBatch]]:
    """Batches that have ended, and still have lines."""
    text = f"""SELECT {COLUMNS} FROM batches WHERE has_lines AND (status NOT IN ({placeholders(1, len(UNFINISHED))}))
        ORDER BY id LIMIT 100"""
    return [row_to_batch(row) for row in (yield Statement(text, UNFINISHED))]


def remove_some(id: str) -> Operation[bool]:
    """Some lines and results. True: there may be more."""
    more = False
    for table in ("batch_lines", "batch_results"):
        changed = yield Change(
            f"""DELETE FROM {table} WHERE batch = $1 AND number IN (
                SELECT number FROM {table} WHERE batch = $1 ORDER BY number LIMIT $2
            )""",
            (id, REMOVED_ROWS),
        )
        more = more or changed[0][0] == REMOVED_ROWS
    return more


def without_lines(id: str) -> Operation[None]:
    yield Change("UPDATE batches SET has_lines = false WHERE id = $1", (id,))


def sweep(now: int) -> Operation[int]:
    """Removes batches whose time is over. Their files have times of their own."""
    changed = yield Change("DELETE FROM batches WHERE kept_until <= $1 AND NOT has_lines", (now,))
    swept: int = changed[0][0]
    return swept
