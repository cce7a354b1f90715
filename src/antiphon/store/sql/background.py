"""Operations on background responses: the queue, the leases, the events.

The events of one append are one row, a MessagePack list, each with its number and its bytes. A long event has a row of its own.
Its bytes are the end of the row, so that parts of them can be read.
"""

import struct
from collections.abc import Collection, Iterator, Sequence

import msgspec

from antiphon.store.account_records import Delivery
from antiphon.store.accounts import deliveries
from antiphon.store.operations import LongRead, LongWrite, Operation, Statement, Wake, placeholders
from antiphon.store.records import (
    LONGEST_EVENT,
    Cancellation,
    Event,
    Item,
    Job,
    JobCounts,
    LongEvent,
    LongEventPlace,
    Pieces,
    Progress,
    Purpose,
    Record,
    fitting,
)
from antiphon.store.sql import conversations, responses

# How MessagePack writes bytes: none, and the head of any number.
_NO_BYTES = b"\xc4\x00"
_LONG_BYTES = struct.Struct(">BI")
_LONG = 0xC6
# The most bytes before those of a long event: two lists, its number, and the head of its bytes.
LONGEST_HEAD = 2 + 9 + _LONG_BYTES.size

_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[Event]).decode


class LongRow:
    """The row of a long event, in pieces."""

    def __init__(self, number: int, data: Pieces) -> None:
        self._head = _number_head(number) + _LONG_BYTES.pack(_LONG, len(data))
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        yield from self._data

    def __len__(self) -> int:
        return len(self._head) + len(self._data)


def encode(events: Sequence[Event | LongEvent]) -> bytes | LongRow:
    first = events[0]
    return LongRow(first.number, first.data) if isinstance(first, LongEvent) else _encode(events)


def long_event_start(number: int, row: bytes) -> int | None:
    """Where the bytes of this event begin in its row, of which this is the beginning. None: the row has other events too."""
    head = _number_head(number)
    return len(head) + _LONG_BYTES.size if row.startswith(head + bytes([_LONG])) else None


def _number_head(number: int) -> bytes:
    return _encode([(number, b"")]).removesuffix(_NO_BYTES)


# The topic of workers that wait for a job to claim.
JOBS = "jobs"

_NEXT = """
SELECT j.id, j.attempt, j.given_back, j.cancel, j.request, j.begun_calls FROM jobs j JOIN responses r ON r.id = j.id
WHERE j.available_at <= $1 AND r.expires_at > $2{others}
ORDER BY j.available_at, j.number LIMIT 1 FOR UPDATE OF j SKIP LOCKED"""
_START = f"""
UPDATE responses SET attempt = $2, status = CASE WHEN $3 THEN 'in_progress' ELSE status END
WHERE id = $1 RETURNING {responses.COLUMNS}"""
# A page of events: how large the next rows are, with the status at that time; then those that fit, of the same attempt.
_SIZES = """
SELECT r.status, r.attempt, e.last, length(e.data) FROM responses r LEFT JOIN events e ON e.response = r.id AND e.last > $4
WHERE r.id = $1 AND r.owner = $2 AND r.expires_at > $3 ORDER BY e.last LIMIT $5"""
_PAGE = """
SELECT e.data FROM events e JOIN responses r ON r.id = e.response AND r.attempt = $2
WHERE e.response = $1 AND e.last > $3 AND e.last <= $4 ORDER BY e.last"""
# The most rows in one page.
PAGE_ROWS = 64
# The same events may be written twice, if the answer of the database to the first write was lost.
_APPEND = """
INSERT INTO events (response, last, data) VALUES ($1, $2, {long})
ON CONFLICT (response, last) DO UPDATE SET data = excluded.data"""
# One that is not to be stored expires soon.
_CANCEL = """
UPDATE responses SET status = 'cancelled',
    expires_at = CASE WHEN $2 + kept_after_end < expires_at THEN $2 + kept_after_end ELSE expires_at END
WHERE id = $1"""
# One row, as long as its attempt is the current one.
_ROW = """response = $1 AND last = $2 AND EXISTS (
    SELECT 1 FROM responses r WHERE r.id = $1 AND r.attempt = $3 AND r.owner = $4 AND r.expires_at > $5)"""


def enqueue(record: Record, request: bytes, now: float) -> Operation[None]:
    yield from responses.put(record, now)
    text = "INSERT INTO jobs (id, owner, available_at, request) VALUES ($1, $2, $3, $4)"
    yield Statement(text, (record.id, record.owner, now, request))
    yield Wake(JOBS)


def claim(worker: str, lease: float, most_attempts: int, not_of: Collection[str], now: float) -> Operation[Job | None]:
    others = f" AND j.owner NOT IN ({placeholders(3, len(not_of))})" if not_of else ""
    rows = yield Statement(_NEXT.format(others=others), (now, int(now), *not_of))
    if not rows:
        return None
    id, attempts, given_back, cancel, request, begun = rows[0]
    lost = attempts - given_back
    purpose: Purpose = "cancel" if cancel else "fail" if lost >= most_attempts else "run"
    text = "UPDATE jobs SET worker = $2, available_at = $3, attempt = $4 WHERE id = $1"
    yield Statement(text, (id, worker, now + lease, attempts + 1))
    yield Statement("DELETE FROM events WHERE response = $1", (id,))
    started = yield Statement(_START, (id, attempts + 1, purpose == "run"))
    yield Wake(id)
    calls = tuple(line.encode() for line in begun.split("\n") if line)
    return Job(responses.row_to_record(started[0]), request, attempts + 1, purpose, lost, calls)


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


def begin_call(id: str, worker: str, attempt: int, call: bytes) -> Operation[bool]:
    text = "UPDATE jobs SET begun_calls = begun_calls || $4 WHERE id = $1 AND worker = $2 AND attempt = $3 RETURNING id"
    return bool((yield Statement(text, (id, worker, attempt, f"{call.decode()}\n"))))


def append_events(id: str, worker: str, attempt: int, events: Sequence[Event | LongEvent]) -> Operation[bool]:
    text = "SELECT 1 FROM jobs WHERE id = $1 AND worker = $2 AND attempt = $3 FOR UPDATE"
    if not (yield Statement(text, (id, worker, attempt))):
        return False
    yield from _append(id, events)
    return True


def _append(id: str, events: Sequence[Event | LongEvent]) -> Operation[None]:
    if events:
        row = encode(events)
        values = (id, events[-1].number, row)
        if isinstance(row, bytes):
            yield Statement(_APPEND.format(long="$3"), values)
        else:
            yield LongWrite(_APPEND, values, 2, "events", "data")
    yield Wake(id)


def event_page(owner: str, id: str, after: int, most_bytes: int, now: float) -> Operation[Progress | None]:
    # One more than a page has: it says whether there is another page.
    sizes = yield Statement(_SIZES, (id, owner, int(now), after, PAGE_ROWS + 1))
    if not sizes:
        return None
    status, attempt, first, _ = sizes[0]
    if first is None:
        return Progress(status, attempt, [])
    if sizes[0][3] > LONGEST_EVENT:
        row = (id, first, attempt, owner, int(now))
        heads = yield LongRead("events", "data", _ROW, row, 0, LONGEST_HEAD)
        if heads and (start := long_event_start(first, heads[0][0])) is not None:
            return Progress(status, attempt, [], more=True, long=LongEventPlace(first, attempt, sizes[0][3] - start, start))
    number = fitting((row[3] for row in sizes[:PAGE_ROWS]), most_bytes)
    rows = yield Statement(_PAGE, (id, attempt, after, sizes[number - 1][2]))
    # Without rows, another attempt has begun in the meantime.
    more = not rows or number < len(sizes)
    return Progress(status, attempt, _events_above(after, [row[0] for row in rows]), more)


def _events_above(after: int, rows: list[bytes]) -> list[Event]:
    """Each row is freed as soon as it is decoded: its events are as large as it is."""
    events: list[Event] = []
    rows.reverse()
    while rows:
        events += [event for event in decode(rows.pop()) if event.number > after]
    return events


def event_part(owner: str, id: str, place: LongEventPlace, start: int, size: int, now: float) -> Operation[bytes | None]:
    row = (id, place.number, place.attempt, owner, int(now))
    rows = yield LongRead("events", "data", _ROW, row, place.start + start, size)
    return rows[0][0] if rows else None


def finish(
    record: Record,
    worker: str,
    attempt: int,
    events: Sequence[Event | LongEvent],
    items: Sequence[Item],
    output: Pieces | None,
    now: float,
) -> Operation[bool]:
    text = "DELETE FROM jobs WHERE id = $1 AND owner = $2 AND worker = $3 AND attempt = $4 RETURNING id"
    if not (yield Statement(text, (record.id, record.owner, worker, attempt))):
        return False
    yield from conversations.append_and_unlock(record, items, now)
    yield from responses.replace(record.at_its_end(now), output, now)
    yield from _append(record.id, events)
    return True


def count_jobs() -> Operation[JobCounts]:
    rows = yield Statement("SELECT count(*), count(worker) FROM jobs", ())
    total, running = rows[0]
    return JobCounts(total - running, running)


def cancel(owner: str, id: str, messages: Sequence[Delivery], now: float) -> Operation[Cancellation]:
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
    yield Statement(_CANCEL, (id, int(now)))
    yield from deliveries.add_all(messages, now)
    return "cancelled"
