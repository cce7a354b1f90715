"""The one middleware: what happens around every request, from its arrival to its line in the log.

One, because each middleware costs every request a coroutine: the seven that it replaces took a third of the time of HTTP.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from multidict import istr

from antiphon.engines.affinity import continue_trace
from antiphon.server.answers import answer_failed, rate_headers
from antiphon.server.parts import APP, owner_of_key
from antiphon.server.request_headers import PRIVATE, answer_preflight, check_headers, is_private
from antiphon.server.request_state import (
    INSPECTOR,
    OWNER,
    REQUEST_ID,
    SERVER,
    STATE,
    RequestState,
    count_request,
    identify,
    is_open,
    log_request,
)
from antiphon.transport import reads_whole

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# The names of headers, made once.
PROCESSING_MS, WAY = istr("openai-processing-ms"), istr("antiphon-way")


@reads_whole
@web.middleware
async def served(request: web.Request, handler: Handler) -> web.StreamResponse:
    # What is looked up more than once: aiohttp looks for it each time.
    app, headers = request.app[APP], request.headers
    access, state = app.access, identify(request, headers)
    # A client's trace continues behind the gateway. Always: the requests of one connection may share their task.
    continue_trace(headers)
    status = 500
    try:
        # Before the key is checked: a browser asks without one.
        response: web.StreamResponse | None = None
        if request.method == "OPTIONS":
            response = answer_preflight(request, access.cross_origin)
        if response is None:
            check_headers(request, headers, access.allowed_hosts, access.cross_origin)
            needs_key = bool(access.keyring) and not is_open(request.path)
            request[OWNER] = state.owner = await owner_of_key(request) if needs_key else ""
            response = await handler(request)
        status = response.status
        return response
    except asyncio.CancelledError:
        # The client closed its connection.
        status = _status_when_closed(state)
        raise
    except ConnectionError:
        # So it did, while it was being answered.
        status = _status_when_closed(state)
        raise asyncio.CancelledError from None
    except Exception as failure:
        response = answer_failed(request, state, failure, app.routing.protocols)
        status = response.status
        return response
    finally:
        log_request(request, state, status)
        count_request(request, app.metrics, status)


def _status_when_closed(state: RequestState) -> int:
    return state.started.status if state.finished and state.started is not None else 499


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """To every answer, when its headers are about to be sent: to streams, WebSockets and errors too."""
    state, headers, app = request[STATE], response.headers, request.app[APP]
    state.started = response
    headers[hdrs.SERVER] = SERVER
    headers[REQUEST_ID] = state.id
    headers[PROCESSING_MS] = str(round((time.perf_counter() - state.began) * 1000))
    if state.way is not None:
        headers[WAY] = state.way
    cross_origin = app.access.cross_origin
    if cross_origin.origins:
        headers.update(cross_origin.headers(request.headers.get("Origin")))
    owners = app.gateway.admission.owners
    if owners.limits.requests_per_minute is not None and state.owner is not None:
        headers.update(rate_headers(owners.rate(state.owner)))
    if request.path.startswith(INSPECTOR) and is_private(request.path):
        headers.update(PRIVATE)
