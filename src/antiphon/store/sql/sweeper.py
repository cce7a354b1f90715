"""Operations that remove rows, a limited number in each transaction: first the children of a row, then the row."""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.store.operations import Operation, Row, Statement, placeholders
from antiphon.store.sql import item_index, responses

# Limits of one transaction: rows that are swept, rows whose size is computed (with their children), children that are removed.
SWEPT_ROWS = 200
SIZED_ROWS = 50
REMOVED_CHILDREN = 1000


class Children(NamedTuple):
    """A child table: its column for the id of the parent, and the column that completes its primary key."""

    table: str
    parent_id: str
    key: str


class Kind(NamedTuple):
    table: str
    children: tuple[Children, ...]


RESPONSES = Kind("responses", (Children("events", "response", "last"), Children("response_items", "response", "item")))
CONVERSATIONS = Kind("conversations", (Children("items", "conversation", "position"),))
KINDS = (RESPONSES, CONVERSATIONS)


# What a row takes beyond its values, with its index entries: an estimate, but the same one in every sum.
ROW_OVERHEAD = 300
_RESPONSE = f"{ROW_OVERHEAD} + octet_length(input) + octet_length(output) + octet_length(settings)"
_CONVERSATION = f"{ROW_OVERHEAD} + octet_length(metadata)"
_CHILD = f"{ROW_OVERHEAD} + octet_length(data)"
# The index entries of a response's items: they have no values of their own.
_ENTRIES = f"{ROW_OVERHEAD} * count(*)"
TOTAL_SIZE = f"""
SELECT CAST(
    (SELECT coalesce(sum({_RESPONSE}), 0) FROM responses) + (SELECT coalesce(sum({_CHILD}), 0) FROM events)
    + (SELECT {_ENTRIES} FROM response_items)
    + (SELECT coalesce(sum({_CONVERSATION}), 0) FROM conversations) + (SELECT coalesce(sum({_CHILD}), 0) FROM items)
AS bigint)"""
# The rows that would expire next, except those in use.
_OLDEST = """
SELECT kind, id, owner FROM (
    SELECT * FROM (
        SELECT 0 AS kind, id, owner, expires_at FROM responses
        WHERE expires_at > $1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = responses.id) ORDER BY expires_at LIMIT $2
    ) AS some_responses
    UNION ALL
    SELECT * FROM (
        SELECT 1 AS kind, id, owner, expires_at FROM conversations
        WHERE expires_at > $1 AND held_until <= $3 ORDER BY expires_at LIMIT $2
    ) AS some_conversations
) AS oldest ORDER BY expires_at, id LIMIT $2"""
# Responses that are not to be stored, and that a gateway ended which did not know about that.
_EXPIRE_ENDED = f"""
UPDATE responses SET expires_at = $1 + kept_after_end WHERE id IN (
    SELECT id FROM responses WHERE kept_after_end >= 0 AND {item_index.FINISHED} AND expires_at > $1 + kept_after_end
    LIMIT $2 FOR UPDATE SKIP LOCKED
) RETURNING id"""
# In the order of KINDS. The size of one row with its children.
_SIZE_OF_ROW = (
    f"""
SELECT CAST({_RESPONSE} + (SELECT coalesce(sum({_CHILD}), 0) FROM events WHERE response = $1)
    + (SELECT {_ENTRIES} FROM response_items WHERE response = $1) AS bigint)
FROM responses WHERE id = $1""",
    f"""
SELECT CAST({_CONVERSATION} + (SELECT coalesce(sum({_CHILD}), 0) FROM items WHERE conversation = $1) AS bigint)
FROM conversations WHERE id = $1""",
)


class Swept(NamedTuple):
    removed: int
    more: bool


class Expired(NamedTuple):
    rows: int
    size: int


def expire_oldest(excess: int, now: float) -> Operation[Expired]:
    """Make the oldest rows expire now, until their size is at least `excess` or the limit of one transaction is reached.

    The sweeper then removes them.
    """
    chosen: list[Row] = []
    size = 0
    for row in (yield Statement(_OLDEST, (int(now), SIZED_ROWS, now))):
        if size < excess:
            chosen.append(row)
            # No row: another gateway has removed it in the meantime.
            size += sum(sizes[0] for sizes in (yield Statement(_SIZE_OF_ROW[row[0]], (row[1],))))
    for number, kind in enumerate(KINDS):
        if ids := [row[1] for row in chosen if row[0] == number]:
            text = f"UPDATE {kind.table} SET expires_at = $1 WHERE id IN ({placeholders(2, len(ids))})"
            yield Statement(text, (int(now), *ids))
    for owner in sorted({row[2] for row in chosen if row[0] == 0}):
        yield Statement(responses.COUNT_DELETION, (owner,))
    return Expired(len(chosen), size)


def expire_ended(now: float) -> Operation[bool]:
    """For responses that an older gateway ended. Returns whether there may be others."""
    rows = yield Statement(_EXPIRE_ENDED, (int(now), SWEPT_ROWS))
    return len(rows) == SWEPT_ROWS


def sweep_some(kind: Kind, now: float) -> Operation[Swept]:
    # SKIP LOCKED: gateways that sweep at the same time take different rows.
    text = f"SELECT id FROM {kind.table} WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED"
    rows = yield Statement(text, (int(now), SWEPT_ROWS))
    if not rows:
        return Swept(0, more=False)
    swept = yield from remove_some(kind, [row[0] for row in rows])
    return Swept(swept.removed, swept.more or len(rows) == SWEPT_ROWS)


def remove_some(kind: Kind, ids: Sequence[str]) -> Operation[Swept]:
    """`more`: some children are left, so the rows are not removed yet."""
    parents = placeholders(1, len(ids))
    for table, parent_id, child_key in kind.children:
        key = f"{parent_id}, {child_key}"
        some = f"SELECT {key} FROM {table} WHERE {parent_id} IN ({parents}) LIMIT ${len(ids) + 1}"
        gone = yield Statement(f"DELETE FROM {table} WHERE ({key}) IN ({some}) RETURNING 1", (*ids, REMOVED_CHILDREN))
        if len(gone) == REMOVED_CHILDREN:
            return Swept(0, more=True)
    if kind is RESPONSES:
        yield Statement(f"DELETE FROM jobs WHERE id IN ({parents})", ids)
    removed = yield Statement(f"DELETE FROM {kind.table} WHERE id IN ({parents}) RETURNING id", ids)
    return Swept(len(removed), more=False)


def forget_deletions(now: float) -> Operation[bool]:
    """Forget deletions that no stored response can depend on any more. Returns whether there may be others."""
    text = "SELECT id FROM deleted_responses WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED"
    rows = yield Statement(text, (int(now), SWEPT_ROWS))
    if rows:
        ids = [row[0] for row in rows]
        yield Statement(f"DELETE FROM deleted_responses WHERE id IN ({placeholders(1, len(ids))})", ids)
    return len(rows) == SWEPT_ROWS
