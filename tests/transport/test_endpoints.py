"""Requests to an engine: what is sent, which connections are used again, and what each failure is."""

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from support.certificates import write_certificate
from support.raw_server import CHUNKED, RawServer, chunked, raw_server, read_by_others, sized
from support.raw_server import Answer as Writes

from antiphon.engines.replies import connection_to_error
from antiphon.settings.settings import TransportName
from antiphon.transport import Answer, Endpoint, EndpointOptions, Stale, choose, make_session
from antiphon.transport.fast.client import FastEndpoint
from antiphon.transport.interfaces import IDLE_LIMIT
from bench.processes import free_port

OK = sized(b"{}")
ROOT = "http://engine"


class Collected:
    def __init__(self) -> None:
        self.data = b""
        self.end: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def receive(self, data: bytes) -> None:
        self.data += data

    def ended(self, error: BaseException | None) -> None:
        self.end.set_result(error)


async def read(answer: Answer) -> bytes:
    collected = Collected()
    answer.push(collected)
    assert await collected.end is None
    await answer.finish(5)
    return collected.data


def writes(*pieces: bytes, then: Callable[[asyncio.StreamWriter], None] = lambda writer: None) -> Writes:
    async def write(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await read_by_others()
        then(writer)

    return write


def closes(writer: asyncio.StreamWriter) -> None:
    writer.close()


def resets(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


class Served:
    """An endpoint of a raw server, which answers each request with the next of these."""

    def __init__(self, server: RawServer, endpoint: Endpoint, heads: list[bytes]) -> None:
        self.server, self.endpoint, self.heads = server, endpoint, heads

    async def post(self, body: bytes = b"{}", **headers: str) -> Answer:
        return await self.endpoint.post(body, headers)


@asynccontextmanager
async def served(
    name: TransportName,
    *answers: Writes,
    headers: dict[str, str] | None = None,
    connect_timeout: float = 5,
    first_byte_timeout: float = 30,
    idle_limit: float = IDLE_LIMIT,
) -> AsyncIterator[Served]:
    heads: list[bytes] = []

    def answer(head: bytes) -> Writes:
        heads.append(head)
        return answers[min(len(heads), len(answers)) - 1]

    async with raw_server(answer) as server, make_session(name) as session:
        url = server.url + "/v1/chat/completions?a=b"
        options = EndpointOptions(url, headers or {}, connect_timeout, first_byte_timeout, idle_limit=idle_limit)
        yield Served(server, choose(name).open_endpoint(session, options), heads)
    # The server may notice late that its client has left.
    async with asyncio.timeout(10):
        while asyncio.all_tasks() != {asyncio.current_task()}:  # noqa: ASYNC110
            await asyncio.sleep(0)


@asynccontextmanager
async def listening(answer: bytes, *, until: bytes = b"") -> AsyncIterator[str]:
    """The authority of a server that reads up to `until`, answers so, and reads no more until its client has left."""
    handlers: set[asyncio.Task[None] | None] = set()
    client_leaves = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.current_task())
        if until:
            await reader.readuntil(until)
        writer.write(answer)
        await client_leaves.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=1000) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client_leaves.set()
        await asyncio.gather(*[task for task in handlers if task is not None])
        await read_by_others()


async def failure(posting: Callable[[], object]) -> BaseException:
    try:
        await posting()  # type: ignore[misc]
    except Exception as error:
        return error
    raise AssertionError("it was answered")


def message(error: BaseException) -> str:
    return connection_to_error(error, ROOT).message


# ---- what is sent ----------------------------------------------------------------------------------------------------


async def test_a_request_has_its_headers_and_its_body(name: TransportName) -> None:
    async with served(name, writes(OK), headers={"Authorization": "Bearer key"}) as engine:
        answer = await engine.post(b'{"a": 1}', traceparent="00-1", **{"x-session-id": "schlüssel"})
        assert (answer.status, await read(answer)) == (200, b"{}")
        (head,) = engine.heads
        lines = head.decode().split("\r\n")
        assert lines[0] == "POST /v1/chat/completions?a=b HTTP/1.1"
        sent = dict(line.split(": ", 1) for line in lines[1:] if line)
        sent.pop("Content-Type", None)
        assert sent == {
            "Host": engine.server.url.removeprefix("http://"),
            "User-Agent": "antiphon",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Authorization": "Bearer key",
            "traceparent": "00-1",
            "x-session-id": "schlüssel",
            "Content-Length": "8",
        }


async def test_a_host_among_the_headers_takes_the_place_of_the_urls(name: TransportName) -> None:
    async with served(name, writes(OK), headers={"Host": "engine.example:8000"}) as engine:
        await read(await engine.post())
        assert engine.heads[0].count(b"Host: ") == 1
        assert b"\r\nHost: engine.example:8000\r\n" in engine.heads[0]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00b", "a\rb"])
async def test_a_header_with_a_control_character_is_not_sent(name: TransportName, value: str) -> None:
    async with served(name, writes(OK)) as engine:
        with pytest.raises(ValueError, match="control character"):
            await engine.post(key=value)
        assert engine.heads == []


async def test_a_large_body_is_sent_whole(name: TransportName) -> None:
    async with served(name, writes(OK)) as engine:
        for _ in range(2):
            assert await read(await engine.post(b"x" * 900_000)) == b"{}"
        assert engine.server.connections == 1


# ---- connections that are used again ---------------------------------------------------------------------------------


async def test_a_connection_is_used_again_and_the_last_one_first(name: TransportName) -> None:
    async with served(name, writes(OK)) as engine:
        for _ in range(3):
            await read(await engine.post())
        assert engine.server.connections == 1
        both = await asyncio.gather(engine.post(), engine.post())
        assert [await read(answer) for answer in both] == [b"{}", b"{}"]
        assert engine.server.connections == 2
        await asyncio.gather(engine.post(), engine.post())
        assert engine.server.connections == 2


ONCE: dict[str, bytes] = {
    "Connection: close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "something after the body": CHUNKED + chunked(b"{}") + b"more",
}


@pytest.mark.parametrize("kind", ONCE)
async def test_a_connection_that_the_answer_ends_is_not_used_again(kind: str) -> None:
    async with served("fast", writes(ONCE[kind])) as engine:
        for _ in range(2):
            assert await read(await engine.post()) == b"{}"
        assert engine.server.connections == 2


async def test_a_connection_that_is_not_to_be_kept_is_closed() -> None:
    async with served("fast", writes(OK)) as engine:
        for _ in range(2):
            assert await read(await engine.endpoint.post(b"{}", {}, keep=False)) == b"{}"
        assert engine.server.connections == 2
        assert all(b"\r\nConnection: close\r\n" in head for head in engine.heads)


async def test_an_old_server_may_keep_its_connection(name: TransportName) -> None:
    old = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"
    async with served(name, writes(old)) as engine:
        for _ in range(2):
            await read(await engine.post())
        assert engine.server.connections == 1


async def test_a_connection_that_the_engine_has_closed_is_not_used(name: TransportName) -> None:
    async with served(name, writes(OK, then=closes), writes(OK)) as engine:
        await read(await engine.post())
        await read_by_others()
        await engine.server.settle()
        await read_by_others()
        assert await read(await engine.post()) == b"{}"
        assert engine.server.connections == 2


async def test_a_connection_on_which_something_comes_unasked_is_closed() -> None:
    async with served("fast", writes(OK, b"HTTP/1.1 408 Timeout\r\n\r\n"), writes(OK)) as engine:
        await read(await engine.post())
        await engine.server.client_left.wait()
        assert await read(await engine.post()) == b"{}"
        assert engine.server.connections == 2


@pytest.mark.parametrize("end", [closes, resets])
async def test_a_kept_connection_that_is_lost_before_the_answer_is_stale_and_so_are_the_others(
    end: Callable[[asyncio.StreamWriter], None],
) -> None:
    async with served("fast", writes(OK), writes(OK), writes(then=end), writes(OK)) as engine:
        await asyncio.gather(*[read(answer) for answer in await asyncio.gather(engine.post(), engine.post())])
        assert isinstance(await failure(engine.post), Stale)
        assert await read(await engine.post()) == b"{}"
        assert engine.server.connections == 3


@pytest.mark.parametrize("before", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 2"])
async def test_a_kept_connection_that_has_answered_something_is_not_stale(before: bytes) -> None:
    async with served("fast", writes(OK), writes(before, then=closes)) as engine:
        await read(await engine.post())
        error = await failure(engine.post)
        assert type(error) is aiohttp.ServerDisconnectedError


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    async with served("fast", writes(OK), idle_limit=0.01) as engine:
        answers = [await engine.post(), await engine.post()]
        for answer in answers:
            await read(answer)
        await engine.server.client_left.wait()
        assert isinstance(engine.endpoint, FastEndpoint)
        while engine.endpoint._open:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not engine.endpoint._idle
        assert engine.endpoint._expiry is None


async def test_an_answer_before_the_request_was_read_is_read_and_its_connection_closed() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with listening(refusal, until=b"\r\n\r\n") as host, make_session("fast") as session:
        endpoint = choose("fast").open_endpoint(session, EndpointOptions(f"http://{host}", {}, 5, 5))
        answer = await endpoint.post(b"x" * 50_000_000, {})
        assert (answer.status, await read(answer)) == (413, b"no")
        assert isinstance(endpoint, FastEndpoint)
        assert not endpoint._idle


# ---- failures --------------------------------------------------------------------------------------------------------

NOT_HTTP = "The engine at http://engine did not answer as an HTTP server does."
GONE = "The engine at http://engine closed the connection."
LOST = "The connection to the engine was lost."
FAILURES: dict[str, tuple[Writes, str]] = {
    "no HTTP": (writes(b"data: {}\n\n"), NOT_HTTP),
    "garbage": (writes(b"\x00\xff"), NOT_HTTP),
    "HTTP/2": (writes(b"HTTP/2 200 OK\r\n\r\n"), NOT_HTTP),
    "a header without a colon": (writes(b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n"), NOT_HTTP),
    "two lengths": (writes(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"), NOT_HTTP),
    "a length beside chunks": (writes(CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n"), NOT_HTTP),
    "an enormous header": (writes(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), NOT_HTTP),
    "closed at once": (writes(then=closes), GONE),
    "closed within the head": (writes(b"HTTP/1.1 200 OK\r\n", then=closes), GONE),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_each_failure_before_the_body_has_its_error(name: TransportName, kind: str) -> None:
    answer, expected = FAILURES[kind]
    async with served(name, answer, writes(OK)) as engine:
        assert message(await failure(engine.post)) == expected
        # On another connection.
        assert await read(await engine.post()) == b"{}"
        assert engine.server.connections == 2


CUT = "The connection to the engine was cut."
BROKEN_BODIES: dict[str, tuple[Sequence[bytes], str]] = {
    "a size that is no number": ((CHUNKED, b"zz\r\n"), NOT_HTTP),
    "a chunk longer than its size": ((CHUNKED + b"5\r\nhello", b"!\r\n"), NOT_HTTP),
    "a chunk that is cut": ((CHUNKED, b"5\r\nhel"), CUT),
    "no last chunk": ((CHUNKED, b"5\r\nhello\r\n"), CUT),
    "a length that is not reached": ((sized(b"hello!")[:-1],), CUT),
}


@pytest.mark.parametrize("kind", BROKEN_BODIES)
async def test_each_failure_within_the_body_has_its_error(kind: str) -> None:
    pieces, expected = BROKEN_BODIES[kind]
    async with served("fast", writes(*pieces, then=closes)) as engine:
        collected = Collected()
        (await engine.post()).push(collected)
        error = await collected.end
        assert error is not None
        assert message(error) == expected
        assert b"hello".startswith(collected.data)


async def test_an_engine_that_is_not_there_is_not_reachable(name: TransportName) -> None:
    async with make_session(name) as session:
        for url in (f"http://127.0.0.1:{free_port()}", "http://no-such-host.invalid"):
            endpoint = choose(name).open_endpoint(session, EndpointOptions(url, {}, 5, 5))
            error = await failure(partial(endpoint.post, b"", {}))
            assert message(error) == "The engine at http://engine is not reachable."


@pytest.mark.parametrize("url", ["nowhere", "ftp://engine", "http://", "http://[::1"])
async def test_an_address_that_is_none_is_named_so(url: str) -> None:
    async with make_session("fast") as session:
        error = await failure(partial(choose("fast").open_endpoint(session, EndpointOptions(url, {}, 5, 5)).post, b"", {}))
        assert message(error) == "http://engine is not an address of an engine."


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nX-Half:", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_an_engine_that_does_not_begin_in_time_has_stalled(name: TransportName, before: bytes) -> None:
    async with served(name, writes(before), first_byte_timeout=0.05) as engine:
        error = await failure(engine.post)
        assert type(error) is TimeoutError
        await engine.server.client_left.wait()


async def test_a_connection_that_is_not_made_in_time_is_an_error(name: TransportName) -> None:
    # The client's first words, which begin a TLS connection, are not answered.
    async with listening(b"") as host, make_session(name) as session:
        options = EndpointOptions(f"https://{host}", {}, 0.05, 5)
        error = await failure(partial(choose(name).open_endpoint(session, options).post, b"", {}))
        assert isinstance(error, aiohttp.ConnectionTimeoutError)


async def test_an_engine_that_does_not_speak_tls_is_not_reachable(name: TransportName) -> None:
    async with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as host, make_session(name) as session:
        options = EndpointOptions(f"https://{host}", {}, 5, 5)
        error = await failure(partial(choose(name).open_endpoint(session, options).post, b"", {}))
        assert message(error) == "The engine at http://engine is not reachable."


async def test_a_session_that_is_closed_ends_all_requests() -> None:
    async with served("fast", writes(CHUNKED, b"5\r\nhello\r\n"), writes()) as engine:
        collected = Collected()
        (await engine.post()).push(collected)
        asking = asyncio.create_task(failure(engine.post))
        while len(engine.heads) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert isinstance(engine.endpoint, FastEndpoint)
        engine.endpoint.close()
        assert [type(await end) for end in (collected.end, asking)] == [aiohttp.ClientConnectionError] * 2
        assert type(await failure(engine.post)) is aiohttp.ClientConnectionError


# ---- cancellation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("kept", [False, True])
async def test_a_request_that_is_cancelled_at_any_time_leaves_no_connection(kept: bool, turns: int) -> None:
    """`turns`: of the event loop, until it is cancelled."""
    async with served("fast", *[writes(OK)] * kept, writes(CHUNKED, b"5\r\nhello\r\n")) as engine:
        if kept:
            await read(await engine.post())
        asking = asyncio.create_task(engine.post())
        for _ in range(turns):
            await asyncio.sleep(0)
        if not asking.cancel():
            asking.result().close()
        await asyncio.wait({asking})
        assert isinstance(engine.endpoint, FastEndpoint)
        while engine.endpoint._open - set(engine.endpoint._idle):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_request_that_is_cancelled_when_its_answer_has_come_leaves_its_connection_to_others() -> None:
    async with served("fast", writes(OK)) as engine:
        await read(await engine.post())
        assert isinstance(engine.endpoint, FastEndpoint)
        (connection,) = engine.endpoint._idle
        asking = asyncio.create_task(engine.post())
        while len(engine.heads) < 2 or not engine.endpoint._idle:  # noqa: ASYNC110
            await asyncio.sleep(0)
        # The answer is complete. Who asked for it may not have been woken yet.
        asking.cancel()
        await asyncio.wait({asking})
        assert list(engine.endpoint._idle) == [connection]
        assert connection.is_open


async def test_nothing_of_an_answer_is_left_once_it_has_been_read() -> None:
    async with served("fast", writes(CHUNKED, chunked(b"hello"))) as engine:
        assert await read(await engine.post()) == b"hello"
        assert isinstance(engine.endpoint, FastEndpoint)
        (connection,) = engine.endpoint._idle
        gc.collect()
        kinds = {type(one).__name__ for one in gc.get_referents(connection)}
        assert not kinds & {"Collected", "PushedAnswer", "ChunkedBody", "Future"}


# ---- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path / "engine.pem", "engine.example")


async def test_the_certificate_is_verified_for_the_name_that_is_given(certificate: Path) -> None:
    trusts, shows = ssl.create_default_context(cafile=certificate), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shows.load_cert_chain(certificate)
    server = RawServer(lambda head: writes(OK))
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=shows) as listening:
        async with make_session("fast") as session:
            url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            open_endpoint = choose("fast").open_endpoint
            endpoint = open_endpoint(session, EndpointOptions(url, {}, 5, 5, "engine.example", trusts))
            for _ in range(2):
                assert await read(await endpoint.post(b"{}", {})) == b"{}"
            assert server.connections == 1
            other = open_endpoint(session, EndpointOptions(url, {}, 5, 5, ssl_context=trusts))
            error = await failure(partial(other.post, b"{}", {}))
            assert message(error) == "The engine at http://engine is not reachable."
        await server.settle()
