"""The simplest thing that keeps the contract of a store: dictionaries, looked through from end to end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from antiphon.store.records import Cancellation, Conversation, Event, Item, Job, Progress, Purpose, Record
from support.stores import Clock

TAKEN = "taken"


@dataclass
class ModelJob:
    request: bytes
    number: int
    available_at: float
    worker: str | None = None
    attempt: int = 0
    lost: int = 0
    cancel: bool = False


@dataclass
class ModelConversation:
    kept: Conversation
    items: list[Item]
    turn: tuple[str, float] | None = None


@dataclass
class Model:
    clock: Clock
    records: dict[str, Record] = field(default_factory=dict)
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    told: dict[str, list[Event]] = field(default_factory=dict)
    rooms: dict[str, ModelConversation] = field(default_factory=dict)
    numbers: int = 0

    def _lives(self, kept: Record | Conversation, owner: str) -> bool:
        return kept.owner == owner and kept.expires_at > self.clock.now

    def _room(self, owner: str, id: str | None) -> ModelConversation | None:
        room = self.rooms.get(id) if id is not None else None
        return room if room is not None and self._lives(room.kept, owner) else None

    def put(self, record: Record) -> object:
        if record.id in self.records:
            return TAKEN
        self.records[record.id] = record
        return None

    def get(self, owner: str, id: str) -> Record | None:
        record = self.records.get(id)
        return record if record is not None and self._lives(record, owner) else None

    def delete(self, owner: str, id: str) -> bool:
        if self.get(owner, id) is None:
            return False
        self._forget(id)
        return True

    def _forget(self, id: str) -> None:
        for shelf in (self.records, self.jobs, self.attempts, self.told):
            shelf.pop(id, None)

    def chain(self, owner: str, id: str) -> list[Record]:
        found: list[Record] = []
        record = self.get(owner, id)
        while record is not None and record not in found:
            found.insert(0, record)
            record = self.get(owner, record.parent or "")
        return found

    def create_conversation(self, conversation: Conversation, items: Sequence[Item]) -> object:
        if conversation.id in self.rooms:
            return TAKEN
        self.rooms[conversation.id] = ModelConversation(conversation, [])
        self._append(self.rooms[conversation.id], items)
        return None

    def delete_conversation(self, owner: str, id: str) -> bool:
        if self._room(owner, id) is None:
            return False
        del self.rooms[id]
        return True

    def _append(self, room: ModelConversation, items: Sequence[Item]) -> None:
        for item in items:
            places = [place for place, old in enumerate(room.items) if old.id == item.id]
            if places:
                room.items[places[0]] = item
            else:
                room.items.append(item)

    def add_items(self, owner: str, id: str, items: Sequence[Item]) -> bool:
        room = self._room(owner, id)
        if room is not None:
            self._append(room, items)
        return room is not None

    def delete_item(self, owner: str, id: str, item: str) -> bool:
        room = self._room(owner, id)
        if room is None or item not in [old.id for old in room.items]:
            return False
        room.items = [old for old in room.items if old.id != item]
        return True

    def items(self, owner: str, id: str) -> list[Item] | None:
        room = self._room(owner, id)
        return list(room.items) if room is not None else None

    def lock_conversation(self, owner: str, id: str, response: str, lease: float) -> bool:
        room = self._room(owner, id)
        if room is None or (room.turn is not None and room.turn[0] != response and room.turn[1] > self.clock.now):
            return False
        room.turn = (response, self.clock.now + lease)
        return True

    def unlock_conversation(self, owner: str, id: str, response: str) -> bool:
        room = self._room(owner, id)
        if room is None or room.turn is None or room.turn[0] != response:
            return False
        room.turn = None
        return True

    def put_and_unlock(self, record: Record, items: Sequence[Item]) -> object:
        room = self._room(record.owner, record.conversation)
        if room is None or room.turn is None or room.turn[0] != record.id:
            return False
        if self.put(record) == TAKEN:
            return TAKEN
        self._end(room, record, items)
        return True

    def _end(self, room: ModelConversation, record: Record, items: Sequence[Item]) -> None:
        room.turn = None
        self._append(room, items)
        room.kept = structs.replace(room.kept, expires_at=max(room.kept.expires_at, record.expires_at))

    def enqueue(self, record: Record, request: bytes) -> object:
        if record.id in self.records:
            return TAKEN
        self.numbers += 1
        self.records[record.id] = record
        self.jobs[record.id] = ModelJob(request, self.numbers, self.clock.now)
        return None

    def claim(self, worker: str, lease: float, most_attempts: int) -> Job | None:
        ready = sorted(
            (job.available_at, job.number, id)
            for id, job in self.jobs.items()
            if job.available_at <= self.clock.now < self.records[id].expires_at
        )
        if not ready:
            return None
        id = ready[0][2]
        job = self.jobs[id]
        if job.worker is not None:
            job.lost += 1
        purpose: Purpose = "cancel" if job.cancel else "fail" if job.lost >= most_attempts else "run"
        job.worker, job.available_at, job.attempt = worker, self.clock.now + lease, job.attempt + 1
        self.attempts[id] = job.attempt
        self.told[id] = []
        if purpose == "run":
            self.records[id] = structs.replace(self.records[id], status="in_progress")
        return Job(self.records[id], job.request, job.attempt, purpose, job.lost)

    def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        held = {id: job.cancel for id, job in self.jobs.items() if id in ids and job.worker == worker}
        for id in held:
            self.jobs[id].available_at = self.clock.now + lease
        return held

    def give_back(self, worker: str, ids: Sequence[str]) -> object:
        for id, job in self.jobs.items():
            if id in ids and job.worker == worker:
                job.worker, job.available_at = None, self.clock.now
                self.told[id] = []
                self.records[id] = structs.replace(self.records[id], status="queued")
        return None

    def _holds(self, id: str, worker: str, attempt: int) -> bool:
        return id in self.jobs and (self.jobs[id].worker, self.jobs[id].attempt) == (worker, attempt)

    def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event]) -> bool:
        if not self._holds(id, worker, attempt):
            return False
        self.told[id] += events
        return True

    def events(self, owner: str, id: str, after: int) -> Progress | None:
        record = self.get(owner, id)
        told = [event for event in self.told.get(id, []) if event.number > after]
        return Progress(record.status, self.attempts.get(id, 0), told) if record is not None else None

    def finish(self, record: Record, worker: str, attempt: int, events: Sequence[Event], items: Sequence[Item]) -> bool:
        if not self._holds(record.id, worker, attempt) or self.records[record.id].owner != record.owner:
            return False
        del self.jobs[record.id]
        self.records[record.id] = record
        self.told[record.id] += events
        room = self._room(record.owner, record.conversation)
        if room is not None and room.turn is not None and room.turn[0] == record.id:
            self._end(room, record, items)
        return True

    def cancel(self, owner: str, id: str) -> Cancellation:
        if self.get(owner, id) is None:
            return "unknown"
        job = self.jobs.get(id)
        if job is None:
            return "over"
        if job.worker is not None:
            job.cancel = True
            return "asked"
        del self.jobs[id]
        self.records[id] = structs.replace(self.records[id], status="cancelled")
        return "cancelled"

    def sweep(self) -> int:
        expired = [id for id, record in self.records.items() if record.expires_at <= self.clock.now]
        for id in expired:
            self._forget(id)
        rooms = [id for id, room in self.rooms.items() if room.kept.expires_at <= self.clock.now]
        for id in rooms:
            del self.rooms[id]
        return len(expired) + len(rooms)
