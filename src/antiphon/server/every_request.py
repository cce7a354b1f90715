"""The one middleware: what happens around every request, from its arrival to its line in the log.

One, because each middleware costs every request a coroutine: the seven that it replaces took a third of the time of HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from antiphon.engines.trace_context import headers_to_trace, set_trace_headers
from antiphon.server.app_keys import KEYRING
from antiphon.server.cors import answer_preflight
from antiphon.server.request_counts import count_request
from antiphon.server.request_headers import PRIVATE, check_headers, is_private
from antiphon.server.request_state import (
    OWNER,
    STATE,
    answer_failed,
    identify,
    is_open,
    log_request,
    owner_of_key,
    set_headers,
)
from antiphon.transport import reads_whole

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@reads_whole
@web.middleware
async def served(request: web.Request, handler: Handler) -> web.StreamResponse:
    # What is looked up more than once: aiohttp looks for it each time.
    app, headers = request.app, request.headers
    state = identify(request, headers)
    # A client's trace continues behind the gateway. Always: the requests of one connection may share their task.
    set_trace_headers(headers_to_trace(headers))
    status = 500
    try:
        # Before the key is checked: a browser asks without one.
        response: web.StreamResponse | None = answer_preflight(request) if request.method == "OPTIONS" else None
        if response is None:
            check_headers(request, headers, app)
            needs_key = bool(app[KEYRING]) and not is_open(request.path)
            request[OWNER] = state.owner = await owner_of_key(request) if needs_key else ""
            response = await handler(request)
        status = response.status
        return response
    except asyncio.CancelledError:
        # The client closed its connection.
        status = 200 if state.finished else 499
        raise
    except ConnectionError:
        # So it did, while it was being answered.
        status = 200 if state.finished else 499
        raise asyncio.CancelledError from None
    except Exception as failure:
        response = answer_failed(request, state, failure)
        status = response.status
        return response
    finally:
        log_request(request, state, status)
        count_request(request, app, status)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """When the headers of an answer are about to be sent."""
    state = request[STATE]
    state.started = response
    set_headers(request, state, response.headers)
    if is_private(request.path):
        response.headers.update(PRIVATE)
