"""Operations on the index of items: the items of responses and conversations by their ids."""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from antiphon.store.operations import Many, Operation, Row, Statement, in_groups, placeholders
from antiphon.store.records import UNFINISHED, Record, id_of, item_ids, items_with_ids

# Limits of one statement: responses that are indexed, and responses whose items are read.
INDEXED_RESPONSES = 50
READ_RESPONSES = 20

ADD = "INSERT INTO response_items (item, response, written_at) VALUES ($1, $2, $3) ON CONFLICT (item, response) DO NOTHING"
FINISHED = f"status NOT IN ({', '.join(repr(status) for status in sorted(UNFINISHED))})"
_MARK = "UPDATE responses SET items_indexed = true WHERE id IN ({ids})"
_UNINDEXED = f"""
SELECT id, owner, created_at, input, output FROM responses
WHERE NOT items_indexed AND {FINISHED} ORDER BY owner, id LIMIT $1 FOR UPDATE SKIP LOCKED"""
# Waits for gateways that are indexing the same responses: afterwards they are indexed.
_UNINDEXED_OF_OWNER = f"""
SELECT id, owner, created_at, input, output FROM responses
WHERE NOT items_indexed AND {FINISHED} AND owner = $2 ORDER BY id LIMIT $1 FOR UPDATE"""
_HAS_UNINDEXED = f"SELECT 1 FROM responses WHERE NOT items_indexed AND {FINISHED} AND owner = $1 LIMIT 1"
# Of several responses with the same item, the one that was written last.
_IN_RESPONSES = """
SELECT item, response, written_at FROM (
    SELECT i.item, i.response, i.written_at,
        row_number() OVER (PARTITION BY i.item ORDER BY i.written_at DESC, i.response DESC) AS place
    FROM response_items i JOIN responses r ON r.id = i.response
    WHERE i.item IN ({items}) AND r.owner = $1 AND r.expires_at > $2 AND r.kept_after_end IS NULL
) AS numbered WHERE place = 1"""
_IN_CONVERSATIONS = """
SELECT i.data, CASE WHEN i.written_at > c.created_at THEN i.written_at ELSE c.created_at END
FROM items i JOIN conversations c ON c.id = i.conversation
WHERE i.id IN ({items}) AND c.owner = $1 AND c.expires_at > $2"""


class Found(NamedTuple):
    written_at: float
    data: bytes


def add(record: Record, now: float) -> Operation[None]:
    """Index the items of a response that is written in the same transaction."""
    rows: list[Row] = [(key, record.id, now) for key in record_keys(record)]
    if rows:
        yield Many(ADD, rows)


def record_keys(record: Record) -> list[bytes]:
    """The keys of its items. None, if it is not to be stored."""
    return [] if record.kept_after_end is not None else [item_key(record.owner, id) for id in record.item_ids]


def item_keys(owner: str, *lists: bytes) -> list[bytes]:
    """The keys of the items in these JSON lists."""
    return [item_key(owner, id) for id in item_ids(*lists)]


def item_key(owner: str, id: str) -> bytes:
    """Short, whatever the id is, and different for each owner: so nobody's items make the search for another's slower."""
    return blake2b(id.encode(), digest_size=16, key=owner.encode()[:64]).digest()


def find(owner: str, ids: Collection[str], now: float) -> Operation[dict[str, bytes]]:
    found: dict[str, Found] = {}
    for group in in_groups(list(ids)):
        names = placeholders(3, len(group))
        rows = yield Statement(_IN_CONVERSATIONS.format(items=names), (owner, int(now), *group))
        _keep_newest(found, [(id, Found(at, data)) for data, at in rows if (id := id_of(data)) is not None and id in ids])
        # A response wins against a conversation that got the same items from it.
        keys = {item_key(owner, id): id for id in group}
        rows = yield Statement(_IN_RESPONSES.format(items=names), (owner, int(now), *keys))
        _keep_newest(found, (yield from _read([(keys[bytes(key)], *place) for key, *place in rows])))
    return {id: newest.data for id, newest in found.items()}


def _keep_newest(found: dict[str, Found], others: Iterable[tuple[str, Found]]) -> None:
    for id, other in others:
        if id not in found or other.written_at >= found[id].written_at:
            found[id] = other


def _read(places: Sequence[Row]) -> Operation[list[tuple[str, Found]]]:
    """The items in the responses that the index names."""
    by_response: dict[str, dict[str, float]] = {}
    for item, response, written_at in places:
        by_response.setdefault(response, {})[item] = written_at
    read: list[tuple[str, Found]] = []
    for group in in_groups(list(by_response), READ_RESPONSES):
        text = f"SELECT id, input, output FROM responses WHERE id IN ({placeholders(1, len(group))})"
        for response, *lists in (yield Statement(text, group)):
            wanted = by_response[response]
            read += [(id, Found(wanted[id], data)) for id, data in items_with_ids(wanted, *lists).items()]
    return read


# ---- what older gateways wrote -----------------------------------------------------------------------------------------


def has_unindexed(owner: str) -> Operation[bool]:
    return bool((yield Statement(_HAS_UNINDEXED, (owner,))))


def index_some(owner: str | None = None) -> Operation[int]:
    """Index some of the responses that are not indexed yet, of one owner or of all. Returns how many there were."""
    if owner is None:
        rows = yield Statement(_UNINDEXED, (INDEXED_RESPONSES,))
    else:
        rows = yield Statement(_UNINDEXED_OF_OWNER, (INDEXED_RESPONSES, owner))
    if rows:
        yield Many(ADD, _index_rows(rows))
        ids = [row[0] for row in rows]
        yield Statement(_MARK.format(ids=placeholders(1, len(ids))), ids)
    return len(rows)


def _index_rows(rows: Sequence[Row]) -> list[Row]:
    return [(key, id, float(created_at)) for id, owner, created_at, *lists in rows for key in item_keys(owner, *lists)]
