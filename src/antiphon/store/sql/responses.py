"""Operations on responses."""

from msgspec import structs

from antiphon.store.protocol import IdTaken
from antiphon.store.records import Link, Record
from antiphon.store.sql.operations import Change, Operation, Ring, Row, Statement, placeholders

FIELDS = Record.__struct_fields__
COLUMNS = ", ".join(FIELDS)
# A chain is followed so far back; behind that it begins.
MAX_LINKS = 10_000

# Whoever put it first decides on its parent, so that chains cannot change.
_REPLACED = [name for name in FIELDS if name not in {"id", "owner", "parent"}]
UPSERT = f"""
INSERT INTO responses ({COLUMNS}) {{values}}
ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _REPLACED)}
WHERE responses.owner = excluded.owner"""
_PUT = UPSERT.format(values=f"VALUES ({placeholders(1, len(FIELDS))})")

# The parent's parent is asked for by itself, and not joined: Postgres would read all responses for every link. Who is not there
# has no parent, and is dropped in the end.
_CHAIN = """
WITH RECURSIVE links (id, parent, depth) AS (
    SELECT id, parent, 1 FROM responses WHERE id = $1 AND owner = $2 AND expires_at > $3
    UNION ALL
    SELECT
        parent,
        (SELECT r.parent FROM responses r WHERE r.id = links.parent AND r.owner = $2 AND r.expires_at > $3),
        depth + 1
    FROM links WHERE parent IS NOT NULL AND depth < $4
)
SELECT r.id, r.status, r.input, r.output FROM links JOIN responses r ON r.id = links.id
WHERE r.owner = $2 AND r.expires_at > $3 ORDER BY links.depth DESC"""


def record_values(record: Record) -> Row:
    return structs.astuple(record)


def row_to_record(row: Row) -> Record:
    members = dict(zip(FIELDS, row, strict=True))
    return Record(**members | {"background": bool(members["background"])})


def put(record: Record) -> Operation[None]:
    changed = yield Change(_PUT, record_values(record))
    if not changed[0][0]:
        # It is there, and another owner's.
        raise IdTaken(record.id)


def get(owner: str, id: str, now: float) -> Operation[Record | None]:
    text = f"SELECT {COLUMNS} FROM responses WHERE id = $1 AND owner = $2 AND expires_at > $3"
    rows = yield Statement(text, (id, owner, int(now)))
    return row_to_record(rows[0]) if rows else None


def exists(owner: str, id: str, now: float) -> Operation[bool]:
    text = "SELECT 1 FROM responses WHERE id = $1 AND owner = $2 AND expires_at > $3"
    return bool((yield Statement(text, (id, owner, int(now)))))


def delete(owner: str, id: str, now: float) -> Operation[bool]:
    if not (yield from exists(owner, id, now)):
        return False
    # The job goes first: whoever works on it locks it before anything else, too.
    yield Statement("DELETE FROM jobs WHERE id = $1", (id,))
    yield Statement("DELETE FROM events WHERE response = $1", (id,))
    rows = yield Statement("DELETE FROM responses WHERE id = $1 RETURNING id", (id,))
    yield Ring(id)
    return bool(rows)


def chain(owner: str, id: str, now: float) -> Operation[list[Link]]:
    rows = yield Statement(_CHAIN, (id, owner, int(now), MAX_LINKS))
    # By id, because a chain that leads back into itself comes round again.
    return list({row[0]: Link(*row) for row in rows}.values())
