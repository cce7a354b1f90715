"""What one response reads from the store, and what it leaves there."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, structs

from antiphon.core.history import items_to_kept, kept_to_items
from antiphon.core.request import conversation_of
from antiphon.errors import Conflict, InvalidRequest, NotFound
from antiphon.gateway.ids import new_id
from antiphon.gateway.recent_histories import Memory
from antiphon.settings import Settings
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Record
from antiphon.store.records import Item as StoredItem
from antiphon.wire.responses import CreateResponse, OutputItem, Response

Item = dict[str, Any]

DAY = 24 * 60 * 60
# A turn in a conversation is held for so long, in seconds, and held longer while it lasts: a gateway that dies locks nobody out
# for long.
LEASE = 60.0
RENEWED = 20.0


class Keeper:
    """Of one response: `read()` what it continues, be `holding()` while it runs, and `keep()` it before its last event."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        owner: str,
        request: CreateResponse,
        response_id: str,
        memory: Memory | None = None,
    ) -> None:
        """`memory`: what the connection remembers, which is looked at before the store."""
        self._store = store
        self._owner = owner
        self._retention = int(settings.retention_days * DAY)
        self._request = request
        self.response_id = response_id
        self.created_at = int(time.time())
        self._conversation = conversation_of(request)
        self._own: Sequence[Item] = ()
        self._held = False
        self._memory = memory
        self._history: Sequence[bytes] = ()

    # ---- before it runs ----------------------------------------------------------------------------------------------

    async def read(self, own: Sequence[Item], *, takes_turn: bool = True) -> list[Item]:
        """The items that came before its own input. `takes_turn`: in its conversation no other response is made meanwhile."""
        request = self._request
        self._own = own
        if request.previous_response_id is not None and self._conversation is not None:
            raise InvalidRequest(
                "`previous_response_id` and `conversation` exclude one another: each is a history.", param="conversation"
            )
        if request.previous_response_id is not None:
            known = self._memory.history(request.previous_response_id) if self._memory is not None else ()
            self._history = known or await self._chain(request.previous_response_id)
            return kept_to_items(self._history)
        if self._conversation is not None:
            if takes_turn:
                await self._take_turn(self._conversation)
            items = await self._store.conversation_items(self._owner, self._conversation)
            if items is None:
                raise _no_conversation(self._conversation)
            return [msgspec.json.decode(item.data) for item in items]
        return []

    async def _chain(self, previous: str) -> list[bytes]:
        links = await self._store.chain(self._owner, previous)
        if not links:
            raise InvalidRequest(
                f"Previous response with id {previous!r} not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        if links[-1].status in UNFINISHED:
            raise InvalidRequest(
                f"Previous response {previous!r} is still {links[-1].status}.",
                param="previous_response_id",
                code="previous_response_not_finished",
            )
        return [kept for link in links for kept in (link.input, link.output)]

    async def _take_turn(self, conversation: str) -> None:
        if not await self._store.lock_conversation(self._owner, conversation, self.response_id, LEASE):
            if await self._store.get_conversation(self._owner, conversation) is None:
                raise _no_conversation(conversation)
            raise Conflict(
                f"Another response is being made in conversation {conversation!r}. Try again when it is done.",
                param="conversation",
                code="conversation_locked",
                retry_after=1,
            )
        self._held = True

    @cached_property
    def _input(self) -> list[Item]:
        """Its own input as it is kept. Much of what is asked keeps nothing, and sends a long history each time."""
        return items_to_kept(self._own, new_id)

    # ---- while it runs -----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def holding(self) -> AsyncIterator[None]:
        """Keeps the turn in its conversation, and gives it back however the response ended."""
        renewing = asyncio.create_task(self._renew()) if self._held else None
        try:
            yield
        finally:
            if renewing is not None:
                renewing.cancel()
            await self.release()

    async def release(self) -> None:
        if self._held and self._conversation is not None:
            self._held = False
            await self._store.unlock_conversation(self._owner, self._conversation, self.response_id)

    async def _renew(self) -> None:
        assert self._conversation is not None
        while True:
            await asyncio.sleep(RENEWED)
            await self._store.lock_conversation(self._owner, self._conversation, self.response_id, LEASE)

    # ---- at its end --------------------------------------------------------------------------------------------------

    async def keep(self, response: Response, last: Sequence[bytes]) -> None:
        """Durable when it returns: whoever hears of the end of a response can continue it at once.

        `last` are its last events, of which nobody has been told yet.
        """
        stores = self._request.store is not False
        if self._conversation is None:
            if stores:
                await self._store.put(self.record(response))
        elif not stores:
            await self._store.add_items(self._owner, self._conversation, self._said(response), self._expires_at())
        elif await self._store.put_and_unlock(self.record(response), self._said(response)):
            self._held = False
        else:
            raise Conflict("The conversation is gone, or another response took its turn.", code="conversation_locked")
        if self._memory is not None and response.status != "failed":
            self._memory.remember(
                self.response_id, (*self._history, msgspec.json.encode(self._input), msgspec.json.encode(response.output))
            )

    def _said(self, response: Response) -> list[StoredItem]:
        """What it adds to its conversation."""
        output = _items(msgspec.json.encode(response.output))
        return [StoredItem(item["id"], msgspec.json.encode(item)) for item in [*self._input, *output]]

    def record(self, response: Response) -> Record:
        return Record(
            id=response.id,
            owner=self._owner,
            created_at=response.created_at,
            expires_at=self._expires_at(),
            status=response.status,
            parent=self._request.previous_response_id,
            conversation=self._conversation,
            input=msgspec.json.encode(self._input),
            output=msgspec.json.encode(response.output),
            settings=msgspec.json.encode(structs.replace(response, output=[], output_text=UNSET)),
            background=response.background,
        )

    def _expires_at(self) -> int:
        return int(time.time()) + self._retention


def _no_conversation(id: str) -> NotFound:
    return NotFound(f"Conversation with id {id!r} not found.", param="conversation", code="conversation_not_found")


def _items(encoded: bytes) -> list[Item]:
    decoded: list[Item] = msgspec.json.decode(encoded)
    return decoded


def record_to_response(record: Record) -> Response:
    """The response object as it was, with the status as it is."""
    response = msgspec.json.decode(record.settings, type=Response)
    response.status = record.status
    response.output = msgspec.json.decode(record.output, type=list[OutputItem])
    return response
