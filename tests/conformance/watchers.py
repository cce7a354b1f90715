"""Sees what every test puts on the wire of a gateway in this process, whatever protocol its client speaks.

Requests and whole answers are seen by a middleware of the gateways under test; streams where they are encoded. A protocol with
a manifest has a row in `WATCHERS`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

from aiohttp import web
from conformance.chat.watcher import ChatWatcher
from conformance.messages.watcher import MessagesWatcher
from conformance.recorder import RECORDER, Watcher
from conformance.responses import ResponsesWatcher
from conformance.validators import JSON

from antiphon.core.protocols.table import PROTOCOLS
from antiphon.server.paths import ProtocolPaths
from antiphon.server.routes.multipart import FormPart, PartStart
from antiphon.transport import reads_whole

# By the name of the protocol.
WATCHERS: Mapping[str, Watcher] = {each.protocol.name: each for each in (ResponsesWatcher(), MessagesWatcher(), ChatWatcher())}
_PATHS = ProtocolPaths(PROTOCOLS)
_OWN = frozenset(header for protocol in PROTOCOLS for header in protocol.own_headers)


@cache
def _protocol_of(path: str, headers: tuple[str, ...]) -> str:
    """Once for each: what a request costs is counted, too."""
    return _PATHS.protocol_of(path, dict.fromkeys(headers, "")).name


@reads_whole
@web.middleware
async def recorded(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    """The first of the middlewares, so that it sees answers as clients get them."""
    answer = await handler(request)
    watcher = WATCHERS.get(_protocol_of(request.path, tuple(sorted(_OWN.intersection(map(str.lower, request.headers))))))
    route = None if watcher is None else watcher.to_route(request.method, request.path)
    if watcher is None or route is None:
        return answer
    watcher.request(route, request, request._read_bytes or b"")
    if isinstance(answer, web.Response) and isinstance(answer.body, bytes) and answer.content_type == JSON:
        watcher.answer(route, answer.status, answer.body)
    return answer


def listen() -> None:
    """For the rest of the process."""
    begin_part = FormPart.__init__

    def began(part: FormPart, start: PartStart, *more: Any) -> None:
        RECORDER.fields.append(start.name)
        begin_part(part, start, *more)

    FormPart.__init__ = began  # type: ignore[assignment, method-assign]
    for watcher in WATCHERS.values():
        watcher.listen()
