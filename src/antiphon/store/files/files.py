"""Operations on uploaded files. Each names the owner: another owner's file is one that is not there."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from antiphon.store import records
from antiphon.store.files import vector_stores
from antiphon.store.files.records import FileRecord
from antiphon.store.files.vector_stores import Counted
from antiphon.store.operations import Change, Operation, Row, Statement, in_groups, placeholders
from antiphon.store.records import NEWEST, ListPlace

# ---- lists of files and of vector stores, the newest first -----------------------------------------------------------


class Wanted(NamedTuple):
    """`owner`: None for all. `search`: what a name or an id must contain, in any case."""

    owner: str | None
    search: str
    after: ListPlace | None
    limit: int


class ListedFiles(NamedTuple):
    rows: list[FileRecord]
    # Where the next page begins. None: there is none.
    after: str | None


class ListedStores(NamedTuple):
    rows: list[Counted]
    after: str | None


def list_files(wanted: Wanted, now: float) -> Operation[ListedFiles]:
    """Without those that have expired: nobody can use them any more."""
    rows = yield from read_page("files", COLUMNS, wanted, expired_before=int(now))
    shown, after = cut_page([_to_file(row) for row in rows], wanted, lambda record: [record.id, record.filename])
    return ListedFiles(shown, after)


def list_stores(wanted: Wanted) -> Operation[ListedStores]:
    """Also those that have expired, as long as they are shown."""
    rows = yield from read_page("vector_stores", vector_stores.COLUMNS, wanted, expired_before=0)
    records = [vector_stores.row_to_record(row) for row in rows]
    shown, after = cut_page(records, wanted, lambda record: [record.id, record.name or "", *record.metadata.values()])
    stores: list[Counted] = []
    for record in shown:
        stores.append(Counted(record, (yield from vector_stores.count_files(record.id))))
    return ListedStores(stores, after)


def read_page(
    table: str, columns: str, wanted: Wanted, *, expired_before: int, expiry: str = "expires_at"
) -> Operation[list[Row]]:
    """`expiry`: the column that says until when a row is shown."""
    owned = " AND owner = $5" if wanted.owner is not None else ""
    text = f"""SELECT {columns} FROM {table} WHERE {expiry} > $1 AND (created_at, id) < ($2, $3){owned}
        ORDER BY created_at DESC, id DESC LIMIT $4"""
    owner = () if wanted.owner is None else (wanted.owner,)
    return (yield Statement(text, (expired_before, *(wanted.after or NEWEST), _most(wanted), *owner)))


def _most(wanted: Wanted) -> int:
    """How many rows one page reads. A page of a search may have fewer rows than there are: it says where to go on."""
    return records.ROWS if wanted.search else wanted.limit + 1


def cut_page(rows: Sequence[Any], wanted: Wanted, texts: Callable[[Any], Sequence[str]]) -> tuple[list[Any], str | None]:
    search = wanted.search.casefold()
    found = [row for row in rows if any(search in text.casefold() for text in texts(row))] if search else list(rows)
    shown = found[: wanted.limit]
    if len(found) > wanted.limit:
        return shown, _place(shown[-1])
    return shown, _place(rows[-1]) if len(rows) == _most(wanted) else None


def _to_file(row: Row) -> FileRecord:
    return FileRecord(**dict(zip(FileRecord.__struct_fields__, row, strict=True)))


def _place(row: Any) -> str:
    return str(ListPlace(row.created_at, row.id))


# How many files one transaction gives to another owner.
MOVED_ROWS = 500
# How many parts of a file are removed in one transaction.
REMOVED_PARTS = 64

COLUMNS = ", ".join(FileRecord.__struct_fields__)
_PLACES = placeholders(1, len(FileRecord.__struct_fields__))


class BytesUsed(NamedTuple):
    """Of files that have not expired."""

    owner: int
    all: int


def add(record: FileRecord, most_owned: int | None, most: int, now: int) -> Operation[BytesUsed | None]:
    """Adds the row of a file, if there is room for it. Otherwise returns how much is used."""
    yield Statement("SELECT id FROM file_room WHERE id = 1 FOR UPDATE")
    used = yield from bytes_used(record.owner, now)
    if used.all + record.size > most or (most_owned is not None and used.owner + record.size > most_owned):
        return used
    yield from insert(record)
    return None


def insert(record: FileRecord) -> Operation[None]:
    """Its row, whatever room there is."""
    values = tuple(getattr(record, name) for name in FileRecord.__struct_fields__)
    yield Change(f"INSERT INTO files ({COLUMNS}) VALUES ({_PLACES})", values)


def bytes_used(owner: str, now: int) -> Operation[BytesUsed]:
    owned = yield Statement("SELECT coalesce(sum(size), 0) FROM files WHERE owner = $1 AND expires_at > $2", (owner, now))
    total = yield Statement("SELECT coalesce(sum(size), 0) FROM files WHERE expires_at > $1", (now,))
    # Postgres sums bigints to a decimal number.
    return BytesUsed(int(owned[0][0]), int(total[0][0]))


def find(owner: str, ids: Collection[str], now: int) -> Operation[dict[str, FileRecord]]:
    found: dict[str, FileRecord] = {}
    for group in in_groups(list(ids)):
        text = f"SELECT {COLUMNS} FROM files WHERE id IN ({placeholders(3, len(group))}) AND owner = $1 AND expires_at > $2"
        for row in (yield Statement(text, (owner, now, *group))):
            record = _record(row)
            found[record.id] = record
    return found


def owner_of(id: str, now: int) -> Operation[str | None]:
    rows = yield Statement("SELECT owner FROM files WHERE id = $1 AND expires_at > $2", (id, now))
    return rows[0][0] if rows else None


def page(
    owner: str, purpose: str | None, after: str | None, limit: int, now: int, *, ascending: bool
) -> Operation[list[FileRecord]]:
    """The file `after` may have been deleted meanwhile: clients delete files while they list them."""
    values: list[str | int] = [owner, now, limit]
    conditions = "owner = $1 AND expires_at > $2"
    if after is not None:
        values.append(after)
        conditions += f" AND id {'>' if ascending else '<'} ${len(values)}"
    if purpose is not None:
        values.append(purpose)
        conditions += f" AND purpose = ${len(values)}"
    order = "ASC" if ascending else "DESC"
    rows = yield Statement(f"SELECT {COLUMNS} FROM files WHERE {conditions} ORDER BY id {order} LIMIT $3", values)
    return [_record(row) for row in rows]


def delete(owner: str, id: str) -> Operation[bool]:
    changed = yield Change("DELETE FROM files WHERE id = $1 AND owner = $2", (id, owner))
    return bool(changed[0][0])


def expired(now: int, limit: int) -> Operation[list[FileRecord]]:
    rows = yield Statement(f"SELECT {COLUMNS} FROM files WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2", (now, limit))
    return [_record(row) for row in rows]


def existing(ids: Sequence[str]) -> Operation[set[str]]:
    """Those of these files that have a row, of any owner, expired or not."""
    found: set[str] = set()
    for group in in_groups(ids):
        rows = yield Statement(f"SELECT id FROM files WHERE id IN ({placeholders(1, len(group))})", group)
        found.update(row[0] for row in rows)
    return found


def move(earlier: str, owner: str) -> Operation[int]:
    """Gives files to another owner. Returns how many: 0 when none are left."""
    changed = yield Change(
        """UPDATE files SET owner = $2 WHERE id IN (
            SELECT id FROM files WHERE owner = $1 ORDER BY id LIMIT $3 FOR UPDATE
        )""",
        (earlier, owner, MOVED_ROWS),
    )
    moved: int = changed[0][0]
    return moved


# ---- contents in the database ----------------------------------------------------------------------------------------


def add_part(file: str, number: int, data: bytes, now: int) -> Operation[None]:
    yield Change("INSERT INTO file_parts (file, number, written_at, data) VALUES ($1, $2, $3, $4)", (file, number, now, data))


def read_part(file: str, number: int) -> Operation[bytes | None]:
    rows = yield Statement("SELECT data FROM file_parts WHERE file = $1 AND number = $2", (file, number))
    return bytes(rows[0][0]) if rows else None


def count_parts(file: str) -> Operation[int]:
    rows = yield Statement("SELECT count(*) FROM file_parts WHERE file = $1", (file,))
    count: int = rows[0][0]
    return count


def remove_parts(file: str) -> Operation[bool]:
    """Some of them. True: there may be more."""
    changed = yield Change(
        """DELETE FROM file_parts WHERE file = $1 AND number IN (
            SELECT number FROM file_parts WHERE file = $1 ORDER BY number LIMIT $2
        )""",
        (file, REMOVED_PARTS),
    )
    return bool(changed[0][0] == REMOVED_PARTS)


def lost_parts(before: int, limit: int) -> Operation[list[str]]:
    """The files that have parts, but no row, and got none of the parts after this time."""
    rows = yield Statement(
        """SELECT file FROM file_parts
        WHERE NOT EXISTS (SELECT 1 FROM files WHERE files.id = file_parts.file)
        GROUP BY file HAVING max(written_at) <= $1 LIMIT $2""",
        (before, limit),
    )
    return [row[0] for row in rows]


def _record(row: Row) -> FileRecord:
    return FileRecord(**dict(zip(FileRecord.__struct_fields__, row, strict=True)))
