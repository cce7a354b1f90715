"""The connections of clients: deadlines for slow requests, and our own answer to what aiohttp rejects by itself.

Both transports use them. Two names of aiohttp in here are not public, `_make_server` and `_messages`. Without the first one
aiohttp's own connections are used; without the second one, a body that cannot be parsed ends at its deadline. The parser's
errors are known by the names of their classes, for the same reason.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import aiohttp
from aiohttp import EMPTY_PAYLOAD, HttpVersion10, HttpVersion11, StreamReader, web

from antiphon.logs import log
from antiphon.transport.watched import Watched

AnswerError = Callable[[web.BaseRequest, BaseException | None], web.Response]
Middleware = TypeVar("Middleware", bound=Callable[..., Any])


class BadRequest(Exception):
    """What was sent is not HTTP. The text says why, and does not quote it: it may be a key."""


class LongHeader(BadRequest):
    """The request line or a header is too long."""


class BadBody(BadRequest):
    """The body is not in the coding that the headers name."""


class SlowBody(BadRequest):
    """The body of a request has paused for too long. Who reads it gets this error."""


# The name of a class of aiohttp's → ours. The first one that fits counts.
PARSER_ERRORS: Sequence[tuple[str, type[BadRequest]]] = (
    ("RequestPayloadError", BadBody),
    ("ContentEncodingError", BadBody),
    ("LineTooLong", LongHeader),
    ("HttpProcessingError", BadRequest),
)


# The parser's words → ours.
REASONS: Mapping[str, str] = {"Pause on PRI/Upgrade": "this is HTTP/2, and only HTTP/1.1 is spoken here"}


def to_bad_request(error: BaseException | None) -> BadRequest | None:
    """None: it is no error of the parser."""
    names = {kind.__name__ for kind in type(error).__mro__}
    ours = next((kind for name, kind in PARSER_ERRORS if name in names), None)
    return None if ours is None else ours(_reason(str(getattr(error, "message", ""))))


def _reason(message: str) -> str:
    """The first line of the parser's message, up to what it quotes."""
    reason = message.partition("\n")[0].partition(": b'")[0].partition("://")[0].rstrip(":.")
    return REASONS.get(reason, reason)


# The parser also takes requests that name other versions.
SPOKEN = frozenset({HttpVersion10, HttpVersion11})
# How long a connection stays open for the rest of a body that is not read, in seconds. A client that is still sending it would
# lose the answer in a reset otherwise.
LINGER = 10.0
# How many clients may wait for their connection to be accepted, as far as the system allows. With aiohttp's 128, some of 250 a
# second were dropped while the core was busy.
BACKLOG = 4096

# How the head of a request ends.
HEAD_ENDS = (b"\r\n\r\n", b"\n\n")

# Closes a socket with a reset instead of an end.
_RESET = struct.pack("ii", 1, 0)


def cut_off(transport: asyncio.Transport, started: web.StreamResponse) -> None:
    """Ends a body so that its client sees that the rest is missing. If it is chunked, or a WebSocket, closing the connection
    shows that. Of any other body the close is the end, so the connection is reset."""
    if "Transfer-Encoding" in started.headers or "Upgrade" in started.headers:
        transport.close()
        return
    if (connected := transport.get_extra_info("socket")) is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()


def reads_whole(middleware: Middleware) -> Middleware:
    """Marks a middleware that gets the body of a request by `read()`, if at all. With any other one among the middlewares, no
    request is answered without aiohttp's parser."""
    middleware.reads_whole = True  # type: ignore[attr-defined]
    return middleware


class ConnectionOptions(NamedTuple):
    # Seconds from the connection, or from the first byte of a later request, to the end of the request's headers.
    head_timeout: float
    # Seconds that the body of a request may pause.
    body_timeout: float
    # Seconds that a client may read nothing of what it is sent.
    send_timeout: float
    # Answers what no route can: the parser's error, or an exception that was raised outside of the application.
    answer_error: AnswerError
    # A whole answer, as bytes, for a client that has sent only a part of its first request's headers in time.
    too_slow: bytes
    linger: float = LINGER
    # Whether this request may have a body of any size, for its handler reads it piece by piece.
    takes_any_size: Callable[[web.BaseRequest], bool] = lambda request: False
    # Where most requests go: a transport may answer POSTs there without aiohttp's router, parser and tasks. Their handlers get
    # the body by `read()`, and in no other way.
    direct_paths: frozenset[str] = frozenset()


class Runner(web.AppRunner):
    """aiohttp's, with our connections."""

    def __init__(self, app: web.Application, options: ConnectionOptions, wrap: "WrapServer | None" = None, **more: Any) -> None:
        super().__init__(app, **more)
        self._options = options
        self._wrap = wrap or wrap_server

    async def _make_server(self) -> web.Server:
        return self._wrap(await super()._make_server(), self.app, self._options)


class Server(web.Server):
    def __init__(self, server: web.Server, options: ConnectionOptions) -> None:
        super().__init__(self._handle, request_factory=self._make_request, handler_cancellation=server.handler_cancellation)
        self._application = server.request_handler
        self._factory = server.request_factory
        self._options = options

    def __call__(self) -> "Connection":
        return Connection(self, self._options)

    def _make_request(self, message: Any, *more: Any) -> web.BaseRequest:
        if message.version in SPOKEN:
            request = self._factory(message, *more)
            return request.clone(client_max_size=0) if self._options.takes_any_size(request) else request
        # The answer has the version of its request.
        request = self._factory(message._replace(version=HttpVersion11), *more)
        assert isinstance(request.protocol, Connection)
        request.protocol.unknown_version = True
        return request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.begin(request.content)
        try:
            _check_head(request, connection)
            answer = await self._application(request)
        except (web.HTTPException, BadRequest) as early:
            # Raised before the middlewares, such as for an expectation that cannot be met.
            answer = self._options.answer_error(request, early)
        finally:
            connection.end()
        if answer.status == web.HTTPRequestEntityTooLarge.status_code and not answer.prepared:
            connection.refuse_body(answer)
        return answer


# aiohttp's server of an application → ours.
WrapServer = Callable[[web.Server, web.Application, ConnectionOptions], Server]


def wrap_server(server: web.Server, app: web.Application, options: ConnectionOptions) -> Server:
    return Server(server, options)


def _check_head(request: web.BaseRequest, connection: "Connection") -> None:
    """Before anything asks the client to continue."""
    if connection.unknown_version:
        connection.unknown_version = False
        raise BadRequest("only HTTP/1.1 and HTTP/1.0 are spoken here")
    length = request.content_length or 0
    if 0 < request.client_max_size < length:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, length)


class Connection(Watched, web.RequestHandler):
    """It waits for the head of a request, then for its body, and then for nothing: one timer is enough. Another one runs while
    the client does not read."""

    __slots__ = (
        "_answered", "_bodiless", "_body", "_deadline", "_handling", "_head_within", "_heard_at", "_last", "_more",
        "_options", "_refused", "_timer", "_timer_ends", "_unread", "unknown_version",
    )  # fmt: skip

    def __init__(
        self, server: Server, options: ConnectionOptions, head_within: float | None = None, *, answered: bool = False
    ) -> None:
        """Where it follows another protocol on the same socket. `head_within`: seconds that are left for the head of the first
        request. `answered`: whether one was answered before."""
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, access_log=None, lingering_time=options.linger)  # type: ignore[arg-type]
        self._options = options
        self._begin_watch()
        # The request that is about to be handled is in a version of HTTP that is not spoken here.
        self.unknown_version = False
        self._handling = False
        # Something was written, or is about to be.
        self._answered = answered
        self._head_within = options.head_timeout if head_within is None else head_within
        # The body of the request that is being handled, until all of it is there.
        self._body: StreamReader | None = None
        # When the last bytes came. 0: none have come yet.
        self._heard_at = 0.0
        # The last four bytes.
        self._last = b""
        # The request that is being handled has no body at all.
        self._bodiless = False
        # Something came after it.
        self._more = False
        # What still comes is not looked at.
        self._refused = False

    # ---- what is awaited ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await(self._head_within)

    def begin(self, body: StreamReader) -> None:
        """The head of a request is complete."""
        self._handling = self._answered = True
        self._bodiless, self._more = body is EMPTY_PAYLOAD, False
        if body.is_eof():
            self._await_nothing()
        else:
            self._body = body
            self._await(self._options.body_timeout)

    def end(self) -> None:
        """The request has been handled. Until a byte of the next one comes, the connection is idle."""
        self._handling = False
        self._body = None
        if self._more or (self._bodiless and not self._last.endswith(HEAD_ENDS)):
            # The next one has begun already.
            self._await(self._options.head_timeout)
        else:
            self._await_nothing()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if data:
            self._heard_at = self._loop.time()
            self._last = (self._last + data[-4:])[-4:]
        if self._body is not None:
            self._watch_body(self._body)
        elif data and self._handling:
            self._more = True
        elif data and not self._deadline:
            self._await(self._options.head_timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end_watch()
        super().connection_lost(exc)

    def _watch_body(self, body: StreamReader) -> None:
        if body.is_eof():
            self._body = None
            self._await_nothing()
        elif getattr(self, "_messages", None):
            # Nothing can follow a body that is not complete: this is the parser's error, of which the body does not know.
            self._fail_body(body, BadBody())

    # ---- bodies that are too large -----------------------------------------------------------------------------------

    def refuse_body(self, answer: web.StreamResponse) -> None:
        """The rest of the body is neither parsed nor kept. aiohttp closes the connection when the client does, or after the
        time to linger."""
        answer.force_close()
        self._refused = True

    def finish_response(self, *answered: Any) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        finished = super().finish_response(*answered)
        return self._end_writing(finished) if self._refused else finished

    async def _end_writing(
        self, finishing: Coroutine[Any, Any, tuple[web.StreamResponse, bool]]
    ) -> tuple[web.StreamResponse, bool]:
        finished = await finishing
        transport = self.transport
        if transport is not None and transport.can_write_eof():
            # Nothing follows the answer, although more can still be received.
            transport.write_eof()
        return finished

    # ---- clients that do not read ------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Called when more is buffered than the client reads."""
        super().pause_writing()
        if self.transport is not None:
            self._await_reader(self.transport, self._options.send_timeout)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    # ---- the deadline ---------------------------------------------------------------------------------------------------

    def _too_late(self) -> None:
        if self._body is None:
            self._give_up()
        elif (left := self._heard_at + self._options.body_timeout - self._loop.time()) > 0:
            self._await(left)
        else:
            self._fail_body(self._body, SlowBody())

    def _fail_body(self, body: StreamReader, error: Exception) -> None:
        """The handler that reads it answers. Nothing can follow on this connection, which aiohttp closes then."""
        self._body = None
        self._await_nothing()
        body.set_exception(error)

    def _give_up(self) -> None:
        transport = self.transport
        if transport is None:
            return
        if transport.get_write_buffer_size():
            # A client that has sent a part of its next request still reads the answer to the one before.
            self._await(self._options.head_timeout)
            return
        if self._heard_at and not self._answered:
            transport.write(self._options.too_slow)
        self.force_close()

    # ---- errors ------------------------------------------------------------------------------------------------------

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        self._answered = True
        if request.writer.output_size > 0:
            raise ConnectionError("An answer has been begun, and nothing else may follow it.")
        answer = self._options.answer_error(request, to_bad_request(exc) or exc)
        answer.force_close()
        return answer

    def log_exception(self, *args: Any, **members: Any) -> None:
        """aiohttp reads on after the answer to a body that failed, and reports its error again."""
        error = members.get("exc_info")
        if isinstance(error, BaseException) and not isinstance(error, BadRequest) and to_bad_request(error) is None:
            log("connection_failed", level=logging.ERROR, exc_info=error)


# ---- The connections of aiohttp's client: those that are kept, and those that serve one request ----------------------

# For an engine that announces to keep a connection, and closes it after each stream: the next request would run into that.
CLOSE_CONNECTION = {"Connection": "close"}


class EngineConnector(aiohttp.TCPConnector):
    """A request with `Connection: close` gets a connection of its own, and no other request is sent on it (RFC 9112, section
    9.6). aiohttp alone would keep it, if the engine does not announce that it closes it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._unkept = aiohttp.TCPConnector(limit=self.limit, force_close=True)

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> aiohttp.connector.Connection:
        if req.headers.get("Connection") == "close":
            return await self._unkept.connect(req, traces, timeout)
        return await super().connect(req, traces, timeout)

    async def close(self, *, abort_ssl: bool = False) -> None:
        await self._unkept.close(abort_ssl=abort_ssl)
        await super().close(abort_ssl=abort_ssl)
