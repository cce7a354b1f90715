"""The store in the gateway's own memory: bounded, and gone with the process."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import structs

from antiphon.errors import InvalidRequest
from antiphon.store.memory_tables import OVERHEAD, Response, Room, Shelves, Work, weigh, weigh_events, weigh_items
from antiphon.store.records import Cancellation, Conversation, Event, Item, Job, Link, Progress, Purpose, Record
from antiphon.store.wakeups import Belfry, Bell

MAX_ENTRIES = 10_000
MAX_BYTES = 256 * 1024 * 1024
JOBS = "jobs"


class MemoryStore:
    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        bells: Belfry | None = None,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._clock = clock
        self._shelves = Shelves(clock, max_entries, max_bytes)
        self._jobs_ever = 0
        self._bells = bells or Belfry()

    # --- Responses

    async def put(self, record: Record) -> None:
        self._shelves.refuse_taken(record.id)
        self._shelves.admit(weigh(record))
        self._shelves.put(record)

    async def get(self, owner: str, id: str) -> Record | None:
        response = self._shelves.response(owner, id)
        return response.kept if response is not None else None

    async def delete(self, owner: str, id: str) -> bool:
        if self._shelves.response(owner, id) is None:
            return False
        self._shelves.remove(id)
        self._bells.ring(id)
        return True

    async def chain(self, owner: str, id: str) -> list[Link]:
        links: dict[str, Link] = {}
        response = self._shelves.response(owner, id)
        while response is not None and response.kept.id not in links:
            record = response.kept
            links[record.id] = Link(record.id, record.status, record.input, record.output, record.parent, record.expires_at)
            response = self._shelves.response(owner, record.parent) if record.parent is not None else None
        return list(links.values())[::-1]

    # --- Conversations

    async def create_conversation(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        self._shelves.refuse_taken(conversation.id)
        weight = OVERHEAD + len(conversation.metadata)
        self._shelves.admit(weight + weigh_items(items))
        room = Room(conversation)
        self._shelves.entries[conversation.id] = room
        self._shelves.grow(room, weight)
        self._shelves.append(room, items)

    async def get_conversation(self, owner: str, id: str) -> Conversation | None:
        room = self._shelves.room(owner, id)
        return room.kept if room is not None else None

    async def set_metadata(self, owner: str, id: str, metadata: bytes) -> Conversation | None:
        room = self._shelves.room(owner, id)
        if room is None:
            return None
        self._shelves.admit(len(metadata), id)
        self._shelves.grow(room, len(metadata) - len(room.kept.metadata))
        room.kept = structs.replace(room.kept, metadata=metadata)
        return room.kept

    async def delete_conversation(self, owner: str, id: str) -> bool:
        if self._shelves.room(owner, id) is None:
            return False
        self._shelves.remove(id)
        return True

    async def add_items(self, owner: str, conversation: str, items: Sequence[Item], expires_at: int = 0) -> bool:
        room = self._shelves.room(owner, conversation)
        if room is None:
            return False
        self._shelves.admit(weigh_items(items), conversation)
        self._shelves.append(room, items, expires_at)
        return True

    async def list_items(
        self,
        owner: str,
        conversation: str,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int = 20,
        ascending: bool = False,
    ) -> list[Item] | None:
        room = self._shelves.room(owner, conversation)
        if room is None:
            return None
        listed = list(room.items.values())
        if not ascending:
            listed.reverse()
        places = {item.id: place for place, item in enumerate(listed)}
        for param, cursor in (("after", after), ("before", before)):
            if cursor is not None and cursor not in places:
                raise InvalidRequest(f"There is no item {cursor!r} in this conversation.", param=param)
        first = places[after] + 1 if after is not None else 0
        last = places[before] if before is not None else len(listed)
        span = listed[first:last]
        return span[-limit:] if after is None and before is not None else span[:limit]

    async def conversation_items(self, owner: str, conversation: str) -> list[Item] | None:
        room = self._shelves.room(owner, conversation)
        return list(room.items.values()) if room is not None else None

    async def get_item(self, owner: str, conversation: str, id: str) -> Item | None:
        room = self._shelves.room(owner, conversation)
        return room.items.get(id) if room is not None else None

    async def delete_item(self, owner: str, conversation: str, id: str) -> bool:
        room = self._shelves.room(owner, conversation)
        if room is None or id not in room.items:
            return False
        self._shelves.grow(room, -weigh_items([room.items.pop(id)]))
        return True

    async def lock_conversation(self, owner: str, conversation: str, response: str, lease: float) -> bool:
        room = self._shelves.room(owner, conversation)
        now = self._clock()
        if room is None or (room.holder not in (None, response) and room.held_until > now):
            return False
        room.holder, room.held_until = response, now + lease
        return True

    async def unlock_conversation(self, owner: str, conversation: str, response: str) -> bool:
        room = self._shelves.room(owner, conversation)
        if room is None or room.holder != response:
            return False
        room.holder, room.held_until = None, 0.0
        return True

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        room = self._shelves.room_in_turn(record)
        if room is None:
            return False
        self._shelves.refuse_taken(record.id)
        self._shelves.admit(weigh(record) + weigh_items(items), room.kept.id)
        self._shelves.put(record)
        self._shelves.unlock_conversation(room, record, items)
        return True

    # --- Background

    async def enqueue(self, record: Record, request: bytes) -> None:
        self._shelves.refuse_taken(record.id)
        self._shelves.admit(weigh(record) + len(request))
        response = self._shelves.put(record)
        self._jobs_ever += 1
        response.work = Work(request, self._jobs_ever, self._clock())
        self._shelves.grow(response, len(request))
        self._bells.ring(JOBS)

    async def claim(self, worker: str, lease: float, most_attempts: int) -> Job | None:
        now = self._clock()
        waiting = [
            (work.available_at, work.number, response, work)
            for response in self._shelves.entries.values()
            if isinstance(response, Response) and (work := response.work) is not None
            if work.available_at <= now < response.kept.expires_at
        ]
        if not waiting:
            return None
        _, _, response, work = min(waiting, key=lambda job: job[:2])
        lost = response.attempt - work.given_back
        purpose: Purpose = "cancel" if work.cancel else "fail" if lost >= most_attempts else "run"
        work.worker, work.available_at = worker, now + lease
        response.attempt += 1
        self._shelves.untell(response)
        if purpose == "run":
            response.kept = structs.replace(response.kept, status="in_progress")
        self._bells.ring(response.kept.id)
        return Job(response.kept, work.request, response.attempt, purpose, lost)

    async def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        until = self._clock() + lease
        held = {}
        for id in ids:
            response = self._shelves.entries.get(id)
            if isinstance(response, Response) and (work := response.work) is not None and work.worker == worker:
                work.available_at = until
                held[id] = work.cancel
        return held

    async def give_back(self, worker: str, ids: Sequence[str]) -> None:
        for id in ids:
            response = self._shelves.entries.get(id)
            if isinstance(response, Response) and (work := response.work) is not None and work.worker == worker:
                work.worker, work.available_at = None, self._clock()
                work.given_back += 1
                self._shelves.untell(response)
                response.kept = structs.replace(response.kept, status="queued")
                self._bells.ring(id)
                self._bells.ring(JOBS)

    async def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event]) -> bool:
        response = self._shelves.held(id, worker, attempt)
        if response is None:
            return False
        self._shelves.admit(weigh_events(events), id)
        self._shelves.tell(response, events)
        self._bells.ring(response.kept.id)
        return True

    async def events(self, owner: str, id: str, after: int = -1) -> Progress | None:
        response = self._shelves.response(owner, id)
        if response is None:
            return None
        return Progress(response.kept.status, response.attempt, [event for event in response.events if event.number > after])

    async def finish(
        self, record: Record, worker: str, attempt: int, events: Sequence[Event], items: Sequence[Item] = ()
    ) -> bool:
        response = self._shelves.held(record.id, worker, attempt)
        if response is None or response.kept.owner != record.owner:
            return False
        room = self._shelves.room_in_turn(record)
        self._shelves.admit(weigh(record) + weigh_events(events) + weigh_items(items), record.id, record.conversation or "")
        self._shelves.replace(response, record)
        self._shelves.let_go(response)
        if room is not None:
            self._shelves.unlock_conversation(room, record, items)
        self._shelves.tell(response, events)
        self._bells.ring(response.kept.id)
        return True

    async def cancel(self, owner: str, id: str) -> Cancellation:
        response = self._shelves.response(owner, id)
        if response is None:
            return "unknown"
        work = response.work
        if work is None:
            return "over"
        self._bells.ring(id)
        if work.worker is not None:
            work.cancel = True
            return "asked"
        response.kept = structs.replace(response.kept, status="cancelled")
        self._shelves.let_go(response)
        return "cancelled"

    # --- Waiting, housekeeping

    def follow(self, id: str) -> AbstractContextManager[Bell]:
        return self._bells.hang(id)

    def follow_jobs(self) -> AbstractContextManager[Bell]:
        return self._bells.hang(JOBS)

    async def sweep(self) -> int:
        now = self._clock()
        expired = [id for id, entry in self._shelves.entries.items() if entry.kept.expires_at <= now]
        for id in expired:
            self._shelves.remove(id)
        return len(expired)

    async def shrink(self, most_bytes: int) -> int:
        return self._shelves.shrink(most_bytes)
