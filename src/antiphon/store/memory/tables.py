"""The tables of the store in memory. They are bounded: the rows that were written longest ago are removed first."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct, field, structs

from antiphon.errors import StoreUnavailable
from antiphon.store.protocol import IdTaken
from antiphon.store.records import (
    ITEMS,
    Conversation,
    Event,
    Item,
    Listed,
    Listing,
    ListPlace,
    LongEvent,
    Record,
    SearchBounds,
    id_of,
    items_with_ids,
    searched_rows,
)

# What a row, an item or an event takes beyond its bytes, approximately; and the index entry of an item.
OVERHEAD = 500
ENTRY = 200


class JobRow(Struct):
    request: bytes
    number: int
    # When it may be claimed: at once if it is queued, at the end of the lease if it is running.
    available_at: float
    worker: str | None = None
    cancel: bool = False
    given_back: int = 0
    begun_calls: list[bytes] = field(default_factory=list)


class ResponseRow(Struct):
    stored: Record
    # Of its items. To read them takes long where there are many.
    ids: Sequence[str]
    job: JobRow | None = None
    attempt: int = 0
    events: list[Event] = field(default_factory=list)
    size: int = 0

    def in_use(self, now: float) -> bool:
        return self.job is not None

    def item_ids(self) -> Sequence[str]:
        return self.ids

    def find_items(self, ids: Collection[str]) -> dict[str, bytes]:
        return items_with_ids(ids, self.stored.input, self.stored.output)

    def contains(self, search: bytes) -> bool:
        return search in self.stored.input or search in self.stored.output

    def listed(self) -> Listed:
        record = self.stored
        return Listed(record.id, record.owner, record.created_at, record.status, None, record.input, record.settings)


class ConversationRow(Struct):
    stored: Conversation
    items: dict[str, Item] = field(default_factory=dict)
    locked_by: str | None = None
    locked_until: float = 0.0
    size: int = 0

    def in_use(self, now: float) -> bool:
        return self.locked_until > now

    def item_ids(self) -> list[str]:
        return list(self.items)

    def find_items(self, ids: Collection[str]) -> dict[str, bytes]:
        known = ((id, self.items[id].data) for id in ids if id in self.items)
        return {id: data for id, data in known if id_of(data) == id}

    def contains(self, search: bytes) -> bool:
        newest = islice(reversed(self.items.values()), ITEMS)
        return any(search in item.data for item in newest)

    def listed(self) -> Listed:
        first = next(iter(self.items.values()), None)
        beginning = first.data if first is not None else None
        stored = self.stored
        return Listed(stored.id, stored.owner, stored.created_at, None, len(self.items), beginning, stored.metadata)

    def unlock(self) -> None:
        self.locked_by, self.locked_until = None, 0.0


class MemoryTables:
    def __init__(self, clock: Callable[[], float], max_rows: int, max_bytes: int) -> None:
        self.clock = clock
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        # In the order of the last write.
        self.rows: OrderedDict[str, ResponseRow | ConversationRow] = OrderedDict()
        # The row that contains an item, by its id; or several, in the order in which they got it. There is mostly one, and a
        # dictionary for each of hundreds of items would take time and memory.
        self._rows_with: dict[str, str | dict[str, None]] = {}
        self._size = 0

    def response(self, owner: str, id: str) -> ResponseRow | None:
        row = self.rows.get(id)
        return row if isinstance(row, ResponseRow) and self._is_visible(row, owner) else None

    def conversation(self, owner: str, id: str) -> ConversationRow | None:
        row = self.rows.get(id)
        return row if isinstance(row, ConversationRow) and self._is_visible(row, owner) else None

    def _is_visible(self, row: ResponseRow | ConversationRow, owner: str) -> bool:
        return row.stored.owner == owner and row.stored.expires_at > self.clock()

    def list_rows(
        self,
        kind: type[ResponseRow] | type[ConversationRow],
        owner: str | None,
        search: bytes,
        after: ListPlace,
        limit: int,
        bounds: SearchBounds,
    ) -> Listing:
        now = self.clock()
        places = sorted(
            (
                ListPlace(row.stored.created_at, id)
                for id, row in self.rows.items()
                if isinstance(row, kind) and row.stored.expires_at > now and owner in (None, row.stored.owner)
            ),
            reverse=True,
        )
        places = [place for place in places if place < after]
        sizes = [self.rows[place.id].size for place in places[: bounds.rows]] if search else []
        read = places[: searched_rows(sizes, bounds.bytes)] if search else places
        found = [place for place in read if not search or self.rows[place.id].contains(search)]
        rows = [self.rows[place.id].listed() for place in found[:limit]]
        seen = found[limit - 1] if len(found) > limit else None if len(read) == len(places) else read[-1]
        return Listing(rows, str(seen) if seen is not None else None)

    def owner_of(self, id: str) -> str | None:
        row = self.rows.get(id)
        return row.stored.owner if row is not None and row.stored.expires_at > self.clock() else None

    def move_owner(self, earlier: str, owner: str) -> int:
        rows = [row for row in self.rows.values() if row.stored.owner == earlier]
        for row in rows:
            row.stored = structs.replace(row.stored, owner=owner)
        return len(rows)

    def conversation_locked_by(self, record: Record) -> ConversationRow | None:
        """The conversation of this response, if the response has the lock."""
        row = self.conversation(record.owner, record.conversation) if record.conversation is not None else None
        return row if row is not None and row.locked_by == record.id else None

    def claimed_response(self, id: str, worker: str, attempt: int) -> ResponseRow | None:
        """The response, if this attempt of this worker has the lease."""
        row = self.rows.get(id)
        if not isinstance(row, ResponseRow) or row.job is None:
            return None
        return row if row.job.worker == worker and row.attempt == attempt else None

    def check_id_is_free(self, id: str) -> None:
        if id in self.rows:
            raise IdTaken(id)

    def put(self, record: Record, ids: Sequence[str], size: int) -> ResponseRow:
        """`size`: of the record and its index entries."""
        row = self.rows[record.id] = ResponseRow(record, ids, size=size)
        self._size += size
        self._index(record.id, ids)
        return row

    def replace(self, row: ResponseRow, record: Record, ids: Sequence[str]) -> None:
        self.resize(row, size_of_record(record, ids) - size_of_record(row.stored, row.ids))
        known = set(row.ids)
        row.stored, row.ids = record, ids
        self._index(record.id, (id for id in ids if id not in known))

    def _index(self, row: str, items: Iterable[str]) -> None:
        items = list(items)
        if self._rows_with.keys().isdisjoint(items):
            # As nearly always: at once.
            self._rows_with.update(dict.fromkeys(items, row))
            return
        for item in items:
            rows = self._rows_with.setdefault(item, row)
            if isinstance(rows, dict):
                rows.pop(row, None)
                rows[row] = None
            elif rows != row:
                self._rows_with[item] = {rows: None, row: None}

    def _remove_from_index(self, row: str, items: Iterable[str]) -> None:
        for item in items:
            rows = self._rows_with.get(item)
            if isinstance(rows, dict):
                rows.pop(row, None)
            if not rows or rows == row:
                self._rows_with.pop(item, None)

    def _rows_of(self, item: str) -> Iterable[str]:
        rows = self._rows_with.get(item, ())
        return (rows,) if isinstance(rows, str) else rows

    def find_items(self, owner: str, ids: Iterable[str]) -> dict[str, bytes]:
        """Of several with the same id, the one that was written last. Each row is read once, for all that it may contain."""
        found: dict[str, bytes] = {}
        # The rows that may contain an item, by its id, the next one to look into last.
        untried = {id: [row for row in self._rows_of(id) if self._is_visible(self.rows[row], owner)] for id in ids}
        while wanted := _by_row(untried):
            for row, items in wanted.items():
                found |= self.rows[row].find_items(items)
            untried = {id: rows for id, rows in untried.items() if id not in found}
        return found

    def append_items(self, row: ConversationRow, items: Sequence[Item], expires_at: int = 0) -> None:
        added = {item.id: item for item in items}
        replaced = [row.items[id] for id in added if id in row.items]
        self.resize(row, size_of_items(added.values()) - size_of_items(replaced))
        row.items.update(added)
        self._index(row.stored.id, added)
        row.stored = structs.replace(row.stored, expires_at=max(row.stored.expires_at, expires_at))

    def append_events(self, row: ResponseRow, events: Sequence[Event]) -> None:
        self.resize(row, size_of_events(events))
        row.events.extend(events)

    def delete_events(self, row: ResponseRow) -> None:
        self.resize(row, -size_of_events(row.events))
        row.events = []

    def delete_job(self, row: ResponseRow) -> None:
        if row.job is not None:
            self.resize(row, -len(row.job.request))
            row.job = None

    def resize(self, row: ResponseRow | ConversationRow, change: int) -> None:
        row.size += change
        self._size += change
        self.rows.move_to_end(row.stored.id)

    def delete_item(self, row: ConversationRow, id: str) -> None:
        self.resize(row, -size_of_items([row.items.pop(id)]))
        self._remove_from_index(row.stored.id, [id])

    def remove(self, id: str) -> None:
        row = self.rows.pop(id)
        self._size -= row.size
        self._remove_from_index(id, row.item_ids())

    def make_space(self, size: int, *needed: str) -> None:
        """Remove the oldest rows until one more row of this size fits, but none that is needed or in use."""
        now = self.clock()
        while self._size + size > self._max_bytes or len(self.rows) >= self._max_rows:
            removable = (id for id, row in self.rows.items() if id not in needed and not row.in_use(now))
            oldest = next(removable, None)
            if oldest is None or size > self._max_bytes:
                raise StoreUnavailable("The store in memory is full. Use sqlite: or postgresql: to keep more.")
            self.remove(oldest)

    def shrink(self, most_bytes: int) -> int:
        now = self.clock()
        removed = 0
        for row in sorted(self.rows.values(), key=lambda row: row.stored.expires_at):
            if self._size > most_bytes and not row.in_use(now):
                self.remove(row.stored.id)
                removed += 1
        return removed


def _by_row(untried: Mapping[str, list[str]]) -> dict[str, set[str]]:
    """Takes the next row of each item: the items to look for, by row."""
    wanted: dict[str, set[str]] = {}
    for id, rows in untried.items():
        if rows:
            wanted.setdefault(rows.pop(), set()).add(id)
    return wanted


def ids_in(record: Record) -> Sequence[str]:
    """Of the items that can be found."""
    return [] if record.kept_after_end is not None else record.item_ids


def size_of_record(record: Record, ids: Sequence[str]) -> int:
    return OVERHEAD + len(record.input) + len(record.output) + len(record.settings) + ENTRY * len(ids)


def size_of_items(items: Iterable[Item]) -> int:
    return sum(OVERHEAD + len(item.data) for item in items)


def size_of_events(events: Sequence[Event]) -> int:
    return sum(OVERHEAD + len(event.data) for event in events)


def whole_events(events: Sequence[Event | LongEvent]) -> list[Event]:
    return [event if isinstance(event, Event) else Event(event.number, b"".join(event.data)) for event in events]
