"""What aiohttp's internals have to mean: a table of checks.

`choice.py` runs them once, when the gateway starts. They need no event loop and no socket, and take about two milliseconds.
"""

import re
import socket
import zlib
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from typing import Any, cast

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from antiphon.transport import internals


class Written:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""
        self.options: list[tuple[int, int, Any]] = []

    def write(self, data: bytes) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    # As a socket.
    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP

    def setsockopt(self, level: int, name: int, value: Any) -> None:
        self.options.append((level, name, value))


class Sample:
    """A request, the answer to it, and what is written for it."""

    def __init__(self, body: bytes | None = b"{}") -> None:
        self.transport = Written()
        self.connection = internals.AnsweringConnection(None)  # type: ignore[arg-type]
        self.connection.before_head = ()
        self.connection.ssl_context = self.connection.peername = self.connection.sockname = None
        self.connection.transport = self.transport  # type: ignore[assignment]
        self.match = web.UrlMappingMatchInfo({"id": "1"}, None)  # type: ignore[arg-type]
        self.app = web.Application()
        headers = CIMultiDictProxy(CIMultiDict({"Host": "here"}))
        self.request = internals.DirectRequest(self.connection, URL("/path"), headers, self.match, self.app, body, 100)

    def streamed(self) -> tuple[web.StreamResponse, internals.StreamWriter]:
        response = web.StreamResponse(headers={"A": "b"})
        return response, finished(internals.prepare(self.request, response))


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what does not have to wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("It waits.")


def _request_is_as_made() -> bool:
    sample = Sample()
    request, transport = sample.request, cast(object, sample.request.transport)
    return (
        (request.method, request.path, request.headers["Host"], request.client_max_size) == ("POST", "/path", "here", 100)
        and request.match_info is sample.match
        and transport is sample.transport
        and request.app is sample.app
        and isinstance(request.writer, internals.StreamWriter)
        and (request.keep_alive, request.version, request.path_qs, request.secure) == (True, HttpVersion11, "/path", False)
        and (request.remote, request.host, request.raw_headers) == (None, "here", ())
        and finished(request.read()) == b"{}"
    )


def _head_waits_for_its_body() -> bool:
    """It is sent once: with the first bytes of the body, or by the caller that has taken it."""
    sample, taken = Sample(), Sample()
    finished(sample.streamed()[0].write(b"data"))
    _, writer = taken.streamed()
    head = internals.take_head(writer)
    writer.send_headers()
    return (
        sample.transport.data == head + b"4\r\ndata\r\n"
        and head.startswith(b"HTTP/1.1 200 OK\r\nA: b\r\n")
        and b"\r\nTransfer-Encoding: chunked\r\n" in head
        and taken.transport.data == b""
        and writer.output_size == len(head)
    )


def _end_is_sent_once() -> bool:
    sample, taken = Sample(), Sample()
    response, writer = sample.streamed()
    sent = internals.take_head(writer)
    finished(response.write_eof())
    other, writer = taken.streamed()
    internals.take_head(writer)
    end = internals.take_end(writer)
    finished(other.write_eof())
    return (
        bool(sent)
        and (sample.transport.data, taken.transport.data) == (end, b"")
        and internals.keeps_alive(other)
        and other.prepared
    )


def _heads_are_serialized() -> bool:
    plain = internals.serialize_headers("HTTP/1.1 200 OK", CIMultiDict({"A": "b"}))
    try:
        internals.serialize_headers("HTTP/1.1 200 OK", CIMultiDict({"A": "b\r\nC: d"}))
    except ValueError:
        return plain == b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"
    return False


def _date_is_that_of_http() -> bool:
    return re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", internals.rfc822_formatted_time()) is not None


def _whole_answers_are_known() -> bool:
    """And all others, too."""
    compressed, chunked, closing, with_cookie = (web.Response(body=b"x") for _ in range(4))
    compressed.enable_compression()
    chunked.enable_chunked_encoding()
    closing.force_close()
    with_cookie.set_cookie("a", "b")
    others = (compressed, chunked, closing, with_cookie, web.StreamResponse())
    plain = web.Response(body=b"xyz")
    return (
        internals.whole_body(plain) == b"xyz"
        and plain.headers["Content-Length"] == "3"
        and not internals.keeps_alive(closing)
        and all(internals.whole_body(each) is None for each in others)
    )


def _size_is_the_applications() -> bool:
    return internals.largest_body(web.Application(client_max_size=5)) == 5


def _connection_knows_whether_it_is_read() -> bool:
    sample = Sample()
    connection = sample.connection
    finished(connection.caught_up())
    connection.pause_writing()
    behind = connection.is_behind
    connection.resume_writing()
    connection.transport = None
    try:
        finished(connection.caught_up())
    except ConnectionError:
        return behind and not connection.is_behind
    return False


def _server_waits_for_its_tasks() -> bool:
    """A connection that is lost while it answers stays among the server's until it has."""
    waiting: list[Callable[[object], None]] = []

    class Task:
        add_done_callback = waiting.append

    class Handler:
        _task_handler = Task

    server: Any = web.Server(lambda _: None, loop=object())  # type: ignore[arg-type, return-value]
    handler = Handler()
    server.connection_made(handler, None)
    server.connection_lost(handler)
    stays: bool = server.connections == [handler]
    waiting[0](None)
    return stays and not server.connections


def _sockets_are_kept_alive() -> bool:
    transport = Written()
    internals.tcp_keepalive(transport)  # type: ignore[arg-type]
    return (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in transport.options


def _bodies_are_decompressed_in_parts() -> bool:
    received: list[bytes] = []

    class Reader:
        _low_water = 64 * 1024
        total_compressed_bytes = 0

        def feed_data(self, data: bytes, size: int) -> None:
            received.append(data)

        def feed_eof(self) -> None: ...

    text = b"x" * 400_000
    buffer = internals.DeflateBuffer(Reader(), "deflate")  # type: ignore[arg-type]
    data = zlib.compress(text, 1)
    has_more = in_parts = buffer.feed_data(data, len(data))
    while has_more:
        has_more = buffer.feed_data(b"", 0)
    buffer.feed_eof()
    return in_parts is True and b"".join(received) == text and max(map(len, received)) < len(text)


# What it is that has changed, if the check fails.
CHECKS: Mapping[str, Callable[[], bool]] = {
    "aiohttp.web_request.Request": _request_is_as_made,
    "aiohttp.http_writer.StreamWriter._headers_buf": _head_waits_for_its_body,
    "aiohttp.http_writer.StreamWriter._eof": _end_is_sent_once,
    "aiohttp.http_writer._serialize_headers": _heads_are_serialized,
    "aiohttp.helpers.rfc822_formatted_time": _date_is_that_of_http,
    "aiohttp.web_response.Response": _whole_answers_are_known,
    "aiohttp.web_app.Application._client_max_size": _size_is_the_applications,
    "aiohttp.base_protocol.BaseProtocol": _connection_knows_whether_it_is_read,
    "aiohttp.web_server.Server._task_handler": _server_waits_for_its_tasks,
    "aiohttp.tcp_helpers.tcp_keepalive": _sockets_are_kept_alive,
    "aiohttp.http_parser.DeflateBuffer": _bodies_are_decompressed_in_parts,
}


def failing(checks: Mapping[str, Callable[[], bool]]) -> list[str]:
    return [name for name, check in checks.items() if not _holds(check)]


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except Exception:
        # A name is gone, or takes other arguments.
        return False


@cache
def find_changed() -> tuple[str, ...]:
    """What does not mean any more what is assumed here."""
    return tuple(failing(CHECKS))
