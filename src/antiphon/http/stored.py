"""Stored responses: fetched, deleted, cancelled, and what went into them."""

from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from antiphon.background.following import ended
from antiphon.background.progress import as_it_is
from antiphon.core.checking import convert_strings
from antiphon.errors import InvalidRequest, NotFound
from antiphon.http.answers import to_json
from antiphon.http.middlewares import OWNER
from antiphon.http.paging import cut, query_to_page, to_list
from antiphon.http.responses import GATEWAY, followed
from antiphon.store.records import UNFINISHED, Record

# How long a running response may take to end, in seconds, once that has been asked for.
CANCELLING = 5.0


class Watching(Struct):
    """The query of one that is fetched."""

    stream: bool = False
    # The number of the last event that is known.
    starting_after: Annotated[int, Meta(ge=0)] | None = None


async def retrieve(request: web.Request) -> web.StreamResponse:
    record = await _record(request)
    query = convert_strings(dict(request.query), Watching)
    if not query.stream:
        return await _shown(request, record)
    if not record.background:
        raise InvalidRequest("Only a response that was made in the background can be streamed again.", param="stream")
    return await followed(request, record, -1 if query.starting_after is None else query.starting_after)


async def delete(request: web.Request) -> web.Response:
    record = await _record(request)
    await _cancel(request, record)
    if not await request.app[GATEWAY].store.delete(request[OWNER], record.id):
        raise _not_found(record.id)
    return to_json({"id": record.id, "object": "response", "deleted": True})


async def cancel(request: web.Request) -> web.Response:
    record = await _record(request)
    if not record.background:
        raise InvalidRequest(
            "Only a response that is made in the background can be cancelled.", code="not_a_background_response"
        )
    return await _shown(request, await _cancel(request, record))


async def _cancel(request: web.Request, record: Record) -> Record:
    """The response when it is over: cancelled if it was not before. One whose worker is gone is shown as it is."""
    if record.status not in UNFINISHED:
        return record
    store, owner = request.app[GATEWAY].store, request[OWNER]
    await store.cancel(owner, record.id)
    ended_as = await ended(store, owner, record.id, CANCELLING)
    if ended_as is None:
        raise _not_found(record.id)
    return ended_as


async def input_items(request: web.Request) -> web.Response:
    page = query_to_page(request.query)
    items: list[dict[str, Any]] = msgspec.json.decode((await _record(request)).input)
    return to_json(to_list(cut(items, page), page))


async def _shown(request: web.Request, record: Record) -> web.Response:
    response = await as_it_is(request.app[GATEWAY].store, record)
    if response is None:
        raise _not_found(record.id)
    return to_json(response)


async def _record(request: web.Request) -> Record:
    id = request.match_info["id"]
    record = await request.app[GATEWAY].store.get(request[OWNER], id)
    if record is None:
        raise _not_found(id)
    return record


def _not_found(id: str) -> NotFound:
    return NotFound(f"Response with id {id!r} not found.", code="response_not_found")
