"""Operations on uploads in parts: each part is contents without a file, until all of them become one."""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.store.files import files
from antiphon.store.files.files import BytesUsed
from antiphon.store.files.records import FileRecord, PartRecord, UploadRecord
from antiphon.store.operations import Change, Operation, Statement, placeholders

COLUMNS = ", ".join(UploadRecord.__struct_fields__)
_FIELDS = UploadRecord.__struct_fields__


class Reserved(NamedTuple):
    """By files, and by uploads that are not complete."""

    used: BytesUsed
    is_added: bool


def create(upload: UploadRecord, most_owned: int | None, most: int, now: int) -> Operation[Reserved]:
    """Reserves its bytes."""
    yield Statement("SELECT id FROM file_room WHERE id = 1 FOR UPDATE")
    used = yield from files.bytes_used(upload.owner, now)
    pending = "SELECT coalesce(sum(bytes), 0) FROM uploads WHERE status = 'pending' AND expires_at > $1"
    everybody = yield Statement(pending, (now,))
    owned = yield Statement(f"{pending} AND owner = $2", (now, upload.owner))
    used = BytesUsed(used.owner + int(owned[0][0]), used.all + int(everybody[0][0]))
    if used.all + upload.bytes > most or (most_owned is not None and used.owner + upload.bytes > most_owned):
        return Reserved(used, is_added=False)
    values = tuple(getattr(upload, name) for name in _FIELDS)
    yield Change(f"INSERT INTO uploads ({COLUMNS}) VALUES ({placeholders(1, len(_FIELDS))})", values)
    return Reserved(used, is_added=True)


def get(owner: str, id: str) -> Operation[UploadRecord | None]:
    rows = yield Statement(f"SELECT {COLUMNS} FROM uploads WHERE id = $1 AND owner = $2", (id, owner))
    return UploadRecord(**dict(zip(_FIELDS, rows[0], strict=True))) if rows else None


def add_part(owner: str, part: PartRecord, now: int) -> Operation[bool]:
    """False: there is no room for it in its upload, or that is not pending any more."""
    text = "SELECT bytes FROM uploads WHERE id = $1 AND owner = $2 AND status = 'pending' AND expires_at > $3 FOR UPDATE"
    rows = yield Statement(text, (part.upload, owner, now))
    sizes = yield Statement("SELECT coalesce(sum(size), 0) FROM upload_parts WHERE upload = $1", (part.upload,))
    if not rows or int(sizes[0][0]) + part.size > rows[0][0]:
        return False
    values = (part.id, part.upload, part.created_at, part.size)
    yield Change("INSERT INTO upload_parts (id, upload, created_at, size) VALUES ($1, $2, $3, $4)", values)
    return True


def parts(upload: str) -> Operation[dict[str, PartRecord]]:
    rows = yield Statement("SELECT id, upload, created_at, size FROM upload_parts WHERE upload = $1", (upload,))
    return {row[0]: PartRecord(id=row[0], upload=row[1], created_at=row[2], size=row[3]) for row in rows}


def complete(id: str, file: FileRecord) -> Operation[bool]:
    """False: it has ended already. Its bytes were reserved."""
    text = "UPDATE uploads SET status = 'completed', file = $3 WHERE id = $1 AND owner = $2 AND status = 'pending'"
    if not (yield Change(text, (id, file.owner, file.id)))[0][0]:
        return False
    yield from files.insert(file)
    return True


def cancel(owner: str, id: str) -> Operation[None]:
    yield Change("UPDATE uploads SET status = 'cancelled' WHERE id = $1 AND owner = $2 AND status = 'pending'", (id, owner))


def forget_parts(upload: str) -> Operation[None]:
    yield Change("DELETE FROM upload_parts WHERE upload = $1", (upload,))


def expired(now: int, limit: int) -> Operation[list[str]]:
    """Uploads whose time is over, complete or not."""
    rows = yield Statement("SELECT id FROM uploads WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2", (now, limit))
    return [row[0] for row in rows]


def remove(ids: Sequence[str]) -> Operation[None]:
    for id in ids:
        yield from forget_parts(id)
        yield Change("DELETE FROM uploads WHERE id = $1", (id,))


def move(earlier: str, owner: str) -> Operation[int]:
    moved: int = (yield Change("UPDATE uploads SET owner = $2 WHERE owner = $1", (earlier, owner)))[0][0]
    return moved
