"""Conversations: created, retrieved, updated and deleted, and their items."""

from typing import Any

from aiohttp import web
from msgspec import Struct

from antiphon.core.limits import check_items
from antiphon.core.validation import body_to_struct
from antiphon.http.answers import notice_header, to_json
from antiphon.http.app_keys import CONVERSATIONS, GATEWAY
from antiphon.http.middlewares import OWNER, owner_seen
from antiphon.http.pages import query_to_page, to_list, to_whole_list
from antiphon.http.views import query_to_view
from antiphon.wire.responses import Metadata


class CreateConversation(Struct):
    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class UpdateConversation(Struct):
    metadata: Metadata


class CreateItems(Struct):
    items: list[dict[str, Any]]


async def create(request: web.Request) -> web.Response:
    limits = request.app[GATEWAY].environment.limits
    body = body_to_struct(await request.read() or b"{}", CreateConversation, limits)
    check_items(body.items or (), "items", limits)
    created = await request.app[CONVERSATIONS].create(request[OWNER], body.items or (), body.metadata or {})
    return to_json(created.conversation, notice_header(created.notices))


async def retrieve(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    return to_json(await request.app[CONVERSATIONS].get(await owner_seen(request, id), id))


async def update(request: web.Request) -> web.Response:
    body = body_to_struct(await request.read(), UpdateConversation, request.app[GATEWAY].environment.limits)
    return to_json(await request.app[CONVERSATIONS].update(request[OWNER], request.match_info["id"], body.metadata))


async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    await request.app[CONVERSATIONS].delete(await owner_seen(request, id), id)
    return to_json({"id": id, "object": "conversation.deleted", "deleted": True})


# ---- items -----------------------------------------------------------------------------------------------------------


async def create_items(request: web.Request) -> web.Response:
    view, limits = query_to_view(request), request.app[GATEWAY].environment.limits
    body = body_to_struct(await request.read(), CreateItems, limits)
    check_items(body.items, "items", limits)
    added = await request.app[CONVERSATIONS].add_items(request[OWNER], request.match_info["id"], body.items)
    shown = view.items(added.items)
    return to_json(to_whole_list(shown), notice_header([*added.notices, *view.notices]))


async def list_items(request: web.Request) -> web.Response:
    page, view, id = query_to_page(request.query), query_to_view(request), request.match_info["id"]
    items = await request.app[CONVERSATIONS].list_items(
        await owner_seen(request, id),
        id,
        after=page.after,
        before=page.before,
        limit=page.limit + 1,
        ascending=page.ascending,
    )
    return to_json(to_list(view.items(items), page), view.headers)


async def retrieve_item(request: web.Request) -> web.Response:
    view, id, item_id = query_to_view(request), request.match_info["id"], request.match_info["item_id"]
    item = view.item(await request.app[CONVERSATIONS].get_item(await owner_seen(request, id), id, item_id))
    return to_json(item, view.headers)


async def delete_item(request: web.Request) -> web.Response:
    """The conversation without it is the answer."""
    id, item_id = request.match_info["id"], request.match_info["item_id"]
    await request.app[CONVERSATIONS].delete_item(await owner_seen(request, id), id, item_id)
    return await retrieve(request)
