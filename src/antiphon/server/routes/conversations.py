"""Conversations: created, retrieved, updated and deleted, and their items."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aiohttp import web
from msgspec import Struct

from antiphon.core.protocols.responses.fields import RequestLimits, check_items
from antiphon.gateway.limits.threads import LARGE_BODY, freed_aside, run_aside
from antiphon.gateway.state.record_format import stored_to_items
from antiphon.server.answers import notice_header, to_json
from antiphon.server.bodies import Bodies
from antiphon.server.pages import query_to_page, to_list, to_whole_list
from antiphon.server.parts import APP, owner_seen
from antiphon.server.request_state import OWNER
from antiphon.server.routes.views import View, query_to_view
from antiphon.store.records import Item as StoredItem
from antiphon.wire.input_items import Item
from antiphon.wire.responses import Metadata


class CreateConversation(Struct):
    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class UpdateConversation(Struct):
    metadata: Metadata


class CreateItems(Struct):
    items: list[dict[str, Any]]


def _check(body: CreateConversation | CreateItems, limits: RequestLimits) -> None:
    check_items(body.items or (), "items", limits)


async def create(request: web.Request, bodies: Bodies) -> web.Response:
    body, _, large = await bodies.read_fields(request, CreateConversation, _check)
    items = body.items or []
    async with freed_aside(items, large=large):
        created = await request.app[APP].resources.conversations.create(request[OWNER], items, body.metadata or {}, large=large)
    return to_json(created.conversation, notice_header(created.notices))


async def retrieve(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    return to_json(await request.app[APP].resources.conversations.get(await owner_seen(request, id), id))


async def update(request: web.Request, bodies: Bodies) -> web.Response:
    body = (await bodies.read_fields(request, UpdateConversation)).value
    return to_json(
        await request.app[APP].resources.conversations.update(request[OWNER], request.match_info["id"], body.metadata)
    )


async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    await request.app[APP].resources.conversations.delete(await owner_seen(request, id), id)
    return to_json({"id": id, "object": "conversation.deleted", "deleted": True})


# ---- items -----------------------------------------------------------------------------------------------------------


async def create_items(request: web.Request, bodies: Bodies) -> web.Response:
    view = query_to_view(request)
    body, _, large = await bodies.read_fields(request, CreateItems, _check)
    conversations, id = request.app[APP].resources.conversations, request.match_info["id"]
    async with freed_aside(body.items, large=large):
        added = await conversations.add_items(request[OWNER], id, body.items, large=large)
    return await _shown(added.items, view, to_whole_list, added.notices)


async def list_items(request: web.Request) -> web.Response:
    page, view, id = query_to_page(request.query), query_to_view(request), request.match_info["id"]
    items = await request.app[APP].resources.conversations.list_items(
        await owner_seen(request, id),
        id,
        after=page.after,
        before=page.before,
        limit=page.limit + 1,
        ascending=page.ascending,
    )
    return await _shown(items, view, partial(to_list, page=page))


async def retrieve_item(request: web.Request) -> web.Response:
    view, id, item_id = query_to_view(request), request.match_info["id"], request.match_info["item_id"]
    item = await request.app[APP].resources.conversations.get_item(await owner_seen(request, id), id, item_id)
    return await _shown([item], view, lambda items: items[0])


async def delete_item(request: web.Request) -> web.Response:
    """The conversation without it is the answer."""
    id, item_id = request.match_info["id"], request.match_info["item_id"]
    await request.app[APP].resources.conversations.delete_item(await owner_seen(request, id), id, item_id)
    return await retrieve(request)


async def _shown(
    stored: Sequence[StoredItem], view: View, arrange: Callable[[list[Item]], Item], notices: Sequence[str] = ()
) -> web.Response:
    """The answer that shows stored items. `arrange`: the list, or what else it is made of them."""

    def answer() -> web.Response:
        shown = arrange(view.items(stored_to_items(stored)))
        return to_json(shown, notice_header([*notices, *view.notices]))

    return await run_aside(answer, large=sum(len(item.data) for item in stored) >= LARGE_BODY)
