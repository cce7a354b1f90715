"""aiohttp's internals: all that the fast transport uses of them. No other module of it touches a private name.

What each of them has to mean is checked when the gateway starts (`assumptions.py`). An aiohttp that fails a check, or lacks a
name, is used by its public API only.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any

from aiohttp import EMPTY_PAYLOAD, HttpVersion11, hdrs, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import rfc822_formatted_time as rfc822_formatted_time
from aiohttp.http import RawRequestMessage
from aiohttp.http import StreamWriter as StreamWriter
from aiohttp.http_parser import DeflateBuffer as DeflateBuffer
from aiohttp.http_writer import _serialize_headers
from aiohttp.tcp_helpers import tcp_keepalive as tcp_keepalive
from multidict import CIMultiDictProxy
from yarl import URL

serialize_headers = _serialize_headers

AddHeaders = Callable[[web.Request, web.StreamResponse], Awaitable[object]]

# ---- requests --------------------------------------------------------------------------------------------------------


class AnsweringConnection(BaseProtocol):
    """A client's connection, as aiohttp's requests, writers and servers know it."""

    __slots__ = ("before_head", "peername", "sockname", "ssl_context")

    # What is called before the head of an answer is sent.
    before_head: Sequence[AddHeaders]
    # Each request has these.
    ssl_context: Any
    peername: Any
    sockname: Any

    async def body(self) -> bytes:
        """Of the request that is being answered."""
        raise NotImplementedError

    @property
    def is_behind(self) -> bool:
        """More is buffered than the client reads."""
        return self._paused

    async def caught_up(self) -> None:
        """Waits until the client has read on. Raises ConnectionError."""
        await self._drain_helper()


class DirectRequest(web.Request):
    """An ordinary request, whose body is collected by its connection.

    It has its attributes from here, not from the constructors of aiohttp, which take 1 % of a small request. Most are the same
    for all, or are made when something asks for them.
    """

    _protocol: AnsweringConnection  # type: ignore[assignment]
    _method = "POST"
    _version = HttpVersion11
    _payload: Any = EMPTY_PAYLOAD
    _task: Any = None
    _client_max_fields = 1000
    # It is that of its route: aiohttp looks for it each time.
    app: web.Application = None  # type: ignore[assignment]

    def __init__(
        self,
        connection: AnsweringConnection,
        url: URL,
        headers: CIMultiDictProxy[str],
        match: web.UrlMappingMatchInfo,
        app: web.Application,
        body: bytes | None,
        most: int,
    ) -> None:
        """A POST. `body`: None if it is not complete yet. `most`: the bytes that a body may have."""
        self._protocol = connection
        self._rel_url = url
        self._headers = headers
        self._match_info = match
        self.app = app
        self._read_bytes = body
        self._client_max_size = most
        self._loop = connection._loop
        self._cache: dict[str, Any] = {}
        self._state = {}

    @cached_property
    def _message(self) -> RawRequestMessage:  # type: ignore[override]
        url = self._rel_url
        return RawRequestMessage("POST", url.raw_path, HttpVersion11, self._headers, (), False, None, False, False, url)

    @cached_property
    def _payload_writer(self) -> StreamWriter:  # type: ignore[override]
        return StreamWriter(self._protocol, self._loop)

    @property
    def _transport_sslcontext(self) -> Any:  # type: ignore[override]
        return self._protocol.ssl_context

    @property
    def _transport_peername(self) -> Any:  # type: ignore[override]
        return self._protocol.peername

    @property
    def _transport_sockname(self) -> Any:  # type: ignore[override]
        return self._protocol.sockname

    async def read(self) -> bytes:
        if self._read_bytes is None:
            self._read_bytes = await self._protocol.body()
        return self._read_bytes

    @property
    def body_exists(self) -> bool:
        return True

    @property
    def can_read_body(self) -> bool:
        return self._read_bytes is None


def largest_body(app: web.Application) -> int:
    return app._client_max_size


# ---- answers ---------------------------------------------------------------------------------------------------------


async def make_head(request: DirectRequest, response: web.StreamResponse) -> bytes:
    headers = response._headers
    headers[hdrs.DATE] = rfc822_formatted_time()
    for add_headers in request._protocol.before_head:
        await add_headers(request, response)
    return serialize_headers(f"HTTP/1.1 {response._status} {response._reason}", headers)


async def prepare(request: DirectRequest, response: web.StreamResponse) -> StreamWriter:
    """Does what `response.prepare(request)` does for a body without a length, and leaves the head to be sent with what follows
    it."""
    writer = request._payload_writer = StreamWriter(request._protocol, request._loop)
    response._req, response._payload_writer, response._keep_alive = request, writer, True
    response._must_be_empty_body = False
    response.headers[hdrs.TRANSFER_ENCODING] = "chunked"
    writer.chunked = True
    writer._headers_buf = await make_head(request, response)
    return writer


def take_head(writer: StreamWriter) -> bytes:
    """The head, if it has not been sent. From now on the writer takes it for sent."""
    head, writer._headers_buf, writer._headers_written = writer._headers_buf or b"", None, True
    writer.output_size += len(head)
    return head


def take_end(writer: StreamWriter) -> bytes:
    """The end of the body. The writer has nothing left to send."""
    writer._eof = True
    return b"0\r\n\r\n" if writer.chunked else b""


def whole_body(response: web.StreamResponse) -> bytes | None:
    """The body, if nothing but a head and these bytes are to be sent; its length is among the headers then. None: anything else
    is left to aiohttp's code."""
    is_whole = (
        type(response) is web.Response
        and type(response._body) is bytes
        and response._payload_writer is None
        and response._keep_alive is None
        and response._cookies is None
        and not response._chunked
        and not response._compression
        and "Content-Length" not in response._headers
    )
    if not is_whole:
        return None
    body = response._body
    assert isinstance(body, bytes)
    response._headers[hdrs.CONTENT_LENGTH] = str(len(body))
    return body


def keeps_alive(response: web.StreamResponse) -> bool:
    """Whether another request may follow its answer."""
    return response._keep_alive is True
