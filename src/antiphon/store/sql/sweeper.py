"""Operations that remove rows, never many in one transaction: what hangs on a row first, then the row."""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.store.sql import responses
from antiphon.store.sql.operations import Operation, Row, Statement, placeholders

BATCH = 200
# So many are weighed in one transaction, each with all that hangs on it.
WEIGHED = 50
# Their rows are small, and hang on few.
CHILDREN = 1000


class Kind(NamedTuple):
    table: str
    # The table of what hangs on it, the column that says on which, and the one that tells them apart.
    children: str
    of: str
    place: str


RESPONSES = Kind("responses", "events", "response", "last")
CONVERSATIONS = Kind("conversations", "items", "conversation", "position")
KINDS = (RESPONSES, CONVERSATIONS)


# What a row takes beyond its values, with its places in the indexes: roughly, but the same wherever something is weighed.
ROW = 300
_RESPONSE = f"{ROW} + octet_length(input) + octet_length(output) + octet_length(settings)"
_CONVERSATION = f"{ROW} + octet_length(metadata)"
_PIECE = f"{ROW} + octet_length(data)"
WEIGHT = f"""
SELECT CAST(
    (SELECT coalesce(sum({_RESPONSE}), 0) FROM responses) + (SELECT coalesce(sum({_PIECE}), 0) FROM events)
    + (SELECT coalesce(sum({_CONVERSATION}), 0) FROM conversations) + (SELECT coalesce(sum({_PIECE}), 0) FROM items)
AS bigint)"""
# Those that would expire next; none that somebody works on.
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
# By kind. Each with what hangs on it.
_WEIGH = (
    f"""
SELECT CAST({_RESPONSE} + (SELECT coalesce(sum({_PIECE}), 0) FROM events WHERE response = $1) AS bigint)
FROM responses WHERE id = $1""",
    f"""
SELECT CAST({_CONVERSATION} + (SELECT coalesce(sum({_PIECE}), 0) FROM items WHERE conversation = $1) AS bigint)
FROM conversations WHERE id = $1""",
)


class Swept(NamedTuple):
    removed: int
    more: bool


class Expired(NamedTuple):
    number: int
    weight: int


def expire_oldest(excess: int, now: float) -> Operation[Expired]:
    """Makes some of them expire now, as many as weigh that much if they suffice: the rest is the sweeper's."""
    chosen: list[Row] = []
    weight = 0
    for row in (yield Statement(_OLDEST, (int(now), WEIGHED, now))):
        if weight < excess:
            chosen.append(row)
            # Another gateway may have removed it meanwhile.
            weight += sum(weighed[0] for weighed in (yield Statement(_WEIGH[row[0]], (row[1],))))
    for number, kind in enumerate(KINDS):
        if ids := [row[1] for row in chosen if row[0] == number]:
            text = f"UPDATE {kind.table} SET expires_at = $1 WHERE id IN ({placeholders(2, len(ids))})"
            yield Statement(text, (int(now), *ids))
    for owner in sorted({row[2] for row in chosen if row[0] == 0}):
        yield Statement(responses.COUNT_DELETION, (owner,))
    return Expired(len(chosen), weight)


def sweep_some(kind: Kind, now: float) -> Operation[Swept]:
    # Another gateway that sweeps takes others.
    text = f"SELECT id FROM {kind.table} WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED"
    rows = yield Statement(text, (int(now), BATCH))
    if not rows:
        return Swept(0, more=False)
    swept = yield from remove_some(kind, [row[0] for row in rows])
    return Swept(swept.removed, swept.more or len(rows) == BATCH)


def remove_some(kind: Kind, ids: Sequence[str]) -> Operation[Swept]:
    """`more`: not all that hangs on them is gone yet, so neither are they."""
    those = placeholders(1, len(ids))
    key = f"{kind.of}, {kind.place}"
    some = f"SELECT {key} FROM {kind.children} WHERE {kind.of} IN ({those}) LIMIT ${len(ids) + 1}"
    gone = yield Statement(f"DELETE FROM {kind.children} WHERE ({key}) IN ({some}) RETURNING 1", (*ids, CHILDREN))
    if len(gone) == CHILDREN:
        return Swept(0, more=True)
    if kind is RESPONSES:
        yield Statement(f"DELETE FROM jobs WHERE id IN ({those})", ids)
    removed = yield Statement(f"DELETE FROM {kind.table} WHERE id IN ({those}) RETURNING id", ids)
    return Swept(len(removed), more=False)
