"""The store in the gateway's own memory: bounded, and lost with the process."""

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from msgspec import structs

from antiphon.errors import InvalidRequest
from antiphon.store.account_records import Delivery
from antiphon.store.files.opened import files_in_memory
from antiphon.store.memory.accounts import MemoryAccounts
from antiphon.store.memory.tables import (
    OVERHEAD,
    ConversationRow,
    JobRow,
    MemoryTables,
    ResponseRow,
    ids_in,
    size_of_events,
    size_of_items,
    size_of_record,
    whole_events,
)
from antiphon.store.records import (
    NEWEST,
    PAGE_BYTES,
    SEARCH_BOUNDS,
    Cancellation,
    Conversation,
    Event,
    Item,
    Job,
    JobCounts,
    Link,
    Listing,
    ListPlace,
    LongEvent,
    LongEventPlace,
    Pieces,
    Progress,
    Purpose,
    Record,
    SearchBounds,
    deletion_expires_at,
    fitting,
)
from antiphon.store.wakeups import Wakeup, Wakeups

MAX_ROWS = 10_000
MAX_BYTES = 256 * 1024 * 1024
JOBS = "jobs"


class MemoryStore:
    survives_restart = False

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        wakeups: Wakeups | None = None,
        *,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._clock = clock
        self._tables = MemoryTables(clock, max_rows, max_bytes)
        # The responses that their owners deleted: the owner, and until when that is remembered.
        self._deleted: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._max_deleted = max_rows
        # The owners whose rows were given to another one.
        self._renamed: dict[str, str] = {}
        self._last_job_number = 0
        self._wakeups = wakeups or Wakeups()
        self.files = files_in_memory(clock, self._wakeups)
        self.accounts = MemoryAccounts(clock, self._wakeups)

    # --- Responses

    async def check(self) -> None:
        """Memory is always there."""

    async def put(self, record: Record) -> None:
        tables = self._tables
        tables.check_id_is_free(record.id)
        ids = ids_in(record)
        size = size_of_record(record, ids)
        tables.make_space(size)
        tables.put(self._beside(record), ids, size)

    def _beside(self, record: Record) -> Record:
        """Writes what belongs to it, and returns the rest."""
        if record.usage is not None:
            self.accounts.count(record.usage)
        if record.deliveries:
            self.accounts.deliver(record.deliveries)
        return structs.replace(record, usage=None, deliveries=(), input_ids=None, output_ids=None)

    async def get(self, owner: str, id: str, *, output: bool = True) -> Record | None:
        row = self._tables.response(owner, id)
        if row is None:
            return None
        return row.stored if output else structs.replace(row.stored, output=b"[]")

    async def delete(self, owner: str, id: str) -> bool:
        row = self._tables.response(owner, id)
        if row is None:
            return False
        self._tables.remove(id)
        if row.stored.kept_after_end is None:
            self._remember_deletion(row.stored)
        self._wakeups.wake(id)
        return True

    def _remember_deletion(self, record: Record) -> None:
        until = deletion_expires_at(record.created_at, record.expires_at, self._clock())
        self._deleted[record.id] = (record.owner, until)
        while len(self._deleted) > self._max_deleted:
            self._deleted.popitem(last=False)

    async def chain(self, owner: str, id: str) -> list[Link]:
        links: dict[str, Link] = {}
        row = self._tables.response(owner, id)
        while row is not None and row.stored.id not in links and row.stored.kept_after_end is None:
            record = row.stored
            links[record.id] = Link(record.id, record.status, record.input, record.output, record.parent, record.expires_at)
            row = self._tables.response(owner, record.parent) if record.parent is not None else None
        return list(links.values())[::-1]

    async def was_deleted(self, owner: str, id: str) -> bool:
        deleted_by, until = self._deleted.get(id, (None, 0))
        return deleted_by == owner and until > self._clock()

    async def keep_until(self, owner: str, ids: Sequence[str], expires_at: int) -> None:
        for id in ids:
            row = self._tables.response(owner, id)
            if row is not None and row.stored.expires_at < expires_at and row.stored.kept_after_end is None:
                row.stored = structs.replace(row.stored, expires_at=expires_at)

    # --- Items

    async def find_items(self, owner: str, ids: Collection[str]) -> dict[str, bytes]:
        return self._tables.find_items(owner, ids)

    async def index_items(self) -> int:
        return 0

    # --- Conversations

    async def create_conversation(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        self._tables.check_id_is_free(conversation.id)
        size = OVERHEAD + len(conversation.metadata)
        self._tables.make_space(size + size_of_items(items))
        row = ConversationRow(conversation)
        self._tables.rows[conversation.id] = row
        self._tables.resize(row, size)
        self._tables.append_items(row, items)

    async def get_conversation(self, owner: str, id: str) -> Conversation | None:
        row = self._tables.conversation(owner, id)
        return row.stored if row is not None else None

    async def set_metadata(self, owner: str, id: str, metadata: bytes) -> Conversation | None:
        row = self._tables.conversation(owner, id)
        if row is None:
            return None
        self._tables.make_space(len(metadata), id)
        self._tables.resize(row, len(metadata) - len(row.stored.metadata))
        row.stored = structs.replace(row.stored, metadata=metadata)
        return row.stored

    async def delete_conversation(self, owner: str, id: str) -> bool:
        if self._tables.conversation(owner, id) is None:
            return False
        self._tables.remove(id)
        return True

    async def add_items(self, owner: str, conversation: str, items: Sequence[Item], expires_at: int = 0) -> bool:
        row = self._tables.conversation(owner, conversation)
        if row is None:
            return False
        self._tables.make_space(size_of_items(items), conversation)
        self._tables.append_items(row, items, expires_at)
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
        row = self._tables.conversation(owner, conversation)
        if row is None:
            return None
        ordered = list(row.items.values())
        if not ascending:
            ordered.reverse()
        positions = {item.id: position for position, item in enumerate(ordered)}
        for param, cursor in (("after", after), ("before", before)):
            if cursor is not None and cursor not in positions:
                raise InvalidRequest(f"There is no item {cursor!r} in this conversation.", param=param, code="invalid_value")
        first = positions[after] + 1 if after is not None else 0
        last = positions[before] if before is not None else len(ordered)
        between = ordered[first:last]
        return between[-limit:] if after is None and before is not None else between[:limit]

    async def conversation_items(self, owner: str, conversation: str) -> list[Item] | None:
        row = self._tables.conversation(owner, conversation)
        return list(row.items.values()) if row is not None else None

    async def get_item(self, owner: str, conversation: str, id: str) -> Item | None:
        row = self._tables.conversation(owner, conversation)
        return row.items.get(id) if row is not None else None

    async def delete_item(self, owner: str, conversation: str, id: str) -> bool:
        row = self._tables.conversation(owner, conversation)
        if row is None or id not in row.items:
            return False
        self._tables.delete_item(row, id)
        return True

    async def lock_conversation(self, owner: str, conversation: str, response: str, lease: float) -> bool:
        row = self._tables.conversation(owner, conversation)
        now = self._clock()
        if row is None or (row.locked_by not in (None, response) and row.locked_until > now):
            return False
        row.locked_by, row.locked_until = response, now + lease
        return True

    async def unlock_conversation(self, owner: str, conversation: str, response: str) -> bool:
        current = self._renamed.get(owner, owner)
        row = self._tables.conversation(owner, conversation) or self._tables.conversation(current, conversation)
        if row is None or row.locked_by != response:
            return False
        row.unlock()
        return True

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        conversation = self._tables.conversation_locked_by(record)
        if conversation is None and (owner := self._renamed.get(record.owner)) is not None:
            return await self.put_and_unlock(structs.replace(record, owner=owner), items)
        if conversation is None:
            return False
        self._tables.check_id_is_free(record.id)
        ids = ids_in(record)
        size = size_of_record(record, ids)
        self._tables.make_space(size + size_of_items(items), conversation.stored.id)
        self._tables.append_items(conversation, items, record.expires_at)
        self._tables.put(self._beside(record), ids, size)
        conversation.unlock()
        return True

    # --- Background

    async def enqueue(self, record: Record, request: bytes) -> None:
        self._tables.check_id_is_free(record.id)
        ids = ids_in(record)
        size = size_of_record(record, ids)
        self._tables.make_space(size + len(request))
        row = self._tables.put(record, ids, size)
        self._last_job_number += 1
        row.job = JobRow(request, self._last_job_number, self._clock())
        self._tables.resize(row, len(request))
        self._wakeups.wake(JOBS)

    async def claim(self, worker: str, lease: float, most_attempts: int, not_of: Collection[str] = ()) -> Job | None:
        now = self._clock()
        available = [
            (job.available_at, job.number, row, job)
            for row in self._tables.rows.values()
            if isinstance(row, ResponseRow) and (job := row.job) is not None
            if job.available_at <= now < row.stored.expires_at and row.stored.owner not in not_of
        ]
        if not available:
            return None
        _, _, row, job = min(available, key=lambda candidate: candidate[:2])
        lost = row.attempt - job.given_back
        purpose: Purpose = "cancel" if job.cancel else "fail" if lost >= most_attempts else "run"
        job.worker, job.available_at = worker, now + lease
        row.attempt += 1
        self._tables.delete_events(row)
        if purpose == "run":
            row.stored = structs.replace(row.stored, status="in_progress")
        self._wakeups.wake(row.stored.id)
        return Job(row.stored, job.request, row.attempt, purpose, lost, tuple(job.begun_calls))

    async def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        until = self._clock() + lease
        renewed = {}
        for id in ids:
            row = self._tables.rows.get(id)
            if isinstance(row, ResponseRow) and (job := row.job) is not None and job.worker == worker:
                job.available_at = until
                renewed[id] = job.cancel
        return renewed

    async def give_back(self, worker: str, ids: Sequence[str]) -> None:
        for id in ids:
            row = self._tables.rows.get(id)
            if isinstance(row, ResponseRow) and (job := row.job) is not None and job.worker == worker:
                job.worker, job.available_at = None, self._clock()
                job.given_back += 1
                self._tables.delete_events(row)
                row.stored = structs.replace(row.stored, status="queued")
                self._wakeups.wake(id)
                self._wakeups.wake(JOBS)

    async def begin_call(self, id: str, worker: str, attempt: int, call: bytes) -> bool:
        row = self._tables.claimed_response(id, worker, attempt)
        if row is None or row.job is None:
            return False
        self._tables.make_space(len(call), id)
        self._tables.resize(row, len(call))
        row.job.begun_calls.append(call)
        return True

    async def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event | LongEvent]) -> bool:
        row = self._tables.claimed_response(id, worker, attempt)
        if row is None:
            return False
        events = whole_events(events)
        self._tables.make_space(size_of_events(events), id)
        self._tables.append_events(row, events)
        self._wakeups.wake(row.stored.id)
        return True

    async def events(self, owner: str, id: str, after: int = -1, most_bytes: int = PAGE_BYTES) -> Progress | None:
        row = self._tables.response(owner, id)
        if row is None:
            return None
        first = bisect_right(row.events, after, key=lambda event: event.number)
        sizes = (len(event.data) for event in islice(row.events, first, None))
        new = row.events[first : first + fitting(sizes, most_bytes)]
        return Progress(row.stored.status, row.attempt, new, more=first + len(new) < len(row.events))

    async def event_part(self, owner: str, id: str, place: LongEventPlace, start: int, size: int) -> bytes | None:
        row = self._tables.response(owner, id)
        if row is None or row.attempt != place.attempt:
            return None
        return next((event.data[start : start + size] for event in row.events if event.number == place.number), None)

    async def finish(
        self,
        record: Record,
        worker: str,
        attempt: int,
        events: Sequence[Event | LongEvent],
        items: Sequence[Item] = (),
        output: Pieces | None = None,
    ) -> bool:
        row = self._tables.claimed_response(record.id, worker, attempt)
        if row is None or row.stored.owner not in (record.owner, self._renamed.get(record.owner)):
            return False
        record = structs.replace(record, owner=row.stored.owner)
        if output is not None:
            record = structs.replace(record, output=b"".join(output))
        events = whole_events(events)
        conversation = self._tables.conversation_locked_by(record)
        ids = ids_in(record)
        size = size_of_record(record, ids) + size_of_events(events) + size_of_items(items)
        self._tables.make_space(size, record.id, record.conversation or "")
        if conversation is not None:
            self._tables.append_items(conversation, items, record.expires_at)
            conversation.unlock()
        self._tables.replace(row, self._beside(record).at_its_end(self._clock()), ids)
        self._tables.delete_job(row)
        self._tables.append_events(row, events)
        self._wakeups.wake(row.stored.id)
        return True

    async def count_jobs(self) -> JobCounts:
        rows = self._tables.rows.values()
        jobs = [row.job for row in rows if isinstance(row, ResponseRow) and row.job is not None]
        running = sum(job.worker is not None for job in jobs)
        return JobCounts(len(jobs) - running, running)

    async def cancel(self, owner: str, id: str, deliveries: Sequence[Delivery] = ()) -> Cancellation:
        row = self._tables.response(owner, id)
        if row is None:
            return "unknown"
        if row.job is None:
            return "over"
        self._wakeups.wake(id)
        if row.job.worker is not None:
            row.job.cancel = True
            return "asked"
        row.stored = structs.replace(row.stored, status="cancelled").at_its_end(self._clock())
        self._tables.delete_job(row)
        self.accounts.deliver(deliveries)
        return "cancelled"

    # --- Lists

    async def list_responses(
        self,
        owner: str | None,
        *,
        search: bytes = b"",
        after: ListPlace | None = None,
        limit: int = 20,
        bounds: SearchBounds = SEARCH_BOUNDS,
    ) -> Listing:
        return self._tables.list_rows(ResponseRow, owner, search, after or NEWEST, limit, bounds)

    async def list_conversations(
        self,
        owner: str | None,
        *,
        search: bytes = b"",
        after: ListPlace | None = None,
        limit: int = 20,
        bounds: SearchBounds = SEARCH_BOUNDS,
    ) -> Listing:
        return self._tables.list_rows(ConversationRow, owner, search, after or NEWEST, limit, bounds)

    # --- Owners

    async def owner_of(self, id: str) -> str | None:
        return self._tables.owner_of(id)

    async def move_owner(self, earlier: str, owner: str) -> int:
        self._renamed[earlier] = owner
        self._deleted = OrderedDict((id, (owner if by == earlier else by, until)) for id, (by, until) in self._deleted.items())
        self.accounts.move(earlier, owner)
        return self._tables.move_owner(earlier, owner)

    # --- Waiting, housekeeping

    def follow(self, id: str) -> AbstractContextManager[Wakeup]:
        return self._wakeups.subscribe(id)

    def follow_jobs(self) -> AbstractContextManager[Wakeup]:
        return self._wakeups.subscribe(JOBS)

    async def sweep(self) -> int:
        now = self._clock()
        expired = [id for id, row in self._tables.rows.items() if row.stored.expires_at <= now]
        for id in expired:
            self._tables.remove(id)
        self._deleted = OrderedDict((id, deleted) for id, deleted in self._deleted.items() if deleted[1] > now)
        return len(expired)

    async def shrink(self, most_bytes: int) -> int:
        return self._tables.shrink(most_bytes)
