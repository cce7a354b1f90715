"""Operations of the gateways that run the lines of batches.

Each gateway takes steps: it reports what came of its lines, says how busy the engines are, and gets further lines. All of that
is one transaction, and steps of several gateways come one after the other. A gateway that takes no step for a while is taken
for dead, and its lines are run by others.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from antiphon.store.files.batches import BATCHES, INSERT_RESULT, TURN, row_to_batch
from antiphon.store.files.batches import COLUMNS as BATCH_COLUMNS
from antiphon.store.files.records import ClaimedLine, LineResult, Usage
from antiphon.store.operations import Change, Operation, Statement, Wake, placeholders


class EngineRoom(NamedTuple):
    """How many requests an engine gets at once, and how many it has from this gateway."""

    engine: str
    places: int
    busy: int


class Wanted(NamedTuple):
    """Lines for this model, and at most so many. `engines`: those that serve it; None: no line of it reaches an engine."""

    model: str
    most: int
    engines: Sequence[EngineRoom] | None


class PutOff(NamedTuple):
    """A line that is run again, here or elsewhere. `is_failure`: an error that may pass; otherwise it was not begun."""

    batch: str
    number: int
    available_at: float
    is_failure: bool


class Report(NamedTuple):
    gateway: str
    lease: float
    results: Sequence[LineResult] = ()
    put_off: Sequence[PutOff] = ()
    # By engine, the requests that it has from this gateway.
    busy: Mapping[str, int] = {}
    wanted: Sequence[Wanted] = ()
    # Whose lines are not begun now.
    not_of: Sequence[str] = ()


def step(report: Report, now: float) -> Operation[list[ClaimedLine]]:
    yield Statement("SELECT id FROM batch_room WHERE id = 1 FOR UPDATE")
    yield Change(
        """INSERT INTO batch_gateways (name, held_until) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until""",
        (report.gateway, now + report.lease),
    )
    yield from _take_back_from_the_dead(now)
    yield from _record(report.results)
    for line in report.put_off:
        yield from _put_back(report.gateway, line)
    yield Change(
        "UPDATE batches SET stop = 'expired' WHERE status = 'in_progress' AND stop IS NULL AND expires_at <= $1", (int(now),)
    )
    claimed = yield from _claim_all(report, now)
    yield from _settle(now)
    return claimed


def leave(gateway: str) -> Operation[None]:
    """It runs no lines any more: what it had is there for others at once."""
    yield Statement("SELECT id FROM batch_room WHERE id = 1 FOR UPDATE")
    yield from _forget(gateway, lost=0)
    yield Wake(BATCHES)


def _take_back_from_the_dead(now: float) -> Operation[None]:
    for (name,) in (yield Statement("SELECT name FROM batch_gateways WHERE held_until <= $1", (now,))):
        yield from _forget(name, lost=1)


def _forget(gateway: str, *, lost: int) -> Operation[None]:
    yield Change(
        "UPDATE batch_lines SET state = 'waiting', holder = NULL, lost = lost + $2 WHERE holder = $1 AND state = 'running'",
        (gateway, lost),
    )
    yield Change("DELETE FROM batch_loads WHERE gateway = $1", (gateway,))
    yield Change("DELETE FROM batch_gateways WHERE name = $1", (gateway,))


# ---- what came of lines ----------------------------------------------------------------------------------------------

_COUNT = """
UPDATE batches SET completed = completed + $2, failed = failed + $3, input_tokens = input_tokens + $4,
    cached_tokens = cached_tokens + $5, output_tokens = output_tokens + $6, reasoning_tokens = reasoning_tokens + $7
WHERE id = $1"""


def _record(results: Sequence[LineResult]) -> Operation[None]:
    """The first result of a line counts, whoever has it. What comes after the batch has ended does not."""
    for batch in sorted({each.batch for each in results}):
        found = yield Statement("SELECT status FROM batches WHERE id = $1 FOR UPDATE", (batch,))
        if not found or found[0][0] not in ("in_progress", "cancelling"):
            continue
        completed = failed = 0
        usage = [0, 0, 0, 0]
        for each in (each for each in results if each.batch == batch):
            text = "UPDATE batch_lines SET state = 'done', holder = NULL WHERE batch = $1 AND number = $2 AND state <> 'done'"
            if not (yield Change(text, (batch, each.number)))[0][0]:
                continue
            yield Change(INSERT_RESULT, tuple(each[:4]))
            completed, failed = completed + each.is_output, failed + (not each.is_output)
            usage = [sum(pair) for pair in zip(usage, each.usage, strict=True)]
        yield Change(_COUNT, (batch, completed, failed, *Usage(*usage)))


def _put_back(gateway: str, line: PutOff) -> Operation[None]:
    yield Change(
        """UPDATE batch_lines SET state = 'waiting', holder = NULL, available_at = $4, failures = failures + $5
        WHERE batch = $1 AND number = $2 AND holder = $3 AND state = 'running'""",
        (line.batch, line.number, gateway, line.available_at, int(line.is_failure)),
    )


def begin_call(gateway: str, batch: str, number: int, call: bytes) -> Operation[bool]:
    """Notes a call of a tool that must not be made twice. False: the line is another gateway's by now."""
    text = """UPDATE batch_lines SET begun_calls = begun_calls || $4
        WHERE batch = $1 AND number = $2 AND holder = $3 AND state = 'running'"""
    return bool((yield Change(text, (batch, number, gateway, f"{call.decode()}\n")))[0][0])


# ---- who runs what ---------------------------------------------------------------------------------------------------

_NEXT_BATCH = """
SELECT b.id, b.owner, b.endpoint, b.input_file, b.served FROM batches b LEFT JOIN batch_turns t ON t.owner = b.owner
WHERE b.status = 'in_progress' AND b.stop IS NULL AND EXISTS (
    SELECT 1 FROM batch_lines l WHERE l.batch = b.id AND l.state = 'waiting' AND l.model = $1 AND l.available_at <= $2
){others}
ORDER BY coalesce(t.served, 0) / {turn}, b.served / {turn}, b.created_at, b.id LIMIT 1"""
_CLAIM = """
UPDATE batch_lines SET state = 'running', holder = $1 WHERE batch = $2 AND number IN (
    SELECT number FROM batch_lines
    WHERE batch = $2 AND state = 'waiting' AND model = $3 AND available_at <= $4 ORDER BY place LIMIT $5
) RETURNING number, start, size, custom_id, prefix, lost, failures, begun_calls, place"""


def _claim_all(report: Report, now: float) -> Operation[list[ClaimedLine]]:
    busy, claimed = dict(report.busy), list[ClaimedLine]()
    others = yield Statement("SELECT engine, sum(busy) FROM batch_loads WHERE gateway <> $1 GROUP BY engine", (report.gateway,))
    elsewhere = {engine: int(count) for engine, count in others}
    for wanted in report.wanted:
        rooms = wanted.engines
        free = [] if rooms is None else [_places_left(room, busy.get(room.engine, room.busy), elsewhere) for room in rooms]
        most = wanted.most if rooms is None else min(wanted.most, sum(free))
        lines = (yield from _claim(report, wanted.model, most, now)) if most > 0 else []
        left = len(lines)
        for room, places in zip(rooms or (), free, strict=True):
            # Which of them gets each is not known yet.
            busy[room.engine] = busy.get(room.engine, room.busy) + min(left, places)
            left -= min(left, places)
        claimed += lines
    yield Change("DELETE FROM batch_loads WHERE gateway = $1", (report.gateway,))
    for engine, count in busy.items():
        yield Change("INSERT INTO batch_loads (gateway, engine, busy) VALUES ($1, $2, $3)", (report.gateway, engine, count))
    return claimed


def _places_left(room: EngineRoom, busy: int, elsewhere: Mapping[str, int]) -> int:
    return max(0, room.places - busy - elsewhere.get(room.engine, 0))


def _claim(report: Report, model: str, most: int, now: float) -> Operation[list[ClaimedLine]]:
    """Owners take turns, and so do the batches of one. During its turn, a batch gets lines that begin alike."""
    claimed: list[ClaimedLine] = []
    others = f" AND b.owner NOT IN ({placeholders(3, len(report.not_of))})" if report.not_of else ""
    text = _NEXT_BATCH.format(others=others, turn=TURN)
    while len(claimed) < most:
        found = yield Statement(text, (model, now, *report.not_of))
        if not found:
            break
        batch, owner, endpoint, input_file, served = found[0]
        number = min(most - len(claimed), TURN - served % TURN)
        rows = yield Statement(_CLAIM, (report.gateway, batch, model, now, number))
        yield Change("UPDATE batches SET served = served + $2 WHERE id = $1", (batch, len(rows)))
        yield Change(
            """INSERT INTO batch_turns (owner, served) VALUES ($1, $2)
            ON CONFLICT (owner) DO UPDATE SET served = batch_turns.served + excluded.served""",
            (owner, len(rows)),
        )
        for *members, begun, _ in sorted(rows, key=lambda row: row[-1]):
            names = ("number", "start", "size", "custom_id", "prefix", "lost", "failures")
            calls = tuple(line.encode() for line in begun.split("\n") if line)
            of_batch = {"batch": batch, "owner": owner, "endpoint": endpoint, "input_file": input_file}
            claimed.append(ClaimedLine(**of_batch, **dict(zip(names, members, strict=True)), begun_calls=calls))
    return claimed


class LineCounts(NamedTuple):
    """Of all gateways."""

    waiting: int
    running: int


def count() -> Operation[LineCounts]:
    """For those who watch the queue."""
    rows = yield Statement(
        "SELECT coalesce(sum(total - completed - failed), 0) FROM batches WHERE status IN ('in_progress', 'cancelling')"
    )
    running = (yield Statement("SELECT count(*) FROM batch_lines WHERE state = 'running'"))[0][0]
    # The two are read one after the other.
    return LineCounts(max(0, int(rows[0][0]) - running), running)


# ---- the end of a batch ----------------------------------------------------------------------------------------------


def _settle(now: float) -> Operation[None]:
    """Batches that are at their end: their lines have all ended, or those that run when no more are begun."""
    rows = yield Statement(
        f"""SELECT {BATCH_COLUMNS} FROM batches
        WHERE status IN ('in_progress', 'cancelling') AND (completed + failed >= total OR stop IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM batch_lines l WHERE l.batch = batches.id AND l.state = 'running'
        ))"""
    )
    for row in rows:
        batch = row_to_batch(row)
        batch.details.times.finalizing_at = int(now)
        text = "UPDATE batches SET status = 'finalizing', holder = NULL, held_until = 0, details = $2 WHERE id = $1"
        yield Change(text, (batch.id, msgspec.json.encode(batch.details)))
        yield Wake(BATCHES)
