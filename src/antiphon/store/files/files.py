"""Operations on uploaded files. Each names the owner: another owner's file is one that is not there."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from antiphon.store.files.records import FileRecord
from antiphon.store.sql.operations import Change, Operation, Row, Statement, in_groups, placeholders

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
    values = tuple(getattr(record, name) for name in FileRecord.__struct_fields__)
    yield Change(f"INSERT INTO files ({COLUMNS}) VALUES ({_PLACES})", values)
    return None


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
