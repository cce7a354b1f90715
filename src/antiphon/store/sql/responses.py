"""Operations on responses."""

from collections.abc import Sequence

from msgspec import structs

from antiphon.store.accounts import deliveries, usage
from antiphon.store.operations import Change, LongRead, LongWrite, Operation, Row, Statement, Wake, in_groups, placeholders
from antiphon.store.protocol import IdTaken
from antiphon.store.records import UNFINISHED, Link, Pieces, Record, deletion_expires_at
from antiphon.store.sql import item_index
from antiphon.store.sql.recent_chains import MOST_LINKS, Chain

# An output of more bytes is long.
LONGEST_OUTPUT = 1024 * 1024

# What is written beside a record has tables of its own, also the ids of its items.
FIELDS = tuple(name for name in Record.__struct_fields__ if name not in ("usage", "deliveries", "input_ids", "output_ids"))
COLUMNS = ", ".join(FIELDS)
# A row that exists is not changed. Unfinished responses are not marked as indexed: an older gateway may finish them. Those that
# are not to be stored are, also for older gateways: their items are never indexed.
INSERT = f"INSERT INTO responses ({COLUMNS}, items_indexed, items_indexed_by_time) {{values}} ON CONFLICT (id) DO NOTHING"
_PUT = INSERT.format(values=f"VALUES ({placeholders(1, len(FIELDS) + 2)})")
_OUTPUT = FIELDS.index("output")
_REPLACE = f"UPDATE responses SET ({COLUMNS}, items_indexed_by_time) = ({placeholders(1, len(FIELDS))}, true) WHERE id = $1"
_REPLACE_LONG = _REPLACE.replace(f"${_OUTPUT + 1},", "{long},")
_OF_OWNER = "id = $1 AND owner = $2 AND expires_at > $3"
_GET = f"SELECT {COLUMNS.replace(' output,', ' {output},')}, octet_length(output) FROM responses WHERE {_OF_OWNER}"
_NO_OUTPUT = "CAST('[]' AS bytea)"
# A long one is read apart.
_SHORT_OUTPUT = f"CASE WHEN octet_length(output) <= {LONGEST_OUTPUT} THEN output END"
# The order makes gateways that change the same rows wait for each other instead of deadlocking.
_KEEP = """
UPDATE responses SET expires_at = $1 WHERE id IN (
    SELECT id FROM responses
    WHERE id IN ({ids}) AND owner = $2 AND expires_at > $3 AND expires_at < $1 AND kept_after_end IS NULL ORDER BY id FOR UPDATE
)"""
_REMEMBER_DELETION = """
INSERT INTO deleted_responses (id, owner, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at"""

COUNT_DELETION = """
INSERT INTO deletions (owner, number) VALUES ($1, 1) ON CONFLICT (owner) DO UPDATE SET number = deletions.number + 1"""
_CONTINUED = "r.owner = $2 AND r.expires_at > $3 AND r.kept_after_end IS NULL"
# The parent's parent comes from a subquery, not from a join, for which Postgres would read all responses at every link. A
# parent that does not exist has no parent itself, and the last join drops it.
_CHAIN = f"""
WITH RECURSIVE links (id, parent, depth) AS (
    SELECT r.id, r.parent, 1 FROM responses r WHERE r.id = $1 AND {_CONTINUED}
    UNION ALL
    SELECT
        parent,
        (SELECT r.parent FROM responses r WHERE r.id = links.parent AND {_CONTINUED}),
        depth + 1
    FROM links WHERE parent IS NOT NULL AND depth < $4
)
SELECT r.id, r.status, r.input, r.output, r.parent, r.expires_at,
    (SELECT number FROM deletions WHERE owner = $2)
FROM links JOIN responses r ON r.id = links.id
WHERE {_CONTINUED} ORDER BY links.depth DESC"""


def record_values(record: Record) -> Row:
    return structs.astuple(record)[: len(FIELDS)]


def row_to_record(row: Row) -> Record:
    members = dict(zip(FIELDS, row, strict=True))
    return Record(**members | {"background": bool(members["background"])})


def put(record: Record, now: float) -> Operation[None]:
    is_hidden = record.kept_after_end is not None
    changed = yield Change(_PUT, (*record_values(record), is_hidden, is_hidden or record.status not in UNFINISHED))
    if not changed[0][0]:
        raise IdTaken(record.id)
    yield from item_index.add(record, now)
    yield from _put_beside(record, now)


def was_put(record: Record) -> Operation[bool]:
    """Whether a put of this record was committed, although its caller got no answer."""
    rows = yield Statement("SELECT input, output, settings FROM responses WHERE id = $1", (record.id,))
    if rows:
        return tuple(rows[0]) == (record.input, record.output, record.settings)
    # Its owner may have deleted it since.
    return bool((yield Statement("SELECT 1 FROM deleted_responses WHERE id = $1", (record.id,))))


def _put_beside(record: Record, now: float) -> Operation[None]:
    if record.usage is not None:
        yield from usage.add(record.usage)
    if record.deliveries:
        yield from deliveries.add_all(record.deliveries, now)


def replace(record: Record, output: Pieces | None, now: float) -> Operation[None]:
    """Store the final record of a response that was queued. `output`: in place of that of the record, if it is long."""
    values = record_values(record)
    if output is None:
        yield Statement(_REPLACE, values)
    else:
        values = (*values[:_OUTPUT], output, *values[_OUTPUT + 1 :])
        yield LongWrite(_REPLACE_LONG, values, _OUTPUT, "responses", "output")
    yield from item_index.add(record, now)
    yield from _put_beside(record, now)


def get(owner: str, id: str, now: float, *, output: bool = True) -> Operation[Record | None]:
    row = (id, owner, int(now))
    rows = yield Statement(_GET.format(output=_SHORT_OUTPUT if output else _NO_OUTPUT), row)
    if not rows:
        return None
    *members, size = rows[0]
    if output and members[_OUTPUT] is None:
        # Read in this way, it is in memory only once.
        parts = yield LongRead("responses", "output", _OF_OWNER, row, 0, size)
        if not parts:
            return None
        members[_OUTPUT] = parts[0][0]
    return row_to_record(members)


def exists(owner: str, id: str, now: float) -> Operation[bool]:
    text = "SELECT 1 FROM responses WHERE id = $1 AND owner = $2 AND expires_at > $3"
    return bool((yield Statement(text, (id, owner, int(now)))))


def delete(owner: str, id: str, now: float) -> Operation[bool]:
    text = "SELECT created_at, expires_at, kept_after_end FROM responses WHERE id = $1 AND owner = $2 AND expires_at > $3"
    lifetimes = yield Statement(text, (id, owner, int(now)))
    if not lifetimes:
        return False
    # The job first, as in `claim`, `finish` and `cancel`: operations that lock rows in the same order cannot deadlock.
    yield Statement("DELETE FROM jobs WHERE id = $1", (id,))
    yield Statement("DELETE FROM events WHERE response = $1", (id,))
    yield Statement("DELETE FROM response_items WHERE response = $1", (id,))
    rows = yield Statement("DELETE FROM responses WHERE id = $1 RETURNING id", (id,))
    created_at, expires_at, kept_after_end = lifetimes[0]
    if kept_after_end is None:
        yield Statement(_REMEMBER_DELETION, (id, owner, deletion_expires_at(created_at, expires_at, now)))
        yield Statement(COUNT_DELETION, (owner,))
    yield Wake(id)
    return bool(rows)


def was_deleted(owner: str, id: str, now: float) -> Operation[bool]:
    text = "SELECT 1 FROM deleted_responses WHERE id = $1 AND owner = $2 AND expires_at > $3"
    return bool((yield Statement(text, (id, owner, int(now)))))


def keep_until(owner: str, ids: Sequence[str], expires_at: int, now: float) -> Operation[None]:
    for group in in_groups(sorted(ids)):
        text = _KEEP.format(ids=placeholders(4, len(group)))
        yield Statement(text, (expires_at, owner, int(now), *group))


def chain(owner: str, id: str, known: Chain | None, now: float) -> Operation[Chain]:
    """Returns `known` itself if the owner has deleted nothing since it was read."""
    if known is not None:
        rows = yield Statement("SELECT number FROM deletions WHERE owner = $1", (owner,))
        if (rows[0][0] if rows else 0) == known.deletions:
            return known
    rows = yield Statement(_CHAIN, (id, owner, int(now), MOST_LINKS))
    # By id, because a chain that contains a cycle repeats its rows.
    links = {row[0]: Link(*row[:-1]) for row in rows}
    return Chain(list(links.values()), rows[0][-1] or 0 if rows else 0)
