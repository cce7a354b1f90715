"""Requests to an engine over connections of our own.

aiohttp's client costs about a tenth of a short request: sessions, cookies, timeouts, a parser and two readers for each. An
engine needs none of that: one URL, one method, and an answer in one of three framings (`answers`).
"""

import asyncio
import functools
import re
import socket
import ssl
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, ClassVar
from weakref import WeakSet

import aiohttp
from aiohappyeyeballs import start_connection
from yarl import URL

from antiphon.transport.connections import EngineConnector
from antiphon.transport.fast.connection import CLOSED, EngineConnection, PushedAnswer
from antiphon.transport.interfaces import REQUEST_HEADERS, EndpointOptions, NotReachable, Stale, Transport, WriteBatch

# Seconds after which another address of a host is tried beside the first.
NEXT_ADDRESS = 0.25
# aiohttp rejects the same ones: a line end would begin another header, or another request.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class FastEndpoint:
    """One URL of an engine, and the connections to it."""

    def __init__(self, options: EndpointOptions, batch: WriteBatch | None = None) -> None:
        self._options = options
        # The requests to be sent.
        self.batch = batch if batch is not None else WriteBatch()
        self._open: set[EngineConnection] = set()
        # Those that have been idle for longest come first.
        self._idle: deque[EngineConnection] = deque()
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False

    async def post(self, body: bytes, headers: Mapping[str, str], *, keep: bool = True) -> PushedAnswer:
        if self._closed:
            raise aiohttp.ClientConnectionError(CLOSED)
        head = self._head + (_header_lines(headers) if headers else b"") + (b"" if keep else b"Connection: close\r\n")
        request = (head + b"Content-Length: %d\r\n\r\n" % len(body), body)
        connection = self._take_idle() or await self._connect()
        answer = connection.ask(request, self._options.first_byte_timeout, keep=keep)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.give_up(answer)
            raise
        except Stale:
            # The others are as old: the engine has closed them, too, or is another one by now.
            self._close_idle()
            raise

    # ---- connections that are kept -----------------------------------------------------------------------------------

    def keep(self, connection: EngineConnection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = loop.call_later(self._options.idle_limit, self._expire)

    def opened(self, connection: EngineConnection) -> None:
        self._open.add(connection)

    def lost(self, connection: EngineConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        self._closed = True
        self._close_idle()
        for connection in tuple(self._open):
            connection.close()
        if self._expiry is not None:
            self._expiry.cancel()

    def _take_idle(self) -> EngineConnection | None:
        """The one that was used last: the others may expire."""
        while self._idle:
            if not (connection := self._idle.pop()).transport.is_closing():
                return connection
        return None

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._expiry = None
        while self._idle:
            expires_at = self._idle[0].idle_since + self._options.idle_limit
            if expires_at > loop.time():
                self._expiry = loop.call_at(expires_at, self._expire)
                return
            self._idle.popleft().close()

    # ---- new connections ---------------------------------------------------------------------------------------------

    async def _connect(self) -> EngineConnection:
        options = self._options
        try:
            async with asyncio.timeout(min(options.connect_timeout, options.first_byte_timeout)):
                return await self._open_connection()
        except OSError as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise aiohttp.ConnectionTimeoutError("The connection was not made in time.") from error
            raise NotReachable(str(error)) from error

    async def _open_connection(self) -> EngineConnection:
        loop, url = asyncio.get_running_loop(), self._url
        addresses = await loop.getaddrinfo(url.raw_host, url.port, type=socket.SOCK_STREAM)
        connected = await start_connection(addresses, happy_eyeballs_delay=NEXT_ADDRESS, interleave=1, loop=loop)
        try:
            # One write is one request: there is nothing to collect more of.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_secure = url.scheme == "https"
            _, connection = await loop.create_connection(
                functools.partial(EngineConnection, self),
                sock=connected,
                ssl=(self._options.ssl_context or _ssl_context()) if is_secure else None,
                server_hostname=(self._options.server_name or url.raw_host) if is_secure else None,
            )
        except BaseException:
            connected.close()
            raise
        return connection

    # ---- what every request has --------------------------------------------------------------------------------------

    @functools.cached_property
    def _url(self) -> URL:
        try:
            url = URL(self._options.url)
        except ValueError as wrong:
            raise aiohttp.InvalidURL(self._options.url) from wrong
        if url.scheme not in ("http", "https") or not url.raw_host:
            raise aiohttp.InvalidURL(self._options.url)
        return url

    @functools.cached_property
    def _head(self) -> bytes:
        """The head of a request, up to the headers that differ."""
        url = self._url
        every = {"Host": url.host_port_subcomponent or "", **REQUEST_HEADERS, "Accept": "*/*", **self._options.headers}
        return f"POST {url.raw_path_qs} HTTP/1.1\r\n".encode() + _header_lines(every)


def _header_lines(headers: Mapping[str, str]) -> bytes:
    values = "".join(headers.values())
    if not values.isprintable() and _CONTROL.search(values) is not None:
        raise ValueError("A header has a control character.")
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode()


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class FastConnector(EngineConnector):
    """Of a session, for all that is not posted to an endpoint. The endpoints are closed with it."""

    # Sessions know their transport by their connector.
    transport: ClassVar[Transport]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # An engine that is used no more is not kept here.
        self.endpoints: WeakSet[FastEndpoint] = WeakSet()

    def close(self, **how: Any) -> Coroutine[Any, Any, None]:
        for endpoint in self.endpoints:
            endpoint.close()
        return super().close(**how)


def open_endpoint(session: aiohttp.ClientSession, options: EndpointOptions) -> FastEndpoint:
    assert isinstance(session.connector, FastConnector)
    endpoint = FastEndpoint(options)
    session.connector.endpoints.add(endpoint)
    return endpoint
