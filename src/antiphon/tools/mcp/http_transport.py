"""HTTP to MCP servers: the SDK's client over connections that obey the address policy.

A request that fails is reported, and answered with a status: an exception would end the SDK's session, with every other call.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx2
import msgspec
from yarl import URL

from antiphon.core.hosted.mcp.tools import OWN_HEADERS
from antiphon.tools.addresses import AddressPolicy, AddressRefused, guarded_connector, url_complaint
from antiphon.tools.mcp.failures import INVALID_ANSWER, REPORT, Lost, McpFailure, Report, too_large
from antiphon.tools.mcp.large_answers import SMALL_FORMS
from antiphon.tools.mcp.targets import HttpServer, McpLimits

# Many servers close connections that were unused for 5 seconds. A request on a closed one would fail.
KEPT = 4.0
# An error's body that is longer is not an error of JSON-RPC.
LONGEST_ERROR = 64 * 1024
FAILED, NOT_OFFERED = 502, 405
IDENTITY = "identity"


def make_client(server: HttpServer, policy: AddressPolicy, limits: McpLimits, stream: Lost | None = None) -> httpx2.AsyncClient:
    """`stream`: all answers come in one stream, as in the older transport; this is where it reports its end. Raises McpFailure
    for what no server can be reached with."""
    complaint = url_complaint(policy, server.url)
    if complaint is not None:
        raise McpFailure(f"The URL cannot be used: {complaint}.")
    if reserved := sorted(name for name, _ in server.headers if name.lower() in OWN_HEADERS):
        raise McpFailure(f"The header {reserved[0]} cannot be set.")
    transport = GuardedTransport(policy, limits, stream)
    headers = {**dict(server.headers), "Accept-Encoding": IDENTITY}
    return httpx2.AsyncClient(transport=transport, headers=headers, timeout=None, trust_env=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, policy: AddressPolicy, limits: McpLimits, stream: Lost | None) -> None:
        self._limits = limits
        self._stream = stream
        self._http = aiohttp.ClientSession(
            connector=guarded_connector(policy, keepalive_timeout=KEPT),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        report = REPORT.get()
        if request.method == "GET" and self._stream is None and "last-event-id" not in request.headers:
            # The stream of what a server has to say unasked. Nobody listens.
            return httpx2.Response(NOT_OFFERED, request=request)
        if report is not None and report.failed.done():
            return httpx2.Response(FAILED, request=request)
        try:
            answer = await self._send(request)
        except (aiohttp.ClientError, AddressRefused, OSError, ValueError) as failed:
            return _failed(request, report, _to_failure(failed))
        if answer.status >= 300:
            return await self._refused(request, answer, report)
        if answer.headers.get("content-encoding", IDENTITY).lower() != IDENTITY:
            # A few bytes of it may become many.
            answer.close()
            return _failed(request, report, McpFailure("The server's answer is compressed, which was not asked for."))
        if report is not None:
            report.status = None
        if self._stream is not None and request.method == "GET":
            body: Body = EventStream(answer, self._limits.answer_bytes, report, self._stream)
        else:
            body = Body(answer, self._limits.answer_bytes, report)
        return httpx2.Response(answer.status, headers=_headers(answer), stream=body, request=request)

    async def _send(self, request: httpx2.Request) -> aiohttp.ClientResponse:
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in OWN_HEADERS]
        url, body = URL(str(request.url), encoded=True), await request.aread() or None
        return await self._http.request(request.method, url, headers=headers, data=body, allow_redirects=False)

    async def _refused(self, request: httpx2.Request, answer: aiohttp.ClientResponse, report: Report | None) -> httpx2.Response:
        """A status that says that the request failed. Its body may say why, as an error of JSON-RPC."""
        try:
            body = await answer.content.read(LONGEST_ERROR)
        except (aiohttp.ClientError, OSError):
            body = b""
        answer.close()
        if report is not None:
            error = _to_rpc_error(body) if answer.status >= 400 else None
            report.status = None if error is not None else answer.status
            report.reason = f" ({answer.reason})" if answer.reason else ""
            # MCP says 404. Many servers say 400, without having read which request it was.
            unread = answer.status == 400 and error is not None and error.get("id") is None
            report.session_is_gone = "mcp-session-id" in request.headers and (answer.status == 404 or unread)
        return httpx2.Response(answer.status, headers=_headers(answer), content=body, request=request)

    async def aclose(self) -> None:
        await self._http.close()


class Body(httpx2.AsyncByteStream):
    """The body of an answer, within bounds."""

    def __init__(self, answer: aiohttp.ClientResponse, most: int, report: Report | None) -> None:
        self._answer = answer
        self._most = most
        self._report = report
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        to_small = SMALL_FORMS.get(self._answer.content_type)
        async for piece in self._received() if to_small is None else to_small(self._received()):
            yield piece

    async def _received(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.content.iter_any():
                self._count(piece)
                if self._size > self._most:
                    self._fail(too_large(self._most))
                yield piece
        except (aiohttp.ClientError, OSError) as broken:
            self._fail(_to_failure(broken))

    def _count(self, piece: bytes) -> None:
        self._size += len(piece)

    def _fail(self, failure: McpFailure) -> None:
        if self._report is not None:
            self._report.fail(failure)
        # This one is an answer that cannot be read, to the SDK. Others would end the session.
        raise httpx2.StreamError(failure.message)

    async def aclose(self) -> None:
        self._answer.close()


class EventStream(Body):
    """A stream of answers. Each is within bounds; when it ends, so does the session."""

    def __init__(self, answer: aiohttp.ClientResponse, most: int, report: Report | None, lost: Lost) -> None:
        super().__init__(answer, most, report)
        self._lost = lost

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in super().__aiter__():
            yield piece
        self._lost.set(McpFailure("The server closed the connection."))

    def _count(self, piece: bytes) -> None:
        """Of an event that is not at its end."""
        at = max(piece.rfind(b"\n\n"), piece.rfind(b"\r\n\r\n"))
        self._size = self._size + len(piece) if at < 0 else len(piece) - at

    def _fail(self, failure: McpFailure) -> None:
        self._lost.set(failure)
        super()._fail(failure)


def _failed(request: httpx2.Request, report: Report | None, failure: McpFailure) -> httpx2.Response:
    if report is not None:
        report.fail(failure)
    return httpx2.Response(FAILED, request=request)


def _headers(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    """The body may be cut."""
    return [(name, value) for name, value in answer.headers.items() if name.lower() != "content-length"]


def _to_rpc_error(body: bytes) -> dict[str, Any] | None:
    """The error of JSON-RPC that it is, if it is one."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    is_error = isinstance(found, dict) and isinstance(found.get("error"), dict) and "jsonrpc" in found
    return found if is_error else None


def _to_failure(error: Exception) -> McpFailure:
    """In words that have no URL, which may be a secret."""
    match error:
        case AddressRefused():
            return McpFailure(f"The server cannot be reached: {error}.")
        case aiohttp.ClientConnectorDNSError():
            return McpFailure("The server cannot be reached: its host name is unknown.")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return McpFailure("The server cannot be reached: its certificate is not accepted, or it does not speak TLS.")
        case aiohttp.ClientConnectorError():
            return McpFailure(f"The server cannot be reached: {error.os_error.strerror or 'no connection'}.")
        case TimeoutError() | asyncio.TimeoutError():
            return McpFailure("The server cannot be reached: no answer in time.")
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionError():
            return McpFailure("The server closed the connection.")
        case ValueError():
            return McpFailure("The URL or a header cannot be sent.")
    return McpFailure("The server does not speak HTTP as it should.", code=INVALID_ANSWER)
