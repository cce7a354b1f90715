"""Operations on owners: who owns what, and what is given to another owner, a limited number of rows in each transaction."""

from collections.abc import Callable, Sequence

from antiphon.store.operations import Many, Operation, Row, Statement, in_groups, placeholders
from antiphon.store.records import item_ids
from antiphon.store.sql import item_index

# Limit of one transaction. Of responses, the items are read.
MOVED_ROWS = 50

_OWNER = """
SELECT owner FROM responses WHERE id = $1 AND expires_at > $2
UNION ALL SELECT owner FROM conversations WHERE id = $1 AND expires_at > $2"""
_RENAME = """
INSERT INTO renamed_owners (earlier, owner) VALUES ($1, $2) ON CONFLICT (earlier) DO UPDATE SET owner = excluded.owner"""
# The order makes gateways that move the same rows wait for each other instead of deadlocking.
_MOVE = """
UPDATE {table} SET owner = $2 WHERE id IN (
    SELECT id FROM {table} WHERE id IN ({ids}) AND owner = $1 ORDER BY id FOR UPDATE
) RETURNING id"""
_FORGET = "DELETE FROM response_items WHERE item = $1 AND response = $2"
_KEYS = "SELECT item, response, written_at FROM response_items WHERE response IN ({ids})"


def owner_of(id: str, now: float) -> Operation[str | None]:
    rows = yield Statement(_OWNER, (id, int(now)))
    return rows[0][0] if rows else None


def by_either(owner: str, operate: Callable[[str], Operation[bool]]) -> Operation[bool]:
    """An operation of this owner; or of the owner that got its rows while a response was running."""
    if (yield from operate(owner)):
        return True
    rows = yield Statement("SELECT owner FROM renamed_owners WHERE earlier = $1", (owner,))
    return bool(rows) and (yield from operate(rows[0][0]))


def rename(earlier: str, owner: str) -> Operation[None]:
    yield Statement(_RENAME, (earlier, owner))


def move_responses(earlier: str, owner: str) -> Operation[int]:
    """Returns how many there were: 0 when none are left."""
    ids = yield from _some("responses", earlier)
    if ids:
        # The jobs first, as in all operations that lock both.
        yield Statement(f"SELECT id FROM jobs WHERE id IN ({placeholders(1, len(ids))}) ORDER BY id FOR UPDATE", ids)
        # Without those that another gateway has moved meanwhile.
        moved = yield from _move("responses", ids, earlier, owner)
        yield from _move("jobs", ids, earlier, owner)
        for group in in_groups(moved, item_index.READ_RESPONSES):
            yield from _index_again(group, earlier, owner)
    return len(ids)


def move_rows(table: str, earlier: str, owner: str) -> Operation[int]:
    """Of a table whose rows have nothing else that depends on their owner. Returns as `move_responses` does."""
    ids = yield from _some(table, earlier)
    if ids:
        yield from _move(table, ids, earlier, owner)
    return len(ids)


def _some(table: str, owner: str) -> Operation[list[str]]:
    rows = yield Statement(f"SELECT id FROM {table} WHERE owner = $1 LIMIT $2", (owner, MOVED_ROWS))
    return [row[0] for row in rows]


def _move(table: str, ids: Sequence[str], earlier: str, owner: str) -> Operation[list[str]]:
    rows = yield Statement(_MOVE.format(table=table, ids=placeholders(3, len(ids))), (earlier, owner, *ids))
    return [row[0] for row in rows]


def _index_again(ids: Sequence[str], earlier: str, owner: str) -> Operation[None]:
    """The keys of items depend on their owner. What is not indexed yet stays so, also in the way of older gateways."""
    names = placeholders(1, len(ids))
    written = {(bytes(key), response): at for key, response, at in (yield Statement(_KEYS.format(ids=names), ids))}
    rows = yield Statement(f"SELECT id, input, output FROM responses WHERE id IN ({names})", ids)
    moved = {
        (key(earlier, item), response): key(owner, item)
        for response, *lists in rows
        for item in item_ids(*lists)
        for key in (item_index.item_key, item_index.digest_key)
    }
    indexed = {place: key for place, key in moved.items() if place in written}
    if indexed:
        yield Many(_FORGET, list(indexed))
        new: list[Row] = [(key, place[1], written[place]) for place, key in indexed.items()]
        yield Many(item_index.ADD, new)
