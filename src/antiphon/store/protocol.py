"""The contract that every store keeps."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from antiphon.store.account_records import Delivery
from antiphon.store.accounts.store import AccountStore
from antiphon.store.operations import Database
from antiphon.store.records import (
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
    Record,
    SearchBounds,
)
from antiphon.store.wakeups import Wakeup

# ---- uploaded files, and what is made of them ------------------------------------------------------------------------
# They are in a database beside that of the responses, their contents in a folder.
# It is a database of its own because indexing a large file writes much, and nobody who waits for a response should wait for
# that.


class FileStore(Struct, frozen=True):
    # It is opened when it is first used.
    database: Database
    # A folder for contents. None: they are kept in the database, because other gateways use it too.
    folder: Callable[[], Path | None]
    # Whether there may be anything in it: otherwise no earlier gateway has left work behind.
    is_used: Callable[[], bool]
    close: Callable[[], Awaitable[None]]


class CannotOpen(Exception):
    """The store cannot be opened; the message says why, and how to fix it."""


class IdTaken(Exception):
    """The id exists already. Ids are random, so this is a bug of the caller."""


class ResponseStore(Protocol):
    """Responses, and the items in them."""

    async def put(self, record: Record) -> None:
        """Store a finished response, which does not change afterwards. Concurrent puts share a transaction. Raises IdTaken."""

    async def get(self, owner: str, id: str, *, output: bool = True) -> Record | None:
        """`output`: whether its output is wanted. It may be long."""

    async def delete(self, owner: str, id: str) -> bool:
        """Delete a response with its job and its events. False: it does not exist.

        The chains of the responses that continue it start after it from then on. The deletion is remembered for as long as
        such responses can exist.
        """

    async def chain(self, owner: str, id: str) -> list[Link]:
        """From the first response to this one. Empty: it does not exist. A chain starts after a parent that is gone."""

    async def was_deleted(self, owner: str, id: str) -> bool:
        """Whether the owner deleted this response. One that has expired, or was removed to save space, was not deleted."""

    async def keep_until(self, owner: str, ids: Sequence[str], expires_at: int) -> None:
        """Let these responses expire no earlier than `expires_at`. Those that do not exist are left out."""

    async def find_items(self, owner: str, ids: Collection[str]) -> dict[str, bytes]:
        """The items with these ids, as JSON: from the input and output of any response, or from any conversation.

        Ids that are not found are left out. Of several items with the same id, the one that was written last is returned.
        Items that are only references to others cannot be found.
        """

    async def index_items(self) -> int:
        """Prepare what an older version wrote for `find_items`, in small transactions. Returns how many responses that were.

        Without it, `find_items` does so itself before it gives up.
        """


class ConversationStore(Protocol):
    """Conversations, their items, and the lock that lets one response at a time answer in one."""

    async def create_conversation(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        """Raises IdTaken."""

    async def get_conversation(self, owner: str, id: str) -> Conversation | None: ...

    async def set_metadata(self, owner: str, id: str, metadata: bytes) -> Conversation | None:
        """The changed conversation. None: it does not exist."""

    async def delete_conversation(self, owner: str, id: str) -> bool:
        """Delete a conversation with its items; its responses stay. False: it does not exist.

        It is invisible at once; the rows of a long conversation are removed in several transactions.
        """

    async def add_items(self, owner: str, conversation: str, items: Sequence[Item], expires_at: int = 0) -> bool:
        """Append items. An item whose id exists is replaced in its place. False: the conversation does not exist.

        The conversation expires no earlier than `expires_at`.
        """

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
        """At most `limit` items in the given order: the first ones after `after`, or the last ones before `before`.

        None: the conversation does not exist. A cursor that is not one of its items is an InvalidRequest.
        """

    async def conversation_items(self, owner: str, conversation: str) -> list[Item] | None:
        """All items in order. None: the conversation does not exist."""

    async def get_item(self, owner: str, conversation: str, id: str) -> Item | None: ...

    async def delete_item(self, owner: str, conversation: str, id: str) -> bool: ...

    async def lock_conversation(self, owner: str, conversation: str, response: str, lease: float) -> bool:
        """Lock a conversation for one response, because only one at a time may answer in it.

        The response that has the lock can lock again, to renew the lease. False: another response has the lock, or the
        conversation does not exist.
        """

    async def unlock_conversation(self, owner: str, conversation: str, response: str) -> bool:
        """False: this response does not have the lock."""

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        """Put the record, append the items to its conversation, and unlock that: all or nothing.

        The conversation then lives at least as long as the record. False, and nothing is written: the conversation is gone,
        or this response does not have the lock. A lock whose lease has expired is kept until another response takes it.
        Raises IdTaken.
        """


class JobStore(Protocol):
    """Responses that are made in the background: the queue, their events, and waiting for them.

    To wait: subscribe, then check the store, then wait. So no change is missed.
    """

    async def enqueue(self, record: Record, request: bytes) -> None:
        """Store a response that is still to be made, and wake a worker. `request` comes back in the Job. Raises IdTaken."""

    async def claim(self, worker: str, lease: float, most_attempts: int, not_of: Collection[str] = ()) -> Job | None:
        """Give this worker the job that has waited longest, or one whose lease has expired. None: there is no such job.
        `not_of`: owners whose jobs are left alone.

        No other worker gets it during the lease. The events of earlier attempts are deleted. The status becomes
        `in_progress` if the job is to be run; a job that lost `most_attempts` attempts is not run again.
        """

    async def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        """The ids that this worker still has a lease for, and for each of them whether it is to be cancelled.

        A lease that has expired is kept until another worker claims the job.
        """

    async def give_back(self, worker: str, ids: Sequence[str]) -> None:
        """Put the jobs that this worker has a lease for back into the queue, as if they had never started; wake a worker.

        Only the attempt numbers stay used, because followers distinguish attempts by number.
        """

    async def begin_call(self, id: str, worker: str, attempt: int, call: bytes) -> bool:
        """Note a call of a tool, as one line of JSON, that is about to be run: later attempts get it with the Job. False, and
        nothing is written: the lease is lost. One that may have been written is written again without harm."""

    async def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event | LongEvent]) -> bool:
        """Store events and wake the followers. False, and nothing is written: the lease is lost. A long event is alone."""

    async def events(self, owner: str, id: str, after: int = -1, most_bytes: int = PAGE_BYTES) -> Progress | None:
        """The events of the current attempt with numbers above `after`, and the status at that time. None: no such response.

        `most_bytes`: about so many of them, the first ones, and at least those of one append. An event that is longer than
        LONGEST_EVENT need not be among them: it is read with `event_part`.
        """

    async def event_part(self, owner: str, id: str, place: LongEventPlace, start: int, size: int) -> bytes | None:
        """A part of a long event. None: it is gone, because the response was deleted, or another attempt has begun."""

    async def finish(
        self,
        record: Record,
        worker: str,
        attempt: int,
        events: Sequence[Event | LongEvent],
        items: Sequence[Item] = (),
        output: Pieces | None = None,
    ) -> bool:
        """Store the last events and the final record, delete the job, and wake the followers.

        `output`: what is stored as the record's output, if that is long. The record then has an outline of it: the same
        items, with short texts in place of long ones.

        In a conversation, append the items and unlock it, as `put_and_unlock` does; if the lock is lost, only that part is
        left out. False, and nothing is written: the lease is lost.
        """

    async def count_jobs(self) -> JobCounts:
        """For those who watch the queue."""

    async def cancel(self, owner: str, id: str, deliveries: Sequence[Delivery] = ()) -> Cancellation:
        """Cancel a queued response at once, or mark a running one, which its worker learns from `renew`. `deliveries`: the
        messages about one that is cancelled at once.

        The followers are woken in either case, so a worker that follows its own jobs can call `renew` at once.
        """

    def follow(self, id: str) -> AbstractContextManager[Wakeup]:
        """Woken when a background response is claimed, given back, finished, cancelled or deleted, or has new events.

        Also when its cancellation is requested.
        """

    def follow_jobs(self) -> AbstractContextManager[Wakeup]:
        """Woken when there may be a job to claim."""


class AdminStore(Protocol):
    """Lists of all that is stored, the newest first; its owners; and what is removed in time."""

    async def list_responses(
        self,
        owner: str | None,
        *,
        search: bytes = b"",
        after: ListPlace | None = None,
        limit: int = 20,
        bounds: SearchBounds = SEARCH_BOUNDS,
    ) -> Listing:
        """A page of the responses of an owner; None: of all owners. `search`: what their input or output, as JSON, contains.

        A page of a search may be short, or empty, and not the last one: only so many rows are searched at once.
        """

    async def list_conversations(
        self,
        owner: str | None,
        *,
        search: bytes = b"",
        after: ListPlace | None = None,
        limit: int = 20,
        bounds: SearchBounds = SEARCH_BOUNDS,
    ) -> Listing:
        """The same of conversations, and of their items."""

    async def owner_of(self, id: str) -> str | None:
        """The owner of a response or conversation. None: it does not exist. For those who may see what others have stored."""

    async def move_owner(self, earlier: str, owner: str) -> int:
        """Give everything of an earlier owner to another one, in small transactions, as often as it is called.

        Returns how many responses and conversations that were. Several gateways may do so at once. A response that is running
        for the earlier owner goes on: `unlock_conversation`, `put_and_unlock` and `finish` then do what the other owner could
        do. What the earlier owner stores afterwards stays its own until the next call.
        """

    async def sweep(self) -> int:
        """Remove expired responses and conversations, in small transactions. Returns how many were removed."""

    async def shrink(self, most_bytes: int) -> int:
        """Remove what would expire next until the rest fits, except what is in use. Returns how many were removed."""


class Store(ResponseStore, ConversationStore, JobStore, AdminStore, Protocol):
    """Each method is atomic: it happens completely or not at all, and readers see all of it or nothing.

    What a method has written is durable when it returns. Stored data belongs to an owner. Only that owner can read, continue,
    change or delete it; for everyone else it does not exist. Nor does anything that has expired, even before it is swept. A
    store that cannot be reached, or that does not answer in time, raises StoreUnavailable; a write that failed in this way
    may have happened nevertheless.

    A response with `kept_after_end` is not to be stored: it exists because it is made in the background. When it ends, it
    expires so many seconds later. It is in no chain, its items cannot be found, and its deletion is not remembered.

    A lease is a number of seconds, measured by the clock of the store (for Postgres: of the server), so that gateways whose
    clocks differ agree about its end.
    """

    # Whether stored data outlives the process.
    survives_restart: bool
    # Uploaded files, and what is made of them.
    files: FileStore

    @property
    def accounts(self) -> AccountStore:
        """Usage, keys, and messages to webhooks."""

    async def check(self) -> None:
        """Raises StoreUnavailable if it is known that nothing can be stored. A server is not asked."""
