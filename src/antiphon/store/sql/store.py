"""The store in a database: each method runs an operation that reads or writes."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

from msgspec import structs

from antiphon.store.account_records import Delivery
from antiphon.store.accounts import usage
from antiphon.store.accounts.store import KEY_POLL, SqlAccounts
from antiphon.store.operations import ResponseDatabase
from antiphon.store.protocol import FileStore
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
from antiphon.store.sql import background, conversations, item_index, listings, owners, responses, sweeper
from antiphon.store.sql.recent_chains import RecentChains
from antiphon.store.wakeups import Wakeup


class SqlStore:
    survives_restart = True

    def __init__(self, database: ResponseDatabase, files: FileStore, key_poll: float = KEY_POLL) -> None:
        self.files = files
        self.accounts = SqlAccounts(database, key_poll)
        self._database = database
        self._now = database.clock
        self._recent = RecentChains()
        self._generation = database.generation

    async def check(self) -> None:
        await self._database.check()

    # --- Responses

    async def put(self, record: Record) -> None:
        await self._database.put(record)
        self._recent.extend(record)

    async def get(self, owner: str, id: str, *, output: bool = True) -> Record | None:
        return await self._database.read(responses.get(owner, id, self._now(), output=output))

    async def delete(self, owner: str, id: str) -> bool:
        return await self._database.write(responses.delete(owner, id, self._now()))

    async def chain(self, owner: str, id: str) -> list[Link]:
        now = self._now()
        known = self._recent.find(owner, id, now)
        chain = await self._database.read(responses.chain(owner, id, known, now))
        if self._generation != self._database.generation:
            self._generation = self._database.generation
            self._recent = RecentChains()
            chain = await self._database.read(responses.chain(owner, id, None, now))
        if chain is not known:
            self._recent.add(owner, id, chain)
        return list(chain.links)

    async def was_deleted(self, owner: str, id: str) -> bool:
        return await self._database.read(responses.was_deleted(owner, id, self._now()))

    async def keep_until(self, owner: str, ids: Sequence[str], expires_at: int) -> None:
        await self._database.write(responses.keep_until(owner, ids, expires_at, self._now()))
        # They say when their responses expire.
        self._recent.forget(owner, frozenset(ids))

    # --- Items

    async def find_items(self, owner: str, ids: Collection[str]) -> dict[str, bytes]:
        wanted = frozenset(ids)
        found = await self._database.read(item_index.find(owner, wanted, self._now()))
        if len(found) < len(wanted):
            await self._index_items_of(owner)
            # Also if nothing was left to index: others index, too, and may have just finished.
            found = await self._database.read(item_index.find(owner, wanted, self._now()))
        return found

    async def _index_items_of(self, owner: str) -> None:
        while await self._database.read(item_index.has_unindexed(owner)):
            await self._database.write(item_index.index_some(owner))

    async def index_items(self) -> int:
        total = 0
        while indexed := await self._database.write(item_index.index_some()):
            total += indexed
        return total

    # --- Conversations

    async def create_conversation(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        await self._database.write(conversations.create(conversation, items, self._now()))

    async def get_conversation(self, owner: str, id: str) -> Conversation | None:
        return await self._database.read(conversations.get(owner, id, self._now()))

    async def set_metadata(self, owner: str, id: str, metadata: bytes) -> Conversation | None:
        return await self._database.write(conversations.set_metadata(owner, id, metadata, self._now()))

    async def delete_conversation(self, owner: str, id: str) -> bool:
        if not await self._database.write(conversations.hide(owner, id, self._now())):
            return False
        while (await self._database.write(sweeper.remove_some(sweeper.CONVERSATIONS, [id]))).more:
            pass
        return True

    async def add_items(self, owner: str, conversation: str, items: Sequence[Item], expires_at: int = 0) -> bool:
        return await self._database.write(conversations.append(owner, conversation, items, expires_at, self._now()))

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
        now = self._now()
        listing = conversations.list_items(owner, conversation, after, before, limit, ascending, now)
        return await self._database.read(listing)

    async def conversation_items(self, owner: str, conversation: str) -> list[Item] | None:
        return await self._database.read(conversations.all_items(owner, conversation, self._now()))

    async def get_item(self, owner: str, conversation: str, id: str) -> Item | None:
        return await self._database.read(conversations.get_item(owner, conversation, id, self._now()))

    async def delete_item(self, owner: str, conversation: str, id: str) -> bool:
        return await self._database.write(conversations.delete_item(owner, conversation, id, self._now()))

    async def lock_conversation(self, owner: str, conversation: str, response: str, lease: float) -> bool:
        return await self._database.write(conversations.lock(owner, conversation, response, lease, self._now()))

    async def unlock_conversation(self, owner: str, conversation: str, response: str) -> bool:
        now = self._now()
        unlocking = owners.by_either(owner, lambda each: conversations.unlock(each, conversation, response, now))
        return await self._database.write(unlocking)

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        return await self._database.put_and_unlock(record, items)

    # --- Background

    async def enqueue(self, record: Record, request: bytes) -> None:
        await self._database.write(background.enqueue(record, request, self._now()))

    async def claim(self, worker: str, lease: float, most_attempts: int, not_of: Collection[str] = ()) -> Job | None:
        return await self._database.write(background.claim(worker, lease, most_attempts, not_of, self._now()))

    async def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        return await self._database.write(background.renew(worker, ids, lease, self._now()))

    async def give_back(self, worker: str, ids: Sequence[str]) -> None:
        await self._database.write(background.give_back(worker, ids, self._now()))

    async def begin_call(self, id: str, worker: str, attempt: int, call: bytes) -> bool:
        return await self._database.write(background.begin_call(id, worker, attempt, call))

    async def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event | LongEvent]) -> bool:
        return await self._database.write(background.append_events(id, worker, attempt, events))

    async def events(self, owner: str, id: str, after: int = -1, most_bytes: int = PAGE_BYTES) -> Progress | None:
        return await self._database.read(background.event_page(owner, id, after, most_bytes, self._now()))

    async def event_part(self, owner: str, id: str, place: LongEventPlace, start: int, size: int) -> bytes | None:
        return await self._database.read(background.event_part(owner, id, place, start, size, self._now()))

    async def finish(
        self,
        record: Record,
        worker: str,
        attempt: int,
        events: Sequence[Event | LongEvent],
        items: Sequence[Item] = (),
        output: Pieces | None = None,
    ) -> bool:
        now = self._now()
        finishing = owners.by_either(
            record.owner,
            lambda each: background.finish(structs.replace(record, owner=each), worker, attempt, events, items, output, now),
        )
        finished = await self._database.write(finishing)
        # What is long is read again when it is continued.
        if finished and output is None and record.kept_after_end is None:
            self._recent.extend(record)
        return finished

    async def count_jobs(self) -> JobCounts:
        return await self._database.read(background.count_jobs())

    async def cancel(self, owner: str, id: str, deliveries: Sequence[Delivery] = ()) -> Cancellation:
        return await self._database.write(background.cancel(owner, id, deliveries, self._now()))

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
        operation = listings.page(listings.RESPONSES, owner, search, after, limit, self._now(), bounds)
        return await self._database.read(operation)

    async def list_conversations(
        self,
        owner: str | None,
        *,
        search: bytes = b"",
        after: ListPlace | None = None,
        limit: int = 20,
        bounds: SearchBounds = SEARCH_BOUNDS,
    ) -> Listing:
        operation = listings.page(listings.CONVERSATIONS, owner, search, after, limit, self._now(), bounds)
        return await self._database.read(operation)

    # --- Owners

    async def owner_of(self, id: str) -> str | None:
        return await self._database.read(owners.owner_of(id, self._now()))

    async def move_owner(self, earlier: str, owner: str) -> int:
        # Before anything is moved: what runs for the earlier owner meanwhile finds its rows by this.
        await self._database.write(owners.rename(earlier, owner))
        total = 0
        while moved := await self._database.write(owners.move_responses(earlier, owner)):
            total += moved
        while moved := await self._database.write(owners.move_rows("conversations", earlier, owner)):
            total += moved
        while await self._database.write(owners.move_rows("deleted_responses", earlier, owner)):
            pass
        while await self._database.write(usage.move(earlier, owner)):
            pass
        return total

    # --- Waiting, housekeeping

    def follow(self, id: str) -> AbstractContextManager[Wakeup]:
        return self._database.wakeups.subscribe(id)

    def follow_jobs(self) -> AbstractContextManager[Wakeup]:
        return self._database.wakeups.subscribe(background.JOBS)

    async def sweep(self) -> int:
        removed = 0
        while await self._database.write(sweeper.expire_ended(self._now())):
            pass
        for kind in sweeper.KINDS:
            swept = sweeper.Swept(0, more=True)
            while swept.more:
                swept = await self._database.write(sweeper.sweep_some(kind, self._now()))
                removed += swept.removed
        while await self._database.write(sweeper.forget_deletions(self._now())):
            pass
        return removed

    async def shrink(self, most_bytes: int) -> int:
        # Gateways that check at the same moment may each remove the excess; that is what was added since the last check.
        excess = await self._database.size(most_bytes) - most_bytes
        removed = 0
        while excess > 0:
            expired = await self._database.write(sweeper.expire_oldest(excess, self._now()))
            if not expired.rows:
                break
            excess -= expired.size
            removed += expired.rows
        if removed:
            await self.sweep()
        return removed
