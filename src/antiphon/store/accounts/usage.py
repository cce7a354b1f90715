"""Operations on usage: entries are appended, added up by the hour, and forgotten after a set time."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from antiphon.store.account_records import HOUR, Counts, UsageEntry, UsageKind, UsageSum
from antiphon.store.operations import MOST_VALUES, Many, Operation, Row, Statement, placeholders

COLUMNS = ", ".join(("id", "at", *UsageKind._fields, *Counts._fields))
_VALUES = placeholders(1, 2 + len(UsageKind._fields) + len(Counts._fields))
# One whose first write was answered too late may be written again.
ADD = f"INSERT INTO usage_entries ({COLUMNS}) VALUES ({_VALUES}) ON CONFLICT (id) DO NOTHING"
# Entries are added up when they are this old, in seconds: until then, one that is written again is recognised by its id.
SETTLED = 300
_KIND = ", ".join(UsageKind._fields)
_COUNTS = ", ".join(Counts._fields)
_SUMMED = ", ".join(f"CAST(sum({name}) AS bigint)" for name in Counts._fields)
_OLD = f"SELECT id FROM usage_entries WHERE at <= $1 ORDER BY id LIMIT {MOST_VALUES} FOR UPDATE SKIP LOCKED"
_TAKE = f"DELETE FROM usage_entries WHERE id IN ({{ids}}) RETURNING at, {_KIND}, {_COUNTS}"
_INCREASED = ", ".join(f"{name} = usage_sums.{name} + excluded.{name}" for name in Counts._fields)
_SUM_UP = f"""
INSERT INTO usage_sums (owner, hour, model, channel, {_COUNTS}) VALUES ({placeholders(1, 4 + len(Counts._fields))})
ON CONFLICT (owner, hour, model, channel) DO UPDATE SET {_INCREASED}"""
_FORGET = f"DELETE FROM usage_sums WHERE hour < $1 AND hour <= (SELECT min(hour) FROM usage_sums) + {24 * HOUR} RETURNING 1"
# By buckets of $3 seconds. Of all owners, or of one.
_READ = f"""
SELECT begins, {_KIND}, {_SUMMED} FROM (
    SELECT hour - hour % $3 AS begins, {_KIND}, {_COUNTS} FROM usage_sums WHERE hour >= $1 AND hour < $2{{owner}}
    UNION ALL
    SELECT at - at % $3 AS begins, {_KIND}, {_COUNTS} FROM usage_entries WHERE at >= $1 AND at < $2{{owner}}
) AS used GROUP BY begins, {_KIND} ORDER BY begins, {_KIND}"""
_RENAME_ENTRIES = f"""
UPDATE usage_entries SET owner = $2 WHERE id IN (
    SELECT id FROM usage_entries WHERE owner = $1 ORDER BY id LIMIT {MOST_VALUES} FOR UPDATE
) RETURNING 1"""
_TAKE_SUMS = f"""
DELETE FROM usage_sums WHERE (owner, hour, model, channel) IN (
    SELECT owner, hour, model, channel FROM usage_sums WHERE owner = $1 ORDER BY hour, model, channel LIMIT {MOST_VALUES}
) RETURNING hour, {_KIND}, {_COUNTS}"""


def entry_values(entry: UsageEntry) -> Row:
    return (entry.id, entry.at, *entry.kind, *entry.counts)


def add(entry: UsageEntry) -> Operation[None]:
    yield Statement(ADD, entry_values(entry))


def add_all(entries: Sequence[UsageEntry]) -> Operation[None]:
    yield Many(ADD, [entry_values(entry) for entry in entries])


def read(since: int, until: int, width: int, owner: str | None) -> Operation[list[UsageSum]]:
    of_owner = "" if owner is None else " AND owner = $4"
    rows = yield Statement(_READ.format(owner=of_owner), (since, until, width, *(() if owner is None else (owner,))))
    return [_to_sum(row) for row in rows]


def _to_sum(row: Row) -> UsageSum:
    begins, owner, model, channel, *counts = row
    return UsageSum(begins, UsageKind(owner, model, channel), Counts(*map(int, counts)))


def sum_up(now: float) -> Operation[bool]:
    """Adds old entries to the sums. Returns whether there may be others."""
    rows = yield Statement(_OLD, (int(now) - SETTLED,))
    if not rows:
        return False
    taken = yield Statement(_TAKE.format(ids=placeholders(1, len(rows))), [row[0] for row in rows])
    yield from _increase(map(_to_sum, taken))
    return len(rows) == MOST_VALUES


def _increase(used: Iterable[UsageSum]) -> Operation[None]:
    sums: dict[tuple[UsageKind, int], Counts] = defaultdict(Counts)
    for each in used:
        place = each.kind, each.begins - each.begins % HOUR
        sums[place] = sums[place].plus(each.counts)
    # Sorted: gateways that add to the same rows wait for each other instead of deadlocking.
    rows: list[Row] = [(kind.owner, hour, kind.model, kind.channel, *sums[kind, hour]) for kind, hour in sorted(sums)]
    if rows:
        yield Many(_SUM_UP, rows)


def forget(before: int) -> Operation[bool]:
    """Forgets a day of what is older. Returns whether there was any."""
    return bool((yield Statement(_FORGET, (before,))))


def move(earlier: str, owner: str) -> Operation[bool]:
    """Gives usage to another owner. Returns whether there may be more of it."""
    entries = yield Statement(_RENAME_ENTRIES, (earlier, owner))
    sums = [_to_sum(row) for row in (yield Statement(_TAKE_SUMS, (earlier,)))]
    yield from _increase(each._replace(kind=each.kind._replace(owner=owner)) for each in sums)
    return MOST_VALUES in (len(entries), len(sums))
