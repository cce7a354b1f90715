"""Stored responses: fetched, deleted, cancelled, and their input items."""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest, NotFound, quoted
from antiphon.gateway.background.followers import ended
from antiphon.gateway.background.progress import current_response, is_large_record
from antiphon.gateway.limits.threads import LARGE_BODY, run_aside
from antiphon.gateway.state.record_format import decode_items
from antiphon.server.answers import to_json
from antiphon.server.pages import cut, query_to_page, to_list
from antiphon.server.parts import APP, owner_seen
from antiphon.server.routes.responses import answer_followed
from antiphon.server.routes.views import ALL_AS_STORED, View, query_to_view
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Cancellation, Record
from antiphon.wire.responses import Response

T = TypeVar("T")

# No event has a higher number, and no database takes every number that a client can write.
LAST_NUMBER = 2**53
# How long a running response may take to end after it was cancelled, in seconds.
CANCEL_TIMEOUT = 5.0

AS_STORED = "include_obfuscation was ignored: stored events are sent as they were made"


class RetrieveQuery(Struct):
    """The query of GET /v1/responses/{id}."""

    stream: bool = False
    # The number of the last event that the client has.
    starting_after: Annotated[int, Meta(ge=0, le=LAST_NUMBER)] | None = None
    include_obfuscation: bool | None = None


async def retrieve(request: web.Request) -> web.StreamResponse:
    query, view = convert_strings(dict(request.query), RetrieveQuery), query_to_view(request)
    # The events have the output too.
    record = await _record(request, output=not query.stream)
    if not query.stream:
        return await _shown(record, view, await _current(request, record))
    if not record.background:
        raise InvalidRequest("Only a background response can be streamed again.", param="stream", code="unsupported_value")
    after = -1 if query.starting_after is None else query.starting_after
    notices = [] if query.include_obfuscation is None else [AS_STORED]
    return await answer_followed(request, record, after, notices, view)


async def delete(request: web.Request) -> web.Response:
    store, record = request.app[APP].gateway.store, await _record(request)
    await _cancel(request, record)
    if not await _as_owner(store, record, store.delete, gone=False):
        raise _not_found(record.id)
    return to_json({"id": record.id, "object": "response", "deleted": True})


async def cancel(request: web.Request) -> web.Response:
    record = await _record(request)
    if not record.background:
        raise InvalidRequest("Only a background response can be cancelled.", code="not_a_background_response")
    return await _shown(record, ALL_AS_STORED, await _current(request, await _cancel(request, record)))


async def _shown(record: Record, view: View, response: Response) -> web.Response:
    def answer() -> web.Response:
        shown = view.response(response)
        return to_json(shown, view.headers)

    return await run_aside(answer, large=is_large_record(record))


async def _cancel(request: web.Request, record: Record) -> Record:
    """The response when it has ended: cancelled if it still ran. If its worker is gone, as it is."""
    if record.status not in UNFINISHED:
        return record
    store, webhooks = request.app[APP].gateway.store, request.app[APP].gateway.webhooks

    def cancel_as(owner: str, id: str) -> Awaitable[Cancellation]:
        return store.cancel(owner, id, webhooks.messages("response.cancelled", id, owner, time.time()))

    await _as_owner(store, record, cancel_as, gone="unknown")
    ended_as = await ended(store, record.owner, record.id, CANCEL_TIMEOUT)
    if ended_as is None:
        raise _not_found(record.id)
    return ended_as


async def _as_owner(store: Store, record: Record, act: Callable[[str, str], Awaitable[T]], *, gone: T) -> T:
    """Does something to a response that was read before: the owner's key may have got a name since. `gone`: what is returned
    for one that the owner does not have."""
    done = await act(record.owner, record.id)
    if done == gone and (owner := await store.owner_of(record.id)) is not None:
        return await act(owner, record.id)
    return done


async def input_items(request: web.Request) -> web.Response:
    page, view = query_to_page(request.query), query_to_view(request)
    stored = (await _record(request, output=False)).input

    def answer() -> web.Response:
        shown = to_list(view.items(cut(decode_items(stored), page)), page)
        return to_json(shown, view.headers)

    return await run_aside(answer, large=len(stored) >= LARGE_BODY)


async def _current(request: web.Request, record: Record) -> Response:
    response = await current_response(request.app[APP].gateway.store, record)
    if response is None:
        raise _not_found(record.id)
    return response


async def _record(request: web.Request, *, output: bool = True) -> Record:
    id = request.match_info["id"]
    record = await request.app[APP].gateway.store.get(await owner_seen(request, id), id, output=output)
    if record is None:
        raise _not_found(id)
    return record


def _not_found(id: str) -> NotFound:
    return NotFound(f"Response with id {quoted(id)} not found.", code="response_not_found")
