"""Plain requests past aiohttp's machinery.

A connection begins as a `DirectConnection`. It answers the POSTs that the gateway lives on, if there is nothing unusual about
them: the same handler, with the same kind of request, in one task. Whatever else comes, and be it half of a head, the socket is
handed over to one of aiohttp's connections for good. So everything odd is answered where it always was.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web
from yarl import URL

from antiphon.logs import log
from antiphon.transport.connections import Connection, ConnectionOptions, Server, SlowBody
from antiphon.transport.fast.request_heads import KnownHead, read_head, to_known
from antiphon.transport.interfaces import WriteBatch
from antiphon.transport.internals import (
    AnsweringConnection,
    DirectRequest,
    keeps_alive,
    largest_body,
    make_head,
    tcp_keepalive,
    whole_body,
)
from antiphon.transport.watched import Watched

# Seconds that an idle connection is kept. It is aiohttp's own limit.
KEEP_ALIVE = 3630.0
# So many bytes that follow a request are kept until it has been answered; then the client has to wait.
MOST_AHEAD = 64 * 1024
# An answer of so many bytes is written at once: the client may be slow to read it, which is waited for.
LONG_ANSWER = 64 * 1024


Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DirectRoute(NamedTuple):
    path: str
    url: URL
    # Shared by all requests: it has no parts of the path.
    match: web.UrlMappingMatchInfo
    app: web.Application
    # The handler with the middlewares around it.
    handle: Handle


class DirectServer(Server):
    """Its connections begin as direct ones."""

    def __init__(self, server: web.Server, app: web.Application, options: ConnectionOptions) -> None:
        super().__init__(server, options)
        self.options = options
        # The answers to be sent.
        self.batch = WriteBatch()
        self.largest_body = largest_body(app)
        self.before_head = tuple(app.on_response_prepare)
        # The addresses of its connections, which are mostly the same one: they share it.
        self.socknames: dict[object, object] = {}
        # By their request line.
        self.routes = {f"POST {each.path} HTTP/1.1".encode(): each for each in _direct_routes(app, options.direct_paths)}

    def __call__(self) -> "DirectConnection":  # type: ignore[override]
        return DirectConnection(self)


def _direct_routes(app: web.Application, paths: frozenset[str]) -> list[DirectRoute]:
    found: list[DirectRoute] = []
    if not all(getattr(middleware, "reads_whole", False) for middleware in app.middlewares):
        return found
    for resource in app.router.resources():
        for route in resource if resource.canonical in paths else ():
            if route.method != "POST":
                continue
            match = web.UrlMappingMatchInfo({}, route)
            match.add_app(app)
            match.freeze()
            handle: Any = route.handler
            for middleware in reversed(app.middlewares):
                handle = _around(handle, middleware)
            found.append(DirectRoute(resource.canonical, URL(resource.canonical), match, app, handle))
    return found


def _around(handle: Handle, middleware: Any) -> Handle:
    def handle_within(request: web.Request) -> Awaitable[web.StreamResponse]:
        # Not a `partial` with a keyword, which takes five times as long to be called.
        within: Awaitable[web.StreamResponse] = middleware(request, handle)
        return within

    return handle_within


class DirectConnection(Watched, AnsweringConnection):
    __slots__ = (
        "_ahead", "_answered", "_closing", "_deadline", "_failed", "_heard_at", "_known", "_missing", "_pieces",
        "_reader", "_task_handler", "_timer", "_timer_ends", "_unread", "_unsent", "server",
    )  # fmt: skip

    def __init__(self, server: DirectServer) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop)
        self._begin_watch()
        self.server = server
        self.before_head = server.before_head
        # The request that is being answered. aiohttp's server knows it by this name.
        self._task_handler: asyncio.Task[None] | None = None
        # The head before, with its route.
        self._known: KnownHead[DirectRoute] | None = None
        # So many bytes of its body have not come yet.
        self._missing = 0
        # Those that have, if some are missing. None: nobody reads them.
        self._pieces: list[bytes] | None = None
        # Waits for the rest of the body.
        self._reader: asyncio.Future[None] | None = None
        # Why the rest will not come.
        self._failed: Exception | None = None
        # When the last bytes of a body came.
        self._heard_at = 0.0
        # What followed the request.
        self._ahead = b""
        # An answer, until it is written.
        self._unsent = b""
        # A request has been answered, or is about to be.
        self._answered = False
        # No other request is answered.
        self._closing = False

    # ---- what arrives ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        # A client that vanishes without a word is found out by the system.
        tcp_keepalive(self.transport)
        self.ssl_context = transport.get_extra_info("sslcontext")
        self.peername = transport.get_extra_info("peername")
        address = transport.get_extra_info("sockname")
        self.sockname = self.server.socknames.setdefault(address, address)
        self.server.connection_made(self, self.transport)  # type: ignore[arg-type]
        self._await(self.server.options.head_timeout)

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._take_body(data)
        elif self._task_handler is not None:
            self._keep(data)
        elif not self._closing:
            self._begin(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end_watch()
        self._closing = True
        self.server.connection_lost(self, exc)  # type: ignore[arg-type]
        super().connection_lost(exc)
        if self._task_handler is not None:
            self._task_handler.cancel()

    def _begin(self, data: bytes) -> None:
        """Something begins that should be a request."""
        known, route = self._known, None
        if known is not None and (head := known.read_again(data)) is not None:
            route = known.route
        else:
            line_end = data.find(b"\r\n")
            route = self.server.routes.get(data[:line_end])
            head = read_head(data, line_end + 2) if route is not None else None
            # Not yet of the first one: many connections are for one request.
            if route is not None and head is not None and self._answered:
                self._known = to_known(data, head, route)
        if route is None or head is None or not 0 < head[1] <= self.server.largest_body:
            self._hand_over(data)
            return
        self._answered = True
        self.server.requests_count += 1
        headers, length, start = head
        body = data[start : start + length]
        self._missing = length - len(body)
        if self._missing:
            self._pieces, self._heard_at = [body], self._loop.time()
            self._await(self.server.options.body_timeout)
        else:
            self._ahead = data[start + length :]
            # As in `_await_nothing()`.
            self._deadline = 0.0
        whole = None if self._missing else body
        request = DirectRequest(self, route.url, headers, route.match, route.app, whole, self.server.largest_body)
        self._task_handler = self._loop.create_task(self._serve(request, route))

    def _take_body(self, data: bytes) -> None:
        piece = data[: self._missing]
        self._missing -= len(piece)
        if self._pieces is not None:
            self._pieces.append(piece)
            self._heard_at = self._loop.time()
        if self._missing:
            return
        self._ahead = data[len(piece) :]
        if self._task_handler is None:
            # It has been answered without its body.
            self._next()
            return
        self._await_nothing()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def body(self) -> bytes:
        """Of the request that is being answered. Raises SlowBody."""
        if self._missing and self._failed is None:
            self._reader = self._loop.create_future()
            await self._reader
        if self._failed is not None:
            raise self._failed
        pieces, self._pieces = self._pieces or [], None
        return b"".join(pieces)

    def _keep(self, data: bytes) -> None:
        """What follows a request waits for its answer."""
        self._ahead += data
        if len(self._ahead) > MOST_AHEAD and self.transport is not None:
            self.transport.pause_reading()

    def _hand_over(self, data: bytes) -> None:
        """From here on, aiohttp has the socket."""
        transport, server = self.transport, self.server
        if transport is None:
            return
        self.flush()
        # The first head has been awaited since the connection was made.
        left = self._deadline - self._loop.time() if not self._answered else server.options.head_timeout
        self._end_watch()
        self._closing = True
        self.transport = None
        server.connection_lost(self)  # type: ignore[arg-type]
        connection = Connection(server, server.options, left, answered=self._answered)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if self.is_behind:
            connection.pause_writing()
        connection.data_received(data)

    # ---- the answer --------------------------------------------------------------------------------------------------

    async def _serve(self, request: DirectRequest, route: DirectRoute) -> None:
        keeps = False
        try:
            keeps = await self._answer(request, await route.handle(request))
        except ConnectionError:
            # The client is gone.
            pass
        except Exception as bug:
            log("connection_failed", level=logging.ERROR, exc_info=bug)
        finally:
            self._task_handler = self._reader = self._pieces = None
            self._end(keeps)

    async def _answer(self, request: DirectRequest, response: web.StreamResponse) -> bool:
        """Whether another request may follow."""
        body = whole_body(response)
        if body is None:
            # Of a stream only its end is left to be sent, if anything.
            await response.prepare(request)
            await response.write_eof()
            return keeps_alive(response)
        head = await make_head(request, response)
        transport = self.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("The client is gone.")
        if len(body) < LONG_ANSWER and not self.is_behind:
            self._unsent += head + body
            self.server.batch.add(self)
            return True
        transport.write(head + body)
        if self.is_behind:
            await self.caught_up()
        return True

    def flush(self) -> None:
        """Writes the answer. It comes before anything else that is done with the socket."""
        answer, self._unsent, transport = self._unsent, b"", self.transport
        if answer and transport is not None and not transport.is_closing():
            transport.write(answer)

    def _end(self, keeps: bool) -> None:
        """The request has been answered."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if not keeps or self._closing or self._failed is not None:
            self.force_close()
        elif self._missing:
            # The client still sends it, and would lose the answer in a reset.
            self._await(self.server.options.linger)
        else:
            self._next()

    def _next(self) -> None:
        if not self._ahead:
            self._await(KEEP_ALIVE)
            return
        self.flush()
        data, self._ahead = self._ahead, b""
        if self.transport is not None and not self.transport.is_reading():
            self.transport.resume_reading()
        self._await_nothing()
        self._begin(data)

    # ---- deadlines ---------------------------------------------------------------------------------------------------

    def _too_late(self) -> None:
        if not self._missing or self._pieces is None:
            # No request has come for too long, or the rest of a body that nobody reads.
            self.force_close()
        elif (left := self._heard_at + self.server.options.body_timeout - self._loop.time()) > 0:
            self._await(left)
        else:
            self._fail_body(SlowBody())

    def _fail_body(self, error: Exception) -> None:
        """Who reads it gets the error. Nothing can follow on this connection."""
        self._failed = error
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def pause_writing(self) -> None:
        """Called when more is buffered than the client reads."""
        super().pause_writing()
        if self.transport is not None:
            self._await_reader(self.transport, self.server.options.send_timeout)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    # ---- the end, as aiohttp's server asks for it --------------------------------------------------------------------

    def close(self) -> None:
        """After the answer that is being sent."""
        self._closing = True

    def force_close(self) -> None:
        self._closing = True
        self.flush()
        if self.transport is not None:
            self.transport.close()

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 (aiohttp's name)
        """What is being answered may end within so many seconds; then no body is awaited any more, and it may end once more."""
        self._closing = True
        if (task := self._task_handler) is not None:
            await asyncio.wait({task}, timeout=timeout)
            if not task.done():
                self._fail_body(ConnectionResetError("The gateway is stopping."))
                await asyncio.wait({task}, timeout=timeout)
            task.cancel()
        self.force_close()
