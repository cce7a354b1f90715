"""Operations on the index of items: the items of responses and conversations by their ids.

In a database, rows are in the order of their keys, and each page that a write touches is written to the disk as a whole. So the
key of an item begins with the time, which is in its id: what is written at the same time shares pages. The keys of older
versions were digests, and each of them is in a page of its own. They are still found.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from antiphon.ids import time_digits
from antiphon.store.operations import Many, Operation, Row, Statement, in_groups, placeholders
from antiphon.store.records import UNFINISHED, Record, id_of, item_ids, items_with_ids

# Limits of one statement: responses that are indexed, and responses whose items are read.
INDEXED_RESPONSES = 50
READ_RESPONSES = 20

ADD = "INSERT INTO response_items (item, response, written_at) VALUES ($1, $2, $3) ON CONFLICT (item, response) DO NOTHING"
FINISHED = f"status NOT IN ({', '.join(repr(status) for status in sorted(UNFINISHED))})"
_MARK = "UPDATE responses SET items_indexed_by_time = true WHERE id IN ({ids})"
_IS_UNINDEXED = f"NOT items_indexed AND NOT items_indexed_by_time AND {FINISHED}"
_UNINDEXED = f"""
SELECT id, owner, created_at, input, output FROM responses
WHERE {_IS_UNINDEXED} ORDER BY owner, id LIMIT $1 FOR UPDATE SKIP LOCKED"""
# Waits for gateways that are indexing the same responses: afterwards they are indexed.
_UNINDEXED_OF_OWNER = f"""
SELECT id, owner, created_at, input, output FROM responses
WHERE {_IS_UNINDEXED} AND owner = $2 ORDER BY id LIMIT $1 FOR UPDATE"""
_HAS_UNINDEXED = f"SELECT 1 FROM responses WHERE {_IS_UNINDEXED} AND owner = $1 LIMIT 1"
# A key has so many bytes in all, and so many digits of the time, which are those of 65 microseconds.
KEY_BYTES = 16
TIME_DIGITS = 12
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
    if record.kept_after_end is not None:
        return []
    keys = [item_key(record.owner, id) for id in record.item_ids]
    # Older gateways index only responses that have ended.
    if record.status in UNFINISHED:
        keys += [digest_key(record.owner, id) for id in record.item_ids]
    return keys


def item_keys(owner: str, *lists: bytes) -> list[bytes]:
    """The keys of the items in these JSON lists."""
    return [item_key(owner, id) for id in item_ids(*lists)]


def item_key(owner: str, id: str) -> bytes:
    """Short, whatever the id is, and different for each owner: so nobody's items make the search for another's slower."""
    digits = time_digits(id)
    if digits is None:
        return digest_key(owner, id)
    time = bytes.fromhex(digits[:TIME_DIGITS])
    return time + _digest(owner, id, KEY_BYTES - len(time))


def digest_key(owner: str, id: str) -> bytes:
    """The key of every item in older versions, and still of those whose ids were not made here."""
    return _digest(owner, id, KEY_BYTES)


def _digest(owner: str, id: str, size: int) -> bytes:
    return blake2b(id.encode(), digest_size=size, key=owner.encode()[:64]).digest()


def find(owner: str, ids: Collection[str], now: float) -> Operation[dict[str, bytes]]:
    found: dict[str, Found] = {}
    for group in in_groups(list(ids)):
        names = placeholders(3, len(group))
        rows = yield Statement(_IN_CONVERSATIONS.format(items=names), (owner, int(now), *group))
        _keep_newest(found, [(id, Found(at, data)) for data, at in rows if (id := id_of(data)) is not None and id in ids])
    # A response wins against a conversation that got the same items from it.
    keys = {key(owner, id): id for id in ids for key in (item_key, digest_key)}
    for some in in_groups(list(keys)):
        rows = yield Statement(_IN_RESPONSES.format(items=placeholders(3, len(some))), (owner, int(now), *some))
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
        written = by_response.setdefault(response, {})
        # With both keys, if an older gateway has indexed it too.
        written[item] = max(written_at, written.get(item, written_at))
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
