"""Stored responses: fetched, deleted, cancelled, and what went into them."""

from typing import Any

import msgspec
from aiohttp import web

from antiphon.errors import InvalidRequest, NotFound
from antiphon.http.answers import to_json
from antiphon.http.middlewares import OWNER
from antiphon.http.paging import cut, query_to_page, to_list
from antiphon.http.responses import GATEWAY
from antiphon.keeping import record_to_response
from antiphon.store.records import Record


async def retrieve(request: web.Request) -> web.Response:
    record = await _record(request)
    if request.query.get("stream") == "true":
        raise InvalidRequest("Only a response that was made in the background can be streamed again.", param="stream")
    return to_json(record_to_response(record))


async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    if not await request.app[GATEWAY].store.delete(request[OWNER], id):
        raise _not_found(id)
    return to_json({"id": id, "object": "response", "deleted": True})


async def cancel(request: web.Request) -> web.Response:
    await _record(request)
    raise InvalidRequest("Only a response that is made in the background can be cancelled.", code="not_a_background_response")


async def input_items(request: web.Request) -> web.Response:
    page = query_to_page(request.query)
    items: list[dict[str, Any]] = msgspec.json.decode((await _record(request)).input)
    return to_json(to_list(cut(items, page), page))


async def _record(request: web.Request) -> Record:
    id = request.match_info["id"]
    record = await request.app[GATEWAY].store.get(request[OWNER], id)
    if record is None:
        raise _not_found(id)
    return record


def _not_found(id: str) -> NotFound:
    return NotFound(f"Response with id {id!r} not found.", code="response_not_found")
