"""What one response reads from the store, and what it writes there."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.prompt.stored_form import findable_ids, ids_without_results, items_to_stored_form, with_results
from antiphon.core.protocols.responses.fields import conversation_of, types_of
from antiphon.core.protocols.responses.references import resolved, unresolved, whole_items
from antiphon.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable, quoted
from antiphon.gateway.limits.threads import LARGE_BODY, LARGE_HISTORY, run_aside
from antiphon.gateway.state.owners import Owners
from antiphon.gateway.state.recent_histories import RecentHistories
from antiphon.gateway.state.record_format import (
    decode_found,
    decode_items,
    encode_items,
    encode_settings,
    items_to_stored,
    output_to_items,
    stored_to_items,
)
from antiphon.ids import new_id
from antiphon.store.account_records import UsageEntry
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Link, Record
from antiphon.store.records import Item as StoredItem
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse, OutputItem, OutputMessage, Response

T = TypeVar("T")

# A conversation is locked for this long, in seconds, and longer while its response runs: a gateway that dies blocks the
# conversation for a minute at most.
LEASE = 60.0
RENEWAL = 20.0
# In seconds. A response that would expire earlier than this before the one that continues it is kept longer. So a chain in
# use is written once a day, and not with each response.
KEEPING_MARGIN = 86_400
# The statuses of a response that answered.
ANSWERED = frozenset({"completed", "incomplete"})
# Items that concern their own request only. A list: a type that was never read may be anything, and have no hash.
NOT_STORED = ["compaction_trigger"]
# Nothing in most inputs stands for another item, or concerns one request only.
MESSAGES = {"message"}


class RecordedUsage(Protocol):
    """What a response has used, which is written with its record."""

    def given_up(self, model: str, pieces: int) -> None:
        """The run ends without an end: so much was read of the engine."""

    def entry(self, response: Response) -> UsageEntry | None:
        """None: nothing is to be written."""

    def stored(self) -> None:
        """It was written."""


class ResponseRecorder:
    """Of one response: `read()` what it continues, `keep_lock()` while it runs, `record()` it before its last event."""

    __slots__ = (
        "_conversation",
        "_has_large_body",
        "_has_lock",
        "_has_only_messages",
        "_histories",
        "_history",
        "_links",
        "_own",
        "_owner",
        "_owners",
        "_renewing",
        "_request",
        "_retention",
        "_store",
        "_stored_input",
        "begun_calls",
        "created_at",
        "notices",
        "response_id",
        "usage",
    )

    def __init__(
        self,
        store: Store,
        owner: str,
        request: CreateResponse,
        response_id: str,
        retention: int,
        owners: Owners,
        histories: RecentHistories | None = None,
    ) -> None:
        """`retention`: how long the response is stored, in seconds. `histories`: what the connection knows, read first."""
        self._store = store
        self._owner = owner
        self._owners = owners
        self._retention = retention
        self._request = request
        self.response_id = response_id
        self.created_at = int(time.time())
        self._conversation = conversation_of(request) if request.conversation is not None else None
        self._own: Sequence[Item] = ()
        # None of these stands for another item, or concerns this request only.
        self._has_only_messages = False
        # It may have few items, and a large one among them.
        self._has_large_body = False
        self._stored_input: list[Item] | None = None
        self._has_lock = False
        self._renewing: asyncio.Task[None] | None = None
        self._histories = histories
        self._history: Sequence[bytes] = ()
        # The stored responses that it continues.
        self._links: Sequence[Link] = ()
        # What the client should know of its history.
        self.notices: Sequence[str] = ()
        # None: it does not run yet.
        self.usage: RecordedUsage | None = None
        # The calls of tools that were begun in earlier attempts at this response, and must not be made twice.
        self.begun_calls: Sequence[ToolCall] = ()

    @property
    def owner(self) -> str:
        """Its key may get a name while it runs."""
        return self._owners.moves.get(self._owner, self._owner)

    async def begin_call(self, call: ToolCall) -> bool:
        """Notes that a call is run now which must not be made twice. False: that cannot be noted. Only a response in the
        background is begun again after its gateway has died."""
        return True

    # ---- before it runs ----------------------------------------------------------------------------------------------

    async def read(self, own: Sequence[Item], *, locks: bool = True, large_body: bool = False) -> list[Item]:
        """The items before its own input. `locks`: no other response runs in its conversation from then on. `large_body`: what
        is done with its own input is done in a thread.

        Stored items take the place of what stands for them in the request's own input.
        """
        self.notices = ()
        self._has_large_body = large_body
        try:
            request = self._request
            is_continued = request.previous_response_id is not None or self._conversation is not None
            history = await self._read_history(locks=locks) if is_continued else []
            self._own = own
            self._has_only_messages = types_of(own) <= MESSAGES
            if not self._has_only_messages:
                ids, calls = unresolved(history, own), ids_without_results(own)
                if ids or calls:
                    self._own = await self._resolve(history, own, ids, calls)
            return history
        except BaseException:
            # Also for a client that goes away just now: the next one need not wait for the lease to run out.
            await self.unlock()
            raise

    async def _read_history(self, *, locks: bool) -> list[Item]:
        request = self._request
        if request.previous_response_id is not None and self._conversation is not None:
            raise InvalidRequest(
                "`previous_response_id` and `conversation` cannot be used together: each is a history.",
                param="conversation",
                code="mutually_exclusive_parameters",
            )
        if request.previous_response_id is not None:
            known = self._histories.get(request.previous_response_id) if self._histories is not None else ()
            self._history = known or await self._chain(request.previous_response_id)
            return await run_aside(partial(decode_items, *self._history), large=sum(map(len, self._history)) >= LARGE_BODY)
        assert self._conversation is not None
        return await self._read_conversation(self._conversation, locks=locks)

    async def _chain(self, previous: str) -> list[bytes]:
        links = await self._store.chain(self._owner, previous)
        if not links:
            raise InvalidRequest(
                f"Previous response with id {quoted(previous)} not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        if (gone := links[0].parent) is not None:
            if await self._store.was_deleted(self._owner, gone):
                raise InvalidRequest(
                    f"Response {gone!r} was deleted, so {previous!r}, which continues it, cannot be continued.",
                    param="previous_response_id",
                    code="previous_response_not_found",
                )
            self.notices = (f"the history begins with {links[0].id}: what came before it is no longer stored",)
        if links[-1].status in UNFINISHED:
            raise InvalidRequest(
                f"Previous response {previous!r} is still {links[-1].status}.",
                param="previous_response_id",
                code="previous_response_not_finished",
            )
        self._links = links
        return [kept for link in links for kept in (link.input, link.output)]

    async def _read_conversation(self, conversation: str, *, locks: bool) -> list[Item]:
        if locks:
            await self._lock(conversation)
        items = await self._store.conversation_items(self._owner, conversation)
        if items is None:
            raise _no_conversation(conversation)
        is_large = len(items) >= LARGE_HISTORY or sum(len(item.data) for item in items) >= LARGE_BODY
        return await run_aside(partial(stored_to_items, items), large=is_large)

    async def _lock(self, conversation: str) -> None:
        # A client that goes away meanwhile may have got the lock all the same.
        self._has_lock = True
        if await self._store.lock_conversation(self._owner, conversation, self.response_id, LEASE):
            return
        self._has_lock = False
        if await self._store.get_conversation(self._owner, conversation) is None:
            raise _no_conversation(conversation)
        raise Conflict(
            f"Another response is running in conversation {conversation!r}. Try again when it is done.",
            param="conversation",
            code="conversation_locked",
            retry_after=1,
        )

    async def _resolve(
        self, history: Sequence[Item], own: Sequence[Item], ids: Sequence[str], calls: Sequence[str]
    ) -> Sequence[Item]:
        """`ids`: of items that its own stand for. `calls`: whose stored items may have what the model read."""
        found = await self._find_items(ids) if ids else {}
        if calls:
            # Without the store, they are as they were sent.
            with contextlib.suppress(StoreUnavailable):
                found |= await self._find_items(calls)
        if not found and not ids:
            return own
        # In the request too, so that the exchange sees the same items.
        items = self._request.input = with_results(resolved(history, own, found), found)
        return items

    async def _find_items(self, ids: Sequence[str]) -> dict[str, Item]:
        found = self._histories.find_items(ids) if self._histories is not None else {}
        if others := [id for id in ids if id not in found]:
            stored = await self._store.find_items(self._owner, others)
            found |= await run_aside(partial(decode_found, stored), large=sum(map(len, stored.values())) >= LARGE_BODY)
        return found

    @property
    def _input(self) -> list[Item]:
        """Its own input as it is stored. Made only if it is: many clients store nothing, and send a long history each time."""
        if self._stored_input is None:
            kept = self._own if self._has_only_messages else items_to_keep(self._own)
            self._stored_input = items_to_stored_form(kept, new_id)
        return self._stored_input

    # ---- while it runs -----------------------------------------------------------------------------------------------

    def keep_lock(self) -> None:
        """Of its conversation, until `unlock()`, which has to follow however the response ends."""
        if self._has_lock:
            self._renewing = asyncio.create_task(self._renew())

    async def unlock(self) -> None:
        """Done even if its caller is cancelled meanwhile."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if self._has_lock and self._conversation is not None:
            self._has_lock = False
            await asyncio.shield(self._store.unlock_conversation(self._owner, self._conversation, self.response_id))

    async def _renew(self) -> None:
        assert self._conversation is not None
        while True:
            await asyncio.sleep(RENEWAL)
            await self._in_conversation(
                lambda owner, conversation: self._store.lock_conversation(owner, conversation, self.response_id, LEASE)
            )

    async def _in_conversation(self, change: Callable[[str, str], Awaitable[bool]]) -> bool:
        """A change as the owner of its conversation, which was its own owner when it began. If its key has got a name since
        then, the conversation has been given to that name, or will be. False: the conversation was deleted."""
        assert self._conversation is not None
        if await change(self._owner, self._conversation):
            return True
        owner = await self._store.owner_of(self._conversation)
        return owner is not None and await change(owner, self._conversation)

    # ---- at its end --------------------------------------------------------------------------------------------------

    async def record(self, response: Response, last: Sequence[AnyEvent]) -> None:
        """Durable when it returns: a client that sees the end of a response can continue it at once.

        `last` are its last events, which have not been sent yet.
        """
        stores = self._request.store is not False
        if self._links:
            await self._keep_history()
        if self._conversation is None:
            if stores:
                record = await self._to_record_aside(response) if self._has_large_input else self.to_record(response)
                await self._store.put(record)
                self._usage_stored()
                if self._owner in self._owners.moves:
                    await self._owners.catch_up(self._owner)
        elif not stores:
            await self._add_items(await self._new_items_aside(response))
        elif await self._store.put_and_unlock(await self._to_record_aside(response), await self._new_items_aside(response)):
            self._has_lock = False
            self._usage_stored()
        else:
            raise _conversation_lost()
        if self._histories is not None and response.status != "failed":
            own = await self._aside(lambda: (encode_items(self._input), encode_items(response.output)))
            self._histories.add(self.response_id, (*self._history, *own))

    def _usage_stored(self) -> None:
        if self.usage is not None:
            self.usage.stored()

    def given_up(self, model: str, pieces: int) -> None:
        if self.usage is not None:
            self.usage.given_up(model, pieces)

    async def _aside(self, work: Callable[[], T]) -> T:
        """What has to do with its own input takes as long as that is large."""
        return await run_aside(work, large=self._has_large_input)

    @property
    def _has_large_input(self) -> bool:
        return self._has_large_body or len(self._own) >= LARGE_HISTORY

    async def _add_items(self, items: Sequence[StoredItem]) -> None:
        expires_at = self._expires_at()
        if items and not await self._in_conversation(
            lambda owner, conversation: self._store.add_items(owner, conversation, items, expires_at)
        ):
            raise _conversation_lost()

    def _new_items(self, response: Response) -> list[StoredItem]:
        """What it adds to its conversation: nothing if it failed or was cancelled, because the client tries again."""
        if self._conversation is None or response.status not in ANSWERED:
            return []
        return items_to_stored([*self._input, *output_to_items(response.output)])

    async def _keep_history(self) -> None:
        """Responses that are continued are stored as long as the one that continues them, or nearly, whether it is stored or
        not."""
        if not self._links:
            return
        expires_at = self._expires_at()
        enough = expires_at - min(KEEPING_MARGIN, self._retention // 30)
        if early := [link.id for link in self._links if link.expires_at < enough]:
            # If this fails, the next response does it.
            with contextlib.suppress(StoreUnavailable):
                await self._store.keep_until(self._owner, early, expires_at)

    async def _to_record_aside(self, response: Response, output: bytes | None = None) -> Record:
        return await self._aside(partial(self.to_record, response, output))

    async def _new_items_aside(self, response: Response) -> list[StoredItem]:
        return await self._aside(partial(self._new_items, response))

    def to_record(self, response: Response, output: bytes | None = None) -> Record:
        """`output`: in place of its own."""
        own = self._input
        return Record(
            id=response.id,
            owner=self._owner,
            created_at=response.created_at,
            expires_at=int(time.time()) + self._retention,
            status=response.status,
            parent=self._request.previous_response_id,
            conversation=self._conversation,
            input=encode_items(own),
            input_ids=findable_ids(own),
            output=encode_items(response.output) if output is None else output,
            settings=encode_settings(response),
            background=response.background,
            usage=self.usage.entry(response) if self.usage is not None else None,
            output_ids=ids_of_messages(response.output) if output is None else None,
        )

    def _expires_at(self) -> int:
        return int(time.time()) + self._retention


class NoRecorder:
    """Of a response that is neither continued nor stored."""

    begun_calls: Sequence[ToolCall] = ()

    async def begin_call(self, call: ToolCall) -> bool:
        return True

    async def record(self, response: Response, last: Sequence[AnyEvent]) -> None: ...

    def given_up(self, model: str, pieces: int) -> None: ...

    def keep_lock(self) -> None: ...

    async def unlock(self) -> None: ...


def ids_of_messages(output: Sequence[OutputItem]) -> list[str] | None:
    """By which they can be found. None: there are other items, some of which may not be found."""
    return [item.id for item in output] if {OutputMessage}.issuperset(map(type, output)) else None


def items_to_keep(items: Sequence[Item]) -> list[Item]:
    """Without those that concern this request only, and those that stand for another item, which is kept itself."""
    if types_of(items) <= MESSAGES:
        return list(items)
    return [item for item in whole_items(items) if item.get("type") not in NOT_STORED]


def _no_conversation(id: str) -> NotFound:
    return NotFound(f"Conversation with id {quoted(id)} not found.", param="conversation", code="conversation_not_found")


def _conversation_lost() -> Conflict:
    return Conflict("The conversation was deleted, or another response locked it.", code="conversation_locked")
