"""Conversations: created, retrieved, updated and deleted, and their items."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from antiphon.core.history import items_to_kept
from antiphon.core.validation import body_to_struct
from antiphon.errors import InvalidRequest, NotFound
from antiphon.gateway.ids import new_id
from antiphon.gateway.recorder import DAY
from antiphon.http.answers import to_json
from antiphon.http.middlewares import OWNER
from antiphon.http.pages import query_to_page, to_list
from antiphon.http.responses import GATEWAY
from antiphon.http.views import query_to_view
from antiphon.store.records import Conversation, Item
from antiphon.wire.responses import Metadata

MOST_ITEMS = 20


class CreateConversation(Struct):
    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class UpdateConversation(Struct):
    metadata: Metadata


class CreateItems(Struct):
    items: list[dict[str, Any]]


async def create(request: web.Request) -> web.Response:
    asked = body_to_struct(await request.read() or b"{}", CreateConversation)
    now = int(time.time())
    conversation = Conversation(
        id=new_id("conv"),
        owner=request[OWNER],
        created_at=now,
        expires_at=_expires_at(request),
        metadata=msgspec.json.encode(asked.metadata or {}),
    )
    await request.app[GATEWAY].store.create_conversation(conversation, _to_stored(asked.items or ()))
    return to_json(_shown(conversation))


async def retrieve(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    conversation = await request.app[GATEWAY].store.get_conversation(request[OWNER], id)
    if conversation is None:
        raise _not_found(id)
    return to_json(_shown(conversation))


async def update(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    asked = body_to_struct(await request.read(), UpdateConversation)
    metadata = msgspec.json.encode(asked.metadata)
    conversation = await request.app[GATEWAY].store.set_metadata(request[OWNER], id, metadata)
    if conversation is None:
        raise _not_found(id)
    return to_json(_shown(conversation))


async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    if not await request.app[GATEWAY].store.delete_conversation(request[OWNER], id):
        raise _not_found(id)
    return to_json({"id": id, "object": "conversation.deleted", "deleted": True})


# ---- items -----------------------------------------------------------------------------------------------------------


async def create_items(request: web.Request) -> web.Response:
    id, view = request.match_info["id"], query_to_view(request)
    asked = body_to_struct(await request.read(), CreateItems)
    items = _to_stored(asked.items)
    if not await request.app[GATEWAY].store.add_items(request[OWNER], id, items, _expires_at(request)):
        raise _not_found(id)
    shown = view.items([msgspec.json.decode(item.data) for item in items])
    return to_json({
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": False,
    })  # fmt: skip


async def list_items(request: web.Request) -> web.Response:
    id, page, view = request.match_info["id"], query_to_page(request.query), query_to_view(request)
    items = await request.app[GATEWAY].store.list_items(
        request[OWNER], id, after=page.after, before=page.before, limit=page.limit + 1, ascending=page.ascending
    )
    if items is None:
        raise _not_found(id)
    return to_json(to_list(view.items([msgspec.json.decode(item.data) for item in items]), page))


async def retrieve_item(request: web.Request) -> web.Response:
    id, item_id, view = request.match_info["id"], request.match_info["item_id"], query_to_view(request)
    item = await request.app[GATEWAY].store.get_item(request[OWNER], id, item_id)
    if item is None:
        raise NotFound(f"Item with id {item_id!r} not found in conversation {id!r}.", code="item_not_found")
    return to_json(view.item(msgspec.json.decode(item.data)))


async def delete_item(request: web.Request) -> web.Response:
    """The conversation without it is the answer."""
    id, item_id = request.match_info["id"], request.match_info["item_id"]
    if not await request.app[GATEWAY].store.delete_item(request[OWNER], id, item_id):
        raise NotFound(f"Item with id {item_id!r} not found in conversation {id!r}.", code="item_not_found")
    return await retrieve(request)


def _to_stored(items: Sequence[dict[str, Any]]) -> list[Item]:
    if len(items) > MOST_ITEMS:
        raise InvalidRequest(f"Invalid `items`: at most {MOST_ITEMS} can be added at a time.", param="items")
    for at, item in enumerate(items):
        if "type" not in item and "role" not in item:
            raise InvalidRequest(
                f"Invalid `items[{at}].type`: an item needs a `type`, or a `role` for a message.", param=f"items[{at}].type"
            )
    return [Item(item["id"], msgspec.json.encode(item)) for item in items_to_kept(items, new_id)]


def _expires_at(request: web.Request) -> int:
    return int(time.time() + request.app[GATEWAY].settings.retention_days * DAY)


def _shown(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": msgspec.json.decode(conversation.metadata),
    }


def _not_found(id: str) -> NotFound:
    return NotFound(f"Conversation with id {id!r} not found.", code="conversation_not_found")
