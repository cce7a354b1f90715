"""The simplest implementation of the contract of a store: dictionaries that are searched from end to end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from antiphon.store.records import Cancellation, Conversation, Event, Item, Job, Progress, Purpose, Record
from support.stores import DAY, Clock

TAKEN = "taken"


def items_of(record: Record) -> list[dict[str, str]]:
    """Its input and output items."""
    items: list[dict[str, str]] = [*msgspec.json.decode(record.input), *msgspec.json.decode(record.output)]
    return items


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
    stored: Conversation
    items: list[Item]
    lock: tuple[str, float] | None = None
    # When each item was written.
    written: dict[str, float] = field(default_factory=dict)


@dataclass
class Model:
    clock: Clock
    records: dict[str, Record] = field(default_factory=dict)
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    appended: dict[str, list[Event]] = field(default_factory=dict)
    conversations: dict[str, ModelConversation] = field(default_factory=dict)
    # By response and item: when the item was written.
    written: dict[tuple[str, str], float] = field(default_factory=dict)
    # By response: its owner, and until when its deletion is remembered.
    deleted: dict[str, tuple[str, int]] = field(default_factory=dict)
    numbers: int = 0

    def _visible(self, stored: Record | Conversation, owner: str) -> bool:
        return stored.owner == owner and stored.expires_at > self.clock.now

    def _conversation(self, owner: str, id: str | None) -> ModelConversation | None:
        found = self.conversations.get(id) if id is not None else None
        return found if found is not None and self._visible(found.stored, owner) else None

    def put(self, record: Record) -> object:
        if record.id in self.records:
            return TAKEN
        self._store(record)
        return None

    def _store(self, record: Record) -> None:
        self.records[record.id] = record
        if record.kept_after_end is None:
            for item in items_of(record):
                self.written.setdefault((record.id, item["id"]), self.clock.now)

    def get(self, owner: str, id: str) -> Record | None:
        record = self.records.get(id)
        return record if record is not None and self._visible(record, owner) else None

    def delete(self, owner: str, id: str) -> bool:
        record = self.get(owner, id)
        if record is None:
            return False
        self._remove(id)
        if record.kept_after_end is None:
            self.deleted[id] = (owner, int(self.clock.now) + record.expires_at - record.created_at + DAY)
        return True

    def was_deleted(self, owner: str, id: str) -> bool:
        deleted_by, until = self.deleted.get(id, ("", 0))
        return deleted_by == owner and until > self.clock.now

    def keep_until(self, owner: str, ids: Sequence[str], expires_at: int) -> object:
        for id in ids:
            record = self.get(owner, id)
            if record is not None and record.kept_after_end is None:
                self.records[id] = structs.replace(record, expires_at=max(record.expires_at, expires_at))
        return None

    def find_items(self, owner: str, ids: Sequence[str]) -> dict[str, bytes]:
        found = [
            (self.written[record.id, item["id"]], item["id"], msgspec.json.encode(item))
            for record in self.records.values()
            if self._visible(record, owner) and record.kept_after_end is None
            for item in items_of(record)
        ]
        found += [
            # Before a response that was written at the same moment.
            (conversation.written[item.id] - 0.0001, item.id, item.data)
            for conversation in self.conversations.values()
            if self._visible(conversation.stored, owner)
            for item in conversation.items
        ]
        return {id: data for _, id, data in sorted(found, key=lambda each: each[0]) if id in ids}

    def _remove(self, id: str) -> None:
        for table in (self.records, self.jobs, self.attempts, self.appended):
            table.pop(id, None)
        self.written = {place: time for place, time in self.written.items() if place[0] != id}

    def chain(self, owner: str, id: str) -> list[Record]:
        found: list[Record] = []
        record = self.get(owner, id)
        while record is not None and record not in found and record.kept_after_end is None:
            found.insert(0, record)
            record = self.get(owner, record.parent or "")
        return found

    def create_conversation(self, conversation: Conversation, items: Sequence[Item]) -> object:
        if conversation.id in self.conversations:
            return TAKEN
        self.conversations[conversation.id] = ModelConversation(conversation, [])
        self._append(self.conversations[conversation.id], items)
        return None

    def delete_conversation(self, owner: str, id: str) -> bool:
        if self._conversation(owner, id) is None:
            return False
        del self.conversations[id]
        return True

    def _append(self, conversation: ModelConversation, items: Sequence[Item]) -> None:
        for item in items:
            conversation.written[item.id] = self.clock.now
            positions = [position for position, old in enumerate(conversation.items) if old.id == item.id]
            if positions:
                conversation.items[positions[0]] = item
            else:
                conversation.items.append(item)

    def add_items(self, owner: str, id: str, items: Sequence[Item]) -> bool:
        found = self._conversation(owner, id)
        if found is not None:
            self._append(found, items)
        return found is not None

    def delete_item(self, owner: str, id: str, item: str) -> bool:
        found = self._conversation(owner, id)
        if found is None or item not in [old.id for old in found.items]:
            return False
        found.items = [old for old in found.items if old.id != item]
        return True

    def items(self, owner: str, id: str) -> list[Item] | None:
        found = self._conversation(owner, id)
        return list(found.items) if found is not None else None

    def lock_conversation(self, owner: str, id: str, response: str, lease: float) -> bool:
        found = self._conversation(owner, id)
        if found is None or (found.lock is not None and found.lock[0] != response and found.lock[1] > self.clock.now):
            return False
        found.lock = (response, self.clock.now + lease)
        return True

    def unlock_conversation(self, owner: str, id: str, response: str) -> bool:
        found = self._conversation(owner, id)
        if found is None or found.lock is None or found.lock[0] != response:
            return False
        found.lock = None
        return True

    def put_and_unlock(self, record: Record, items: Sequence[Item]) -> object:
        found = self._conversation(record.owner, record.conversation)
        if found is None or found.lock is None or found.lock[0] != record.id:
            return False
        if self.put(record) == TAKEN:
            return TAKEN
        self._append_and_unlock(found, record, items)
        return True

    def _append_and_unlock(self, conversation: ModelConversation, record: Record, items: Sequence[Item]) -> None:
        conversation.lock = None
        self._append(conversation, items)
        expires_at = max(conversation.stored.expires_at, record.expires_at)
        conversation.stored = structs.replace(conversation.stored, expires_at=expires_at)

    def enqueue(self, record: Record, request: bytes) -> object:
        if record.id in self.records:
            return TAKEN
        self.numbers += 1
        self._store(record)
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
        self.appended[id] = []
        if purpose == "run":
            self.records[id] = structs.replace(self.records[id], status="in_progress")
        return Job(self.records[id], job.request, job.attempt, purpose, job.lost)

    def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        renewed = {id: job.cancel for id, job in self.jobs.items() if id in ids and job.worker == worker}
        for id in renewed:
            self.jobs[id].available_at = self.clock.now + lease
        return renewed

    def give_back(self, worker: str, ids: Sequence[str]) -> object:
        for id, job in self.jobs.items():
            if id in ids and job.worker == worker:
                job.worker, job.available_at = None, self.clock.now
                self.appended[id] = []
                self.records[id] = structs.replace(self.records[id], status="queued")
        return None

    def _has_lease(self, id: str, worker: str, attempt: int) -> bool:
        return id in self.jobs and (self.jobs[id].worker, self.jobs[id].attempt) == (worker, attempt)

    def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event]) -> bool:
        if not self._has_lease(id, worker, attempt):
            return False
        self.appended[id] += events
        return True

    def events(self, owner: str, id: str, after: int) -> Progress | None:
        record = self.get(owner, id)
        new = [event for event in self.appended.get(id, []) if event.number > after]
        return Progress(record.status, self.attempts.get(id, 0), new) if record is not None else None

    def finish(self, record: Record, worker: str, attempt: int, events: Sequence[Event], items: Sequence[Item]) -> bool:
        if not self._has_lease(record.id, worker, attempt) or self.records[record.id].owner != record.owner:
            return False
        del self.jobs[record.id]
        self._store(self._ended(record))
        self.appended[record.id] += events
        found = self._conversation(record.owner, record.conversation)
        if found is not None and found.lock is not None and found.lock[0] == record.id:
            self._append_and_unlock(found, record, items)
        return True

    def _ended(self, record: Record) -> Record:
        if record.kept_after_end is None:
            return record
        return structs.replace(record, expires_at=min(record.expires_at, int(self.clock.now) + record.kept_after_end))

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
        self.records[id] = self._ended(structs.replace(self.records[id], status="cancelled"))
        return "cancelled"

    def sweep(self) -> int:
        expired = [id for id, record in self.records.items() if record.expires_at <= self.clock.now]
        for id in expired:
            self._remove(id)
        conversations = [id for id, found in self.conversations.items() if found.stored.expires_at <= self.clock.now]
        for id in conversations:
            del self.conversations[id]
        return len(expired) + len(conversations)
