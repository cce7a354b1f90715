"""Operations on messages to webhooks: written with what they report, claimed for a while, and removed once accepted."""

from collections.abc import Sequence

from antiphon.store.account_records import Delivery
from antiphon.store.operations import Operation, Row, Statement, Wake, placeholders

# The topic of those who deliver.
DELIVERIES = "webhooks"

_ADD = """
INSERT INTO webhook_deliveries (id, endpoint, created_at, due_at, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO NOTHING"""
# SKIP LOCKED: gateways that deliver at the same time take different ones.
_DUE = """
SELECT id FROM webhook_deliveries WHERE endpoint = $1 AND due_at <= $2 ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED"""
_CLAIM = """
UPDATE webhook_deliveries SET due_at = $1, attempts = attempts + 1 WHERE id IN ({ids})
RETURNING id, endpoint, created_at, body, attempts"""
_EXPIRE = "DELETE FROM webhook_deliveries WHERE created_at < $1 RETURNING 1"


def add_all(deliveries: Sequence[Delivery], now: float) -> Operation[None]:
    for each in deliveries:
        yield Statement(_ADD, (each.id, each.endpoint, each.created_at, now, each.body))
    if deliveries:
        yield Wake(DELIVERIES)


def claim(endpoint: str, lease: float, most: int, now: float) -> Operation[list[Delivery]]:
    """Those that are due, the longest first. Unless they are done, they are due again at the end of the lease."""
    due = yield Statement(_DUE, (endpoint, now, most))
    if not due:
        return []
    rows = yield Statement(_CLAIM.format(ids=placeholders(2, len(due))), (now + lease, *(row[0] for row in due)))
    return sorted(map(_to_delivery, rows), key=lambda each: (each.created_at, each.id))


def _to_delivery(row: Row) -> Delivery:
    id, endpoint, created_at, body, attempts = row
    return Delivery(id, endpoint, created_at, bytes(body), attempts)


def done(id: str) -> Operation[None]:
    yield Statement("DELETE FROM webhook_deliveries WHERE id = $1", (id,))


def postpone(id: str, seconds: float, now: float) -> Operation[None]:
    yield Statement("UPDATE webhook_deliveries SET due_at = $2 WHERE id = $1", (id, now + seconds))


def expire(before: int) -> Operation[int]:
    return len((yield Statement(_EXPIRE, (before,))))
