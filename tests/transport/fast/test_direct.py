"""Plain requests past aiohttp's machinery: their answers are aiohttp's, and whatever else comes is aiohttp's to answer."""

import asyncio
import re
import socket
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from aiohttp import web
from support.engine import MockEngine, Refusal, Writer, text
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import RawAnswer, RawClient, dialled, get, post

from antiphon.app.lifetime import BESIDE
from antiphon.gateway.runs.run import ResponseRun
from antiphon.transport import ConnectionOptions, reads_whole
from antiphon.transport.fast.direct import MOST_AHEAD, DirectConnection, DirectServer

pytestmark = pytest.mark.timeout(60)

BODY = b'{"model": "mock", "input": "Hi"}'
STREAMED = b'{"model": "mock", "input": "Hi", "stream": true}'
KEYED: dict[str, Any] = {
    "api_key": ("right",),
    "max_body_bytes": 2_000_000,
    "cors_origins": ("https://example.com",),
    "key_requests_per_minute": 1000,
}


class Seen:
    """How many requests were answered directly, and how many connections handed over."""

    def __init__(self) -> None:
        self.direct = self.handed_over = 0
        self.connections: list[DirectConnection] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    serve, hand_over = DirectConnection._serve, DirectConnection._hand_over

    def served(connection: DirectConnection, *arguments: Any) -> Any:
        seen.direct += 1
        seen.connections.append(connection)
        return serve(connection, *arguments)

    def handed_over(*arguments: Any) -> None:
        seen.handed_over += 1
        hand_over(*arguments)

    monkeypatch.setattr(DirectConnection, "_serve", served)
    monkeypatch.setattr(DirectConnection, "_hand_over", handed_over)
    return seen


async def settled(gateway: GatewayUnderTest) -> None:
    """The gateway has read what was sent before."""
    async with dialled(gateway) as other:
        await other.send(get(b"/health"))
        assert (await other.answer()).status == 200


# ---- the same answers ------------------------------------------------------------------------------------------------

CHANGING = re.compile(
    rb"\b(resp|msg|req)_[0-9a-f]+|(?<=_at\":)\d+|(?<=Date: )[^\r]*|(?<=ms: )\d+|(?<=obfuscation\":)\"\w*\"|"
    rb"(?<=-requests: )\d+\w+|(?<=\n)[0-9a-f]+(?=\r\n)"
)

REQUESTS = {
    "whole": post(BODY, b"Authorization: Bearer right"),
    "streamed": post(STREAMED, b"Authorization: Bearer right"),
    "background": post(b'{"model": "mock", "input": "Hi", "background": true}', b"api-key: right"),
    "background, streamed": post(b'{"model": "mock", "input": "Hi", "background": true, "stream": true}', b"api-key: right"),
    "a long answer": post(b'{"model": "mock", "input": "long"}', b"api-key: right"),
    "with a notice": post(b'{"model": "mock", "input": "Hi", "user": "me", "unknown": 1}', b"api-key: right"),
    "its own id": post(BODY, b"api-key: right", b"x-request-id: mine"),
    "another path": post(BODY, b"api-key: right", path=b"/openai/v1/responses"),
    "a slash at the end": post(BODY, b"api-key: right", path=b"/v1/responses/"),
    "a query": post(BODY, b"api-key: right", path=b"/openai/responses?api-version=1"),
    "a deployment": post(b'{"input": "Hi"}', b"api-key: right", path=b"/openai/deployments/mock/responses"),
    "no key": post(BODY),
    "a wrong key": post(BODY, b"Authorization: Bearer wrong"),
    "no JSON": post(b'{"model": ', b"api-key: right"),
    "a wrong field": post(b'{"model": "mock", "input": 5}', b"api-key: right"),
    "no such model": post(b'{"model": "none", "input": "Hi"}', b"api-key: right"),
    "a refusal": post(b'{"model": "mock", "input": "refuse"}', b"api-key: right"),
    "a page that may": post(BODY, b"api-key: right", b"Origin: https://example.com", b"Content-Type: application/json"),
    "a page that may not": post(BODY, b"api-key: right", b"Origin: https://example.org", b"Content-Type: application/json"),
    "a page without JSON": post(BODY, b"api-key: right", b"Origin: https://example.com", b"Content-Type: text/plain"),
    "an unknown coding": post(BODY, b"api-key: right", b"Content-Encoding: rot13"),
    "a trace": post(BODY, b"api-key: right", b"traceparent: 00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"),
    "too large": post(b'{"model": "mock", "input": "' + b"x" * 3_000_000 + b'"}', b"api-key: right"),
    "a body of nothing": post(b"", b"api-key: right"),
    "an expectation": post(BODY, b"api-key: right", b"Expect: something"),
    "two lengths": post(BODY, b"api-key: right", b"Content-Length: 5"),
    "HTTP/1.0": post(BODY, b"api-key: right").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0, streamed": post(STREAMED, b"api-key: right").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "no HTTP": b"hello\r\n\r\n",
}


def answers_of(engine: MockEngine) -> None:
    def answer(body: dict[str, Any]) -> Any:
        asked = str(body["messages"][-1]["content"])
        return (
            Refusal(400, {"error": {"message": "No."}})
            if "refuse" in asked
            else text("x" * 200_000 if "long" in asked else "Hi")
        )

    engine.otherwise = answer


async def all_answers(gateway: GatewayUnderTest, request: bytes) -> bytes:
    """To the request, and to one after it, on the same connection."""
    async with dialled(gateway) as client:
        await client.send(request)
        await client.send(get(b"/health", b"Connection: close"))
        return CHANGING.sub(b"", await client.rest())


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_the_answers_are_those_of_aiohttp(engine: MockEngine, request_: bytes) -> None:
    answers_of(engine)
    async with (
        running_gateway(engine, transport="fast", **KEYED) as direct,
        running_gateway(engine, transport="plain", **KEYED) as plain,
    ):
        expected, found = await all_answers(plain, request_), await all_answers(direct, request_)
    # A stream is written in chunks of any size.
    assert found.replace(b"\r\n", b"") == expected.replace(b"\r\n", b"")
    assert found.startswith(b"HTTP/1.")


DIRECT = ["whole", "streamed", "no key", "its own id", "another path", "a page that may", "no JSON", "a trace"]
NOT_DIRECT = ["a slash at the end", "a query", "too large", "a body of nothing", "two lengths", "HTTP/1.0", "no HTTP"]


@pytest.mark.parametrize("name", [*DIRECT, *NOT_DIRECT])
async def test_which_requests_are_answered_directly(engine: MockEngine, seen: Seen, name: str) -> None:
    async with (
        running_gateway(engine, transport="fast", **KEYED) as gateway,
        dialled(gateway) as client,
    ):
        await client.send(REQUESTS[name])
        await client.reader.readexactly(9)
    assert (seen.direct, seen.handed_over) == ((1, 0) if name in DIRECT else (0, 1))


async def test_the_plain_transport_answers_nothing_directly(engine: MockEngine, seen: Seen) -> None:
    async with running_gateway(engine, transport="plain") as gateway, dialled(gateway) as client:
        await client.send(post(BODY))
        assert (await client.answer()).status == 200
    assert (seen.direct, seen.handed_over) == (0, 0)


async def test_a_middleware_that_may_read_the_body_otherwise_ends_it(engine: MockEngine) -> None:
    @web.middleware
    async def other(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.StreamResponse = await handler(request)
        return response

    async with running_gateway(engine, transport="fast") as gateway:
        options = gateway.app[BESIDE].connection_options
        for middlewares in ([], [reads_whole(other)]):
            assert list(direct_server(options, middlewares).routes) == [b"POST /v1/responses HTTP/1.1"]
        del other.reads_whole  # type: ignore[attr-defined]
        assert list(direct_server(options, [other]).routes) == []


def direct_server(options: ConnectionOptions, middlewares: list[Any]) -> DirectServer:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    app = web.Application(middlewares=middlewares)
    app.add_routes([web.post("/v1/responses", handler), web.get("/v1/responses", handler), web.post("/v1/files", handler)])
    return DirectServer(web.Server(handler), app, options)


# ---- however the bytes come ------------------------------------------------------------------------------------------


async def test_any_split_of_a_request_gives_the_same_answer(engine: MockEngine, seen: Seen) -> None:
    request = post(BODY, b"Accept: */*")
    async with running_gateway(engine, transport="fast") as gateway:
        for size in range(1, len(request)):
            async with dialled(gateway) as client:
                await client.send(request[:size])
                await settled(gateway)
                await client.send(request[size:])
                answer = await client.answer()
                assert (answer.status, answer.json["status"]) == (200, "completed")
                # Nothing is left over.
                await client.send(request)
                assert (await client.answer()).status == 200
    # Each of the others asks whether the gateway has read, by a GET.
    assert seen.handed_over == len(request) - 1 + len(request) - len(BODY) - 1


async def test_a_body_may_come_byte_by_byte(engine: MockEngine, seen: Seen) -> None:
    request = post(BODY)
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        await client.send(request[: -len(BODY)])
        for byte in BODY:
            await settled(gateway)
            await client.send(bytes([byte]))
        assert (await client.answer()).status == 200
    assert seen.direct == 1


def question(word: str) -> bytes:
    return post(msgspec.json.encode({"model": "mock", "input": word}))


async def test_pipelined_requests_are_answered_in_order(engine: MockEngine, seen: Seen) -> None:
    engine.otherwise = lambda body: text(str(body["messages"][-1]["content"]))
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        await client.send(question("a") + question("b") + get(b"/health") + question("c") + get(b"/health"))
        found = [await client.answer() for _ in range(5)]
        await client.send(question("d"))
        found.append(await client.answer())
    assert [said(answer) for answer in found] == ["a", "b", None, "c", None, "d"]
    assert (seen.direct, seen.handed_over) == (2, 1)


def said(answer: RawAnswer) -> str | None:
    output = answer.json.get("output")
    return str(output[0]["content"][0]["text"]) if output else None


async def test_what_comes_while_a_request_is_answered_waits_and_is_bounded(engine: MockEngine, seen: Seen) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(write: Writer) -> None:
        asked.set()
        await go_on.wait()
        await write(text("first"))

    engine.will(script)
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        await client.send(post(BODY))
        await asked.wait()
        long = question("x" * 4_000_000)
        sending = asyncio.create_task(client.send(long))
        for _ in range(20):
            await settled(gateway)
        # One read more than the limit.
        assert MOST_AHEAD < len(seen.connections[0]._ahead) <= MOST_AHEAD + 256 * 1024
        go_on.set()
        assert said(await client.answer()) == "first"
        assert (await client.answer()).status == 200
        await sending


async def test_a_connection_whose_client_does_not_read_is_handed_over_as_it_is(engine: MockEngine) -> None:
    async with running_gateway(engine, transport="fast") as gateway:
        connection = direct_server(gateway.app[BESIDE].connection_options, [])()
    transport = Mock()
    transport.get_write_buffer_size.return_value = 1
    connection.connection_made(transport)
    connection.pause_writing()
    connection.data_received(b"GET")
    (successor,) = transport.set_protocol.call_args.args
    assert successor.writing_paused
    successor.resume_writing()
    successor.connection_lost(None)


async def test_the_rest_of_a_body_that_nobody_reads_is_awaited(engine: MockEngine, seen: Seen) -> None:
    request = post(BODY)
    async with running_gateway(engine, transport="fast", api_key=("right",)) as gateway, dialled(gateway) as client:
        await client.send(request[:-5])
        assert (await client.answer()).status == 401
        await client.send(request[-5:] + post(BODY, b"api-key: right"))
        assert (await client.answer()).status == 200
    assert seen.direct == 2


async def test_the_system_looks_after_clients_that_vanish(engine: MockEngine, seen: Seen) -> None:
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        await client.send(post(BODY))
        assert (await client.answer()).status == 200
        transport = seen.connections[0].transport
        assert transport is not None
        assert transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [BODY, STREAMED], ids=["whole", "streamed"])
async def test_a_client_that_leaves_ends_the_work_of_the_engine(engine: MockEngine, seen: Seen, body: bytes) -> None:
    async def script(write: Writer) -> None:
        await write(text("Hi")[:100])
        await asyncio.Event().wait()

    engine.will(script)
    async with running_gateway(engine, transport="fast") as gateway:
        async with dialled(gateway) as client:
            await client.send(post(body))
            await engine.asked.wait()
        await engine.cancelled.wait()
    assert seen.direct == 1


async def test_a_stream_that_runs_when_the_gateway_stops_is_finished(engine: MockEngine, seen: Seen) -> None:
    go_on = asyncio.Event()

    async def script(write: Writer) -> None:
        await go_on.wait()
        await write(text("Hi"))

    engine.will(script)
    async with running_gateway(engine, transport="fast", heartbeat=0.1) as gateway:
        reader, writer = await asyncio.open_connection(*gateway.url.removeprefix("http://").split(":"))
        idle_reader, idle_writer = await asyncio.open_connection(*gateway.url.removeprefix("http://").split(":"))
        idle = RawClient(idle_reader, idle_writer)
        await idle.send(post(BODY.replace(b"Hi", b"other")))
        await engine.asked.wait()
        client = RawClient(reader, writer)
        await client.send(post(STREAMED))
        await client.reader.readuntil(b"\r\n\r\n")
        asyncio.get_running_loop().call_later(0.2, go_on.set)
    rest = await client.rest()
    assert b"response.completed" in rest
    assert rest.endswith(b"0\r\n\r\n")
    await idle.rest()
    writer.close()
    idle_writer.close()


async def test_an_error_after_the_head_cuts_the_answer_off(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(run: ResponseRun, sink: Any) -> None:
        sink._stream.write([b"event: x\n\n"])
        raise RuntimeError("a bug")

    monkeypatch.setattr(ResponseRun, "run", broken)
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        await client.send(post(STREAMED))
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not answer.endswith(b"0\r\n\r\n")


# ---- heads that repeat themselves ------------------------------------------------------------------------------------


async def test_each_request_of_a_connection_has_its_own_head_and_body(engine: MockEngine, seen: Seen) -> None:
    def ask(words: str, *headers: bytes) -> bytes:
        return post(msgspec.json.encode({"model": "mock", "input": words}), b"Authorization: Bearer right", *headers)

    async with running_gateway(engine, transport="fast", **KEYED) as gateway, dialled(gateway) as client:
        for number, words in enumerate(("a", "b", "longer", "longer", "c"), 1):
            await client.send(ask(words))
            assert (await client.answer()).status == 200
            assert engine.requests[-1]["messages"][-1]["content"] == words
            assert (seen.direct, seen.handed_over) == (number, 0)
        assert seen.connections[-1]._known is not None
        await client.send(ask("d", b"x-request-id: mine"))
        assert (await client.answer()).headers["x-request-id"] == "mine"
        await client.send(ask("e"))
        assert (await client.answer()).headers["x-request-id"] != "mine"
        await client.send(ask("f").replace(b"right", b"wrong"))
        assert (await client.answer()).status == 401
