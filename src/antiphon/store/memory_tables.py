"""Where the store in memory keeps things: bounded shelves, from which the oldest go first."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from antiphon.errors import StoreUnavailable
from antiphon.store.protocol import IdTaken
from antiphon.store.records import Conversation, Event, Item, Record

# What an entry, an item or an event costs beyond its bytes, roughly.
OVERHEAD = 500


@dataclass(slots=True)
class Work:
    request: bytes
    number: int
    # When it may be claimed: at once while it waits, at the end of the lease while it runs.
    available_at: float
    worker: str | None = None
    cancel: bool = False
    given_back: int = 0


@dataclass(slots=True)
class Response:
    kept: Record
    work: Work | None = None
    attempt: int = 0
    events: list[Event] = field(default_factory=list)
    weight: int = 0

    def busy(self, now: float) -> bool:
        return self.work is not None


@dataclass(slots=True)
class Room:
    kept: Conversation
    items: dict[str, Item] = field(default_factory=dict)
    holder: str | None = None
    held_until: float = 0.0
    weight: int = 0

    def busy(self, now: float) -> bool:
        return self.held_until > now


class Shelves:
    def __init__(self, clock: Callable[[], float], max_entries: int, max_bytes: int) -> None:
        self.clock = clock
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        # Those that were written last stand last.
        self.entries: OrderedDict[str, Response | Room] = OrderedDict()
        self._weight = 0

    def response(self, owner: str, id: str) -> Response | None:
        entry = self.entries.get(id)
        return entry if isinstance(entry, Response) and self._seen(entry, owner) else None

    def room(self, owner: str, id: str) -> Room | None:
        entry = self.entries.get(id)
        return entry if isinstance(entry, Room) and self._seen(entry, owner) else None

    def _seen(self, entry: Response | Room, owner: str) -> bool:
        return entry.kept.owner == owner and entry.kept.expires_at > self.clock()

    def room_in_turn(self, record: Record) -> Room | None:
        room = self.room(record.owner, record.conversation) if record.conversation is not None else None
        return room if room is not None and room.holder == record.id else None

    def held(self, id: str, worker: str, attempt: int) -> Response | None:
        response = self.entries.get(id)
        if not isinstance(response, Response) or response.work is None:
            return None
        return response if response.work.worker == worker and response.attempt == attempt else None

    def refuse_taken(self, id: str) -> None:
        if id in self.entries:
            raise IdTaken(id)

    def put(self, record: Record) -> Response:
        response = self.entries[record.id] = Response(record)
        self.grow(response, weigh(record))
        return response

    def replace(self, response: Response, record: Record) -> None:
        self.grow(response, weigh(record) - weigh(response.kept))
        response.kept = record

    def append(self, room: Room, items: Sequence[Item], expires_at: int = 0) -> None:
        fresh = {item.id: item for item in items}
        replaced = [room.items[id] for id in fresh if id in room.items]
        self.grow(room, weigh_items(fresh.values()) - weigh_items(replaced))
        room.items.update(fresh)
        room.kept = structs.replace(room.kept, expires_at=max(room.kept.expires_at, expires_at))

    def unlock_conversation(self, room: Room, record: Record, items: Sequence[Item]) -> None:
        self.append(room, items, record.expires_at)
        room.holder, room.held_until = None, 0.0

    def tell(self, response: Response, events: Sequence[Event]) -> None:
        self.grow(response, weigh_events(events))
        response.events.extend(events)

    def untell(self, response: Response) -> None:
        self.grow(response, -weigh_events(response.events))
        response.events = []

    def let_go(self, response: Response) -> None:
        if response.work is not None:
            self.grow(response, -len(response.work.request))
            response.work = None

    def grow(self, entry: Response | Room, weight: int) -> None:
        entry.weight += weight
        self._weight += weight
        self.entries.move_to_end(entry.kept.id)

    def remove(self, id: str) -> None:
        self._weight -= self.entries.pop(id).weight

    def admit(self, weight: int, *needed: str) -> None:
        """Make room for one entry more: the oldest go first, but none that is being worked on."""
        now = self.clock()
        while self._weight + weight > self._max_bytes or len(self.entries) >= self._max_entries:
            spare = (id for id, entry in self.entries.items() if id not in needed and not entry.busy(now))
            oldest = next(spare, None)
            if oldest is None or weight > self._max_bytes:
                raise StoreUnavailable("The store in memory is full. Use sqlite: or postgresql: to keep more.")
            self.remove(oldest)

    def shrink(self, most_bytes: int) -> int:
        now = self.clock()
        removed = 0
        for entry in sorted(self.entries.values(), key=lambda entry: entry.kept.expires_at):
            if self._weight > most_bytes and not entry.busy(now):
                self.remove(entry.kept.id)
                removed += 1
        return removed


def weigh(record: Record) -> int:
    return OVERHEAD + len(record.input) + len(record.output) + len(record.settings)


def weigh_items(items: Iterable[Item]) -> int:
    return sum(OVERHEAD + len(item.data) for item in items)


def weigh_events(events: Sequence[Event]) -> int:
    return sum(OVERHEAD + len(event.data) for event in events)
