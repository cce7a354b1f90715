"""/v1/messages/batches: the same in Anthropic's form. The requests come in one body, and the results are one file."""

from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta, Struct

from antiphon.core.protocols.responses.read import convert_strings
from antiphon.errors import InvalidRequest, NotFound, quoted
from antiphon.server.answers import to_json
from antiphon.server.bodies import Bodies
from antiphon.server.pages import to_timestamp
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER
from antiphon.server.routes.bulk.batches import owner_seen
from antiphon.server.routes.files import send
from antiphon.store.files.batches import UNFINISHED
from antiphon.store.files.records import RequestBatch
from antiphon.store.sql.listings import RowPage
from antiphon.wire.batches import CreateMessageBatch, MessageBatch, MessageCounts


class BatchPage(Struct, frozen=True):
    after_id: str | None = None
    before_id: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


async def create(request: web.Request, bodies: Bodies) -> web.Response:
    body, notices, _ = await bodies.read_fields(request, CreateMessageBatch)
    batch = await request.app[APP].resources.batches.create_messages(request[OWNER], body.requests)
    return to_json(_shown(request, batch), notices)


async def retrieve(request: web.Request) -> web.Response:
    return to_json(_shown(request, await _found(request)))


async def cancel(request: web.Request) -> web.Response:
    batches, owner = request.app[APP].resources.batches, await owner_seen(request)
    return to_json(_shown(request, await batches.cancel_messages(owner, request.match_info["id"])))


async def delete(request: web.Request) -> web.Response:
    id = request.match_info["id"]
    await request.app[APP].resources.batches.delete_messages(await owner_seen(request), id)
    return to_json({"id": id, "type": "message_batch_deleted"})


async def list_batches(request: web.Request) -> web.Response:
    given = {name: request.query[name] for name in BatchPage.__struct_fields__ if name in request.query}
    page = convert_strings(given, BatchPage)
    if page.after_id is not None and page.before_id is not None:
        raise InvalidRequest("`after_id` and `before_id` cannot be used together.", param="before_id")
    rows = RowPage(page.after_id, page.before_id, page.limit)
    listed = await request.app[APP].resources.batches.list_messages(request[OWNER], rows)
    shown: list[Any] = [_shown(request, batch) for batch in listed.batches]
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    return to_json({"data": shown, "has_more": listed.has_more, "first_id": first, "last_id": last})


async def results(request: web.Request) -> web.StreamResponse:
    batch = await _found(request)
    file = await request.app[APP].resources.files.get(batch.owner, batch.output_file or "")
    if file is None:
        state = "it has not ended" if batch.status in UNFINISHED else "they have expired"
        raise NotFound(f"The batch {quoted(batch.id)} has no results: {state}.", code="no_results")
    return await send(request, file)


async def _found(request: web.Request) -> RequestBatch:
    return await request.app[APP].resources.batches.get_messages(await owner_seen(request), request.match_info["id"])


def _shown(request: web.Request, batch: RequestBatch) -> MessageBatch:
    times, has_ended = batch.details.times, batch.status not in UNFINISHED
    ended = next(filter(None, (times.completed_at, times.cancelled_at, times.expired_at, times.failed_at)), None)
    path = f"/v1/messages/batches/{batch.id}/results"
    return MessageBatch(
        id=batch.id,
        processing_status="ended" if has_ended else "canceling" if batch.stop == "cancelled" else "in_progress",
        request_counts=_counts(batch, has_ended=has_ended),
        created_at=to_timestamp(batch.created_at),
        expires_at=to_timestamp(batch.expires_at),
        ended_at=None if ended is None else to_timestamp(ended),
        cancel_initiated_at=None if times.cancelling_at is None else to_timestamp(times.cancelling_at),
        results_url=f"{request.scheme}://{request.host}{path}" if has_ended and batch.output_file is not None else None,
    )


def _counts(batch: RequestBatch, *, has_ended: bool) -> MessageCounts:
    """Until a batch has ended, all of its requests are in progress, as Anthropic's API has it."""
    left = max(0, batch.total - batch.completed - batch.failed)
    if not has_ended:
        return MessageCounts(processing=batch.total)
    canceled, expired = (left, 0) if batch.stop == "cancelled" else (0, left)
    return MessageCounts(succeeded=batch.completed, errored=batch.failed, canceled=canceled, expired=expired)
