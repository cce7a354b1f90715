"""GET /metrics, for Prometheus, and the count of requests."""

import asyncio
from contextlib import suppress

from aiohttp import web

from antiphon import __version__
from antiphon.errors import Forbidden, NotFound, StoreUnavailable, Unauthorized
from antiphon.ids import ADMIN
from antiphon.server.metrics.instruments import Instruments
from antiphon.server.metrics.merging import merge
from antiphon.server.metrics.state import GatewayState, engine_states
from antiphon.server.parts import APP, key_of
from antiphon.server.request_state import is_from_sibling
from antiphon.store.files import batch_lines
from antiphon.store.files.batch_lines import LineCounts
from antiphon.store.records import JobCounts

# Seconds that the store may take to count the background responses.
DEADLINE = 2.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

NO_METRICS = "This gateway has no metrics: the setting metrics is false."
NEEDS_KEY = "The metrics need a key: send `Authorization: Bearer KEY`, with the admin_key or a metrics_key of the settings."
NOT_THIS_KEY = "This key may not read the metrics, which show what all keys do. Use the admin_key or a metrics_key."


async def metrics(request: web.Request) -> web.Response:
    if request.app[APP].metrics is None:
        raise NotFound(NO_METRICS, code="metrics_off")
    _check_key(request)
    body, siblings = await own_metrics(request.app), request.app[APP].siblings
    if siblings.supervisor is not None and not is_from_sibling(request):
        texts = [body, *await siblings.answers(request), *await siblings.departed()]
        body = await asyncio.to_thread(merge, texts)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


async def own_metrics(app: web.Application) -> bytes:
    """Those of this process; none, if nothing is counted."""
    if (exposed := app[APP].metrics) is None:
        return b""
    # Thousands of lines take longer than others may wait.
    return await asyncio.to_thread(_to_text, exposed.instruments, await _state(app))


def _to_text(instruments: Instruments, state: GatewayState) -> bytes:
    from antiphon.server.metrics.exposition import expose

    return expose(instruments.all(), state)


def _check_key(request: web.Request) -> None:
    """Where no key is set at all, anybody may read them who may use the gateway."""
    app = request.app[APP]
    clients, readers, given = app.access.keyring, app.access.metrics_keys, key_of(request, app)
    if not clients and not readers:
        return
    if not given:
        raise Unauthorized(NEEDS_KEY)
    owner = clients.owner_of(given)
    if owner == ADMIN or readers.owner_of(given) is not None:
        return
    raise Unauthorized("Incorrect API key provided.") if owner is None else Forbidden(NOT_THIS_KEY, code="not_for_this_key")


async def _state(app: web.Application) -> GatewayState:
    store_up = await app[APP].open.readiness.store_answers()
    return GatewayState(
        __version__,
        engine_states(app[APP].gateway),
        websockets=len(app[APP].open.connections),
        store_up=store_up,
        jobs=await _jobs(app) if store_up else None,
        lines=await _lines(app) if store_up else None,
    )


async def _jobs(app: web.Application) -> JobCounts | None:
    with suppress(StoreUnavailable, TimeoutError):
        async with asyncio.timeout(DEADLINE):
            return await app[APP].gateway.store.count_jobs()
    return None


async def _lines(app: web.Application) -> LineCounts | None:
    files = app[APP].gateway.store.files
    if not files.is_used():
        return LineCounts(0, 0)
    with suppress(StoreUnavailable, TimeoutError):
        async with asyncio.timeout(DEADLINE):
            return await files.database.read(batch_lines.count())
    return None
