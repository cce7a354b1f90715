"""/v1/batches: files of requests that are worked through on what people leave of the engines."""

from typing import Any

from aiohttp import web

from antiphon.ids import ADMIN
from antiphon.server.answers import to_json
from antiphon.server.bodies import Bodies
from antiphon.server.pages import query_to_page
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.store.sql.listings import RowPage
from antiphon.wire.batches import CreateBatch


async def create(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CreateBatch)
    return to_json(await request.app[APP].resources.batches.create(request[OWNER], body), notices)


async def retrieve(request: web.Request) -> web.Response:
    return to_json(await request.app[APP].resources.batches.get(await owner_seen(request), request.match_info["id"]))


async def cancel(request: web.Request) -> web.Response:
    return to_json(await request.app[APP].resources.batches.cancel(await owner_seen(request), request.match_info["id"]))


async def list_batches(request: web.Request) -> web.Response:
    page = query_to_page({name: value for name, value in request.query.items() if name in ("after", "limit")})
    listed = await request.app[APP].resources.batches.list(request[OWNER], RowPage(page.after, None, page.limit))
    shown: list[Any] = listed.batches
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    return to_json({"object": "list", "data": shown, "first_id": first, "last_id": last, "has_more": listed.has_more})


async def owner_seen(request: web.Request) -> str:
    """Whose batches a request may read and cancel: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    if owner != ADMIN:
        return owner
    return await request.app[APP].resources.batches.owner_of(request.match_info["id"]) or owner
