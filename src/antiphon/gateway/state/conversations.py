"""Conversations and their items, as the API has them."""

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from antiphon.core.checks.work import NO_SUCH_FILE
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.stored_form import (
    check_items,
    ids_without_results,
    items_to_stored_form,
    needs_items_before,
    with_results,
)
from antiphon.core.protocols.responses.references import is_reference, stands_for
from antiphon.errors import InvalidRequest, NotFound, quoted
from antiphon.files.file_inputs import NOT_THERE
from antiphon.files.library import FileLibrary
from antiphon.gateway.limits.threads import LARGE_BODY, LARGE_HISTORY, run_aside
from antiphon.gateway.state.record_format import (
    decode_found,
    decode_metadata,
    encode_metadata,
    items_to_stored,
    stored_to_items,
)
from antiphon.ids import new_id
from antiphon.store.protocol import Store
from antiphon.store.records import Conversation as StoredConversation
from antiphon.store.records import Item as StoredItem
from antiphon.wire.input_items import Item

# How many items can be added at once.
MOST_ITEMS = 20


class Created(NamedTuple):
    conversation: Item
    notices: Sequence[str]


class Added(NamedTuple):
    items: list[StoredItem]
    notices: Sequence[str]


class Conversations:
    """The conversations of every owner. What belongs to another owner is not found."""

    def __init__(self, store: Store, *, retention: int, files: FileLibrary, fetches: bool = False) -> None:
        """`retention`: how long a conversation is stored after its last change, in seconds. `files`: those that items may
        name. `fetches`: items may name addresses, too."""
        self._store = store
        self._files = files
        self._fetches = fetches
        self._retention = retention

    async def create(self, owner: str, items: Sequence[Item], metadata: dict[str, str], *, large: bool = False) -> Created:
        """`large`: the work on these items is done in a thread."""
        conversation = StoredConversation(
            id=new_id("conv"),
            owner=owner,
            created_at=int(time.time()),
            expires_at=self._expires_at(),
            metadata=encode_metadata(metadata),
        )
        _check_count(items)
        items = await self._with_thoughts(owner, items)
        notices = await self._check(owner, items, large=large)
        stored = await run_aside(partial(_to_stored, items), large=large)
        await self._store.create_conversation(conversation, stored)
        return Created(_to_object(conversation), notices)

    async def get(self, owner: str, id: str) -> Item:
        conversation = await self._store.get_conversation(owner, id)
        if conversation is None:
            raise _not_found(id)
        return _to_object(conversation)

    async def update(self, owner: str, id: str, metadata: dict[str, str]) -> Item:
        conversation = await self._store.set_metadata(owner, id, encode_metadata(metadata))
        if conversation is None:
            raise _not_found(id)
        return _to_object(conversation)

    async def delete(self, owner: str, id: str) -> None:
        if not await self._store.delete_conversation(owner, id):
            raise _not_found(id)

    # ---- items -------------------------------------------------------------------------------------------------------

    async def add_items(self, owner: str, id: str, items: Sequence[Item], *, large: bool = False) -> Added:
        """The items as they are stored: each with an id and a type. `large`: the work on them is done in a thread."""
        _check_count(items)
        items = await self._with_thoughts(owner, items)
        before = await self._stored_before(owner, id, items)
        notices = await self._check(owner, items, before, large=large)
        stored = await run_aside(partial(_to_stored, items), large=large)
        if not await self._store.add_items(owner, id, stored, self._expires_at()):
            raise _not_found(id)
        return Added(stored, notices)

    async def _check(
        self, owner: str, items: Sequence[Item], before: Sequence[StoredItem] = (), *, large: bool
    ) -> Sequence[str]:
        """Raises for items that cannot be stored, and for uploaded files that are not there."""
        documents = Documents(fetches=self._fetches)
        is_long = len(before) >= LARGE_HISTORY or sum(len(item.data) for item in before) >= LARGE_BODY
        notices = await run_aside(partial(_check_after, before, items, documents), large=large or is_long)
        found = await self._files.find(owner, documents.sent_files)
        for id, where in documents.sent_files.items():
            if id not in found:
                raise InvalidRequest(f"`{where}` cannot be used: {NOT_THERE}.", param=where, code=NO_SUCH_FILE)
        return notices

    async def _with_thoughts(self, owner: str, items: Sequence[Item]) -> Sequence[Item]:
        """Reasoning that is only an id gets its text, if that is stored anywhere; calls get what the model read of them."""
        thoughts = [id for item in items if not is_reference(item) and (id := stands_for(item)) is not None]
        ids = [*thoughts, *ids_without_results(items)]
        if not ids:
            return items
        stored = await self._store.find_items(owner, ids)
        found = await run_aside(partial(decode_found, stored), large=sum(map(len, stored.values())) >= LARGE_BODY)
        whole = [item if is_reference(item) else found.get(stands_for(item) or "", item) for item in items]
        return with_results(whole, found)

    async def _stored_before(self, owner: str, id: str, items: Sequence[Item]) -> Sequence[StoredItem]:
        """The items that the new ones may belong to: a conversation is read only for the output of a call."""
        if not needs_items_before(items):
            return []
        stored = await self._store.conversation_items(owner, id)
        if stored is None:
            raise _not_found(id)
        return stored

    async def list_items(
        self, owner: str, id: str, *, after: str | None, before: str | None, limit: int, ascending: bool
    ) -> Sequence[StoredItem]:
        items = await self._store.list_items(owner, id, after=after, before=before, limit=limit, ascending=ascending)
        if items is None:
            raise _not_found(id)
        return items

    async def get_item(self, owner: str, id: str, item_id: str) -> StoredItem:
        item = await self._store.get_item(owner, id, item_id)
        if item is None:
            raise _item_not_found(id, item_id)
        return item

    async def delete_item(self, owner: str, id: str, item_id: str) -> None:
        if not await self._store.delete_item(owner, id, item_id):
            raise _item_not_found(id, item_id)

    def _expires_at(self) -> int:
        return int(time.time()) + self._retention


def _check_count(items: Sequence[Item]) -> None:
    if len(items) > MOST_ITEMS:
        raise InvalidRequest(
            f"Invalid `items`: at most {MOST_ITEMS} can be added at a time.", param="items", code="array_above_max_length"
        )


def _check_after(before: Sequence[StoredItem], items: Sequence[Item], documents: Documents) -> Sequence[str]:
    return check_items(items, before=stored_to_items(before), documents=documents)


def _to_stored(items: Sequence[Item]) -> list[StoredItem]:
    return items_to_stored(items_to_stored_form(items, new_id))


def _to_object(conversation: StoredConversation) -> Item:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": decode_metadata(conversation.metadata),
    }


def _not_found(id: str) -> NotFound:
    return NotFound(f"Conversation with id {quoted(id)} not found.", code="conversation_not_found")


def _item_not_found(id: str, item_id: str) -> NotFound:
    return NotFound(f"Item with id {quoted(item_id)} not found in conversation {quoted(id)}.", code="item_not_found")
