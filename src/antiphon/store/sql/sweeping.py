"""Operations that remove rows, never many in one transaction: what hangs on a row first, then the row."""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.store.sql.operations import Operation, Statement, placeholders

BATCH = 200
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


class Swept(NamedTuple):
    removed: int
    more: bool


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
