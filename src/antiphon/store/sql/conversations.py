"""Operations on conversations, their items and their locks."""

from collections.abc import Sequence

from msgspec import structs

from antiphon.errors import InvalidRequest
from antiphon.store.operations import Many, Operation, Row, Statement
from antiphon.store.protocol import IdTaken
from antiphon.store.records import Conversation, Item, Record
from antiphon.store.sql import responses
from antiphon.store.sql.owners import by_either

COLUMNS = ", ".join(Conversation.__struct_fields__)
LAST_POSITION = 2**62

# This locks the conversation's row before items are written, so that concurrent appends happen one after the other.
_RESERVE = """
UPDATE conversations SET
    next_position = next_position + $4,
    expires_at = CASE WHEN expires_at < $5 THEN $5 ELSE expires_at END
WHERE id = $1 AND owner = $2 AND expires_at > $3 RETURNING next_position"""
_APPEND = """
INSERT INTO items (conversation, position, id, data, written_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (conversation, id) DO UPDATE SET data = excluded.data, written_at = excluded.written_at"""
# `holder` is the response that has the lock, `held_until` the end of its lease.
_LOCK = """
UPDATE conversations SET holder = $4, held_until = $5
WHERE id = $1 AND owner = $2 AND expires_at > $3 AND (holder IS NULL OR holder = $4 OR held_until <= $6) RETURNING id"""
_UNLOCK = """
UPDATE conversations SET holder = NULL, held_until = 0
WHERE id = $1 AND owner = $2 AND expires_at > $3 AND holder = $4 RETURNING id"""
_PAGE = """
SELECT id, data FROM items WHERE conversation = $1 AND position > $2 AND position < $3 ORDER BY position {order} LIMIT $4"""
_ITEM = "SELECT id, data FROM items WHERE conversation = $1 AND id = $2"


def create(conversation: Conversation, items: Sequence[Item], now: float) -> Operation[None]:
    text = f"INSERT INTO conversations ({COLUMNS}) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING id"
    values = tuple(getattr(conversation, name) for name in Conversation.__struct_fields__)
    if not (yield Statement(text, values)):
        raise IdTaken(conversation.id)
    yield from append(conversation.owner, conversation.id, items, 0, now)


def get(owner: str, id: str, now: float) -> Operation[Conversation | None]:
    text = f"SELECT {COLUMNS} FROM conversations WHERE id = $1 AND owner = $2 AND expires_at > $3"
    return _row_to_conversation((yield Statement(text, (id, owner, int(now)))))


def set_metadata(owner: str, id: str, metadata: bytes, now: float) -> Operation[Conversation | None]:
    text = f"UPDATE conversations SET metadata = $4 WHERE id = $1 AND owner = $2 AND expires_at > $3 RETURNING {COLUMNS}"
    return _row_to_conversation((yield Statement(text, (id, owner, int(now), metadata))))


def _row_to_conversation(rows: list[Row]) -> Conversation | None:
    return Conversation(**dict(zip(Conversation.__struct_fields__, rows[0], strict=True))) if rows else None


def hide(owner: str, id: str, now: float) -> Operation[bool]:
    """Make it expire now, so that it is invisible and can be swept."""
    text = "UPDATE conversations SET expires_at = 0 WHERE id = $1 AND owner = $2 AND expires_at > $3 RETURNING id"
    return bool((yield Statement(text, (id, owner, int(now)))))


def append(owner: str, conversation: str, items: Sequence[Item], expires_at: int, now: float) -> Operation[bool]:
    # An id that occurs twice in one call is one item.
    added = {item.id: item for item in items}
    rows = yield Statement(_RESERVE, (conversation, owner, int(now), len(added), expires_at))
    if not rows:
        return False
    first = rows[0][0] - len(added)
    numbered = enumerate(added.values(), first)
    yield Many(_APPEND, [(conversation, position, item.id, item.data, now) for position, item in numbered])
    return True


def list_items(
    owner: str, conversation: str, after: str | None, before: str | None, limit: int, ascending: bool, now: float
) -> Operation[list[Item] | None]:
    if (yield from get(owner, conversation, now)) is None:
        return None
    # Positions in the conversation, whatever the order of the list: the items between `low` and `high`.
    low = yield from _position(conversation, "after" if ascending else "before", after if ascending else before, -1)
    high = yield from _position(conversation, "before" if ascending else "after", before if ascending else after, LAST_POSITION)
    # With `before` alone, the page ends there, so it is read backwards.
    backwards = before is not None and after is None
    order = "ASC" if ascending != backwards else "DESC"
    rows = yield Statement(_PAGE.format(order=order), (conversation, low, high, limit))
    return [Item(*row) for row in (reversed(rows) if backwards else rows)]


def _position(conversation: str, param: str, cursor: str | None, default: int) -> Operation[int]:
    if cursor is None:
        return default
    rows = yield Statement("SELECT position FROM items WHERE conversation = $1 AND id = $2", (conversation, cursor))
    if not rows:
        raise InvalidRequest(f"There is no item {cursor!r} in this conversation.", param=param, code="invalid_value")
    position: int = rows[0][0]
    return position


def all_items(owner: str, conversation: str, now: float) -> Operation[list[Item] | None]:
    if (yield from get(owner, conversation, now)) is None:
        return None
    rows = yield Statement("SELECT id, data FROM items WHERE conversation = $1 ORDER BY position", (conversation,))
    return [Item(*row) for row in rows]


def get_item(owner: str, conversation: str, id: str, now: float) -> Operation[Item | None]:
    if (yield from get(owner, conversation, now)) is None:
        return None
    rows = yield Statement(_ITEM, (conversation, id))
    return Item(*rows[0]) if rows else None


def delete_item(owner: str, conversation: str, id: str, now: float) -> Operation[bool]:
    if (yield from get(owner, conversation, now)) is None:
        return False
    return bool((yield Statement("DELETE FROM items WHERE conversation = $1 AND id = $2 RETURNING id", (conversation, id))))


def lock(owner: str, conversation: str, response: str, lease: float, now: float) -> Operation[bool]:
    return bool((yield Statement(_LOCK, (conversation, owner, int(now), response, now + lease, now))))


def unlock(owner: str, conversation: str, response: str, now: float) -> Operation[bool]:
    return bool((yield Statement(_UNLOCK, (conversation, owner, int(now), response))))


def put_and_unlock(record: Record, items: Sequence[Item], now: float) -> Operation[bool]:
    """False, and nothing is written: the response does not have the lock."""
    return (yield from by_either(record.owner, lambda each: _put_and_unlock(structs.replace(record, owner=each), items, now)))


def _put_and_unlock(record: Record, items: Sequence[Item], now: float) -> Operation[bool]:
    if not (yield from append_and_unlock(record, items, now)):
        return False
    yield from responses.put(record, now)
    return True


def append_and_unlock(record: Record, items: Sequence[Item], now: float) -> Operation[bool]:
    """False, and nothing is written: the response does not have the lock."""
    if record.conversation is None or not (yield from unlock(record.owner, record.conversation, record.id, now)):
        return False
    return (yield from append(record.owner, record.conversation, items, record.expires_at, now))
