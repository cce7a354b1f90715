"""Operations on background responses: the queue, the leases, the events."""

from collections.abc import Sequence

import msgspec

from antiphon.store.records import Cancellation, Event, Item, Job, Progress, Purpose, Record
from antiphon.store.sql import conversations, responses
from antiphon.store.sql.operations import Operation, Statement, Wake, placeholders

# The topic of workers that wait for a job to claim.
JOBS = "jobs"

_NEXT = """
SELECT j.id, j.attempt, j.given_back, j.cancel, j.request FROM jobs j JOIN responses r ON r.id = j.id
WHERE j.available_at <= $1 AND r.expires_at > $2
ORDER BY j.available_at, j.number LIMIT 1 FOR UPDATE OF j SKIP LOCKED"""
_START = f"""
UPDATE responses SET attempt = $2, status = CASE WHEN $3 THEN 'in_progress' ELSE status END
WHERE id = $1 RETURNING {responses.COLUMNS}"""
_EVENTS = """
SELECT r.status, r.attempt, e.data FROM responses r LEFT JOIN events e ON e.response = r.id AND e.last > $4
WHERE r.id = $1 AND r.owner = $2 AND r.expires_at > $3 ORDER BY e.last"""
# The same events may be written twice, if the answer of the database to the first write was lost.
_APPEND = """
INSERT INTO events (response, last, data) VALUES ($1, $2, $3)
ON CONFLICT (response, last) DO UPDATE SET data = excluded.data"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Event]).decode


def enqueue(record: Record, request: bytes, now: float) -> Operation[None]:
    yield from responses.put(record, now)
    text = "INSERT INTO jobs (id, owner, available_at, request) VALUES ($1, $2, $3, $4)"
    yield Statement(text, (record.id, record.owner, now, request))
    yield Wake(JOBS)


def claim(worker: str, lease: float, most_attempts: int, now: float) -> Operation[Job | None]:
    rows = yield Statement(_NEXT, (now, int(now)))
    if not rows:
        return None
    id, attempts, given_back, cancel, request = rows[0]
    lost = attempts - given_back
    purpose: Purpose = "cancel" if cancel else "fail" if lost >= most_attempts else "run"
    text = "UPDATE jobs SET worker = $2, available_at = $3, attempt = $4 WHERE id = $1"
    yield Statement(text, (id, worker, now + lease, attempts + 1))
    yield Statement("DELETE FROM events WHERE response = $1", (id,))
    started = yield Statement(_START, (id, attempts + 1, purpose == "run"))
    yield Wake(id)
    return Job(responses.row_to_record(started[0]), request, attempts + 1, purpose, lost)


def renew(worker: str, ids: Sequence[str], lease: float, now: float) -> Operation[dict[str, bool]]:
    if not ids:
        return {}
    text = f"UPDATE jobs SET available_at = $1 WHERE worker = $2 AND id IN ({placeholders(3, len(ids))}) RETURNING id, cancel"
    rows = yield Statement(text, (now + lease, worker, *ids))
    return {id: bool(cancel) for id, cancel in rows}


def give_back(worker: str, ids: Sequence[str], now: float) -> Operation[None]:
    if not ids:
        return
    text = f"""UPDATE jobs SET worker = NULL, available_at = $1, given_back = given_back + 1
        WHERE worker = $2 AND id IN ({placeholders(3, len(ids))}) RETURNING id"""
    for (id,) in (yield Statement(text, (now, worker, *ids))):
        yield Statement("DELETE FROM events WHERE response = $1", (id,))
        yield Statement("UPDATE responses SET status = 'queued' WHERE id = $1", (id,))
        yield Wake(id)
    yield Wake(JOBS)


def append_events(id: str, worker: str, attempt: int, events: Sequence[Event]) -> Operation[bool]:
    text = "SELECT 1 FROM jobs WHERE id = $1 AND worker = $2 AND attempt = $3 FOR UPDATE"
    if not (yield Statement(text, (id, worker, attempt))):
        return False
    yield from _append(id, events)
    return True


def _append(id: str, events: Sequence[Event]) -> Operation[None]:
    if events:
        yield Statement(_APPEND, (id, events[-1].number, _encode(events)))
    yield Wake(id)


def events_after(owner: str, id: str, after: int, now: float) -> Operation[Progress | None]:
    rows = yield Statement(_EVENTS, (id, owner, int(now), after))
    if not rows:
        return None
    new = [event for _, _, data in rows if data is not None for event in _decode(data) if event.number > after]
    return Progress(rows[0][0], rows[0][1], new)


def finish(
    record: Record, worker: str, attempt: int, events: Sequence[Event], items: Sequence[Item], now: float
) -> Operation[bool]:
    text = "DELETE FROM jobs WHERE id = $1 AND owner = $2 AND worker = $3 AND attempt = $4 RETURNING id"
    if not (yield Statement(text, (record.id, record.owner, worker, attempt))):
        return False
    yield from conversations.append_and_unlock(record, items, now)
    yield from responses.replace(record, now)
    yield from _append(record.id, events)
    return True


def cancel(owner: str, id: str, now: float) -> Operation[Cancellation]:
    jobs = yield Statement("SELECT worker FROM jobs WHERE id = $1 AND owner = $2 FOR UPDATE", (id, owner))
    if not (yield from responses.exists(owner, id, now)):
        return "unknown"
    if not jobs:
        return "over"
    yield Wake(id)
    if jobs[0][0] is not None:
        yield Statement("UPDATE jobs SET cancel = true WHERE id = $1", (id,))
        return "asked"
    yield Statement("DELETE FROM jobs WHERE id = $1", (id,))
    yield Statement("UPDATE responses SET status = 'cancelled' WHERE id = $1", (id,))
    return "cancelled"
