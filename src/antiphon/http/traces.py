"""A client's trace goes on behind the gateway."""

from aiohttp import web

from antiphon.engines.trace_context import headers_to_trace, set_trace_headers
from antiphon.http.cors import Handler


@web.middleware
async def traced(request: web.Request, handler: Handler) -> web.StreamResponse:
    # Always: the requests of one connection may share their task.
    set_trace_headers(headers_to_trace(request.headers))
    return await handler(request)
