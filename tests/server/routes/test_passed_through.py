"""Routes that are passed through: bodies as they are, a short list of headers, and a shutdown that waits."""

import asyncio

import aiohttp
import aiohttp.web
import msgspec
import pytest
from support.engine import CUT, DONE, MockEngine, Refusal, Writer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, standing_before, started
from support.raw_client import dialled, post
from support.raw_server import CHUNKED, Answer, chunked, raw_server, sized

pytestmark = [pytest.mark.usefixtures("both_transports"), pytest.mark.timeout(60)]

CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
PATH = "/v1/chat/completions"


async def test_a_chat_request_is_passed_through_byte_for_byte(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    engine.will(text("one", "two"))
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        assert await answer.read() == text("one", "two")
    assert engine.last == body


async def test_an_error_of_the_engine_is_passed_through_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(418, {"error": {"message": "teapot"}}))
    status, answer = await gateway.post(
        {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}, path="/v1/chat/completions"
    )
    assert (status, answer) == (418, {"error": {"message": "teapot"}})


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
async def test_other_routes_are_passed_through(path: str) -> None:
    engine = MockEngine(paths={path: lambda body: {"echo": body}})
    await engine.start()
    async with running_gateway(engine) as gateway:
        assert await gateway.post({"input": "x"}, path=path) == (200, {"echo": {"input": "x"}})
    await engine.stop()


@pytest.mark.parametrize("path", ["/v1/moderations", "/v1/rerank", "/v1/images/generations", "/v1/audio/speech"])
async def test_what_only_some_engines_serve_goes_to_one_that_does(path: str) -> None:
    speaker = MockEngine(paths={path: lambda body: {"echo": body}})
    speaker.lists("speaker")
    async with started(MockEngine()) as other, started(speaker), running_gateway(other, speaker) as gateway:
        for model in ("speaker", "mock-voice"):
            assert await gateway.post({"model": model, "input": "x"}, path=path) == (
                200,
                {"echo": {"model": model, "input": "x"}},
            )
        status, answer = await gateway.post({"model": "mock", "input": "x"}, path=path)
        assert (status, answer["error"]["code"]) == (404, "not_served")
        assert other.url in answer["error"]["message"]


async def test_a_form_goes_to_the_engine_of_its_model_as_it_came() -> None:
    path, seen = "/v1/audio/transcriptions", list[tuple[str, bytes]]()

    async def hear(request: aiohttp.web.Request) -> aiohttp.web.Response:
        seen.append((request.headers["Content-Type"], await request.read()))
        return aiohttp.web.json_response({"text": "heard"})

    app = aiohttp.web.Application()
    app.add_routes([aiohttp.web.post(path, hear), aiohttp.web.get("/v1/models", lists_whisper)])
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with started(MockEngine()) as other, running_gateway(other, url) as gateway:
        form = aiohttp.FormData({"model": "whisper"})
        form.add_field("file", b"RIFF\x00\xff", filename="a.wav", content_type="audio/wav")
        async with gateway.client.post(gateway.url + path, data=form) as answer:
            assert (answer.status, await answer.json()) == (200, {"text": "heard"})
        [(kind, body)] = seen
        assert kind.startswith("multipart/form-data; boundary=")
        assert b"RIFF\x00\xff" in body
    await runner.cleanup()


async def lists_whisper(request: aiohttp.web.Request) -> aiohttp.web.Response:
    return aiohttp.web.json_response({"object": "list", "data": [{"id": "whisper", "object": "model"}]})


async def test_a_cut_in_a_passed_through_stream_is_seen_by_the_client(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    seen = asyncio.Event()

    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await seen.wait()
        await write(CUT)

    engine.will(cut)
    body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with gateway.client.post(gateway.url + "/v1/chat/completions", data=msgspec.json.encode(body)) as answer:
        await answer.content.readuntil(b"half")
        seen.set()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_a_cut_is_seen_by_a_client_for_which_a_close_is_the_end(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """HTTP/1.0 has no chunks."""
    seen = asyncio.Event()

    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await seen.wait()
        await write(CUT)

    engine.will(cut)
    request = post(msgspec.json.encode(CHAT | {"stream": True}), path=PATH.encode()).replace(b"HTTP/1.1", b"HTTP/1.0")
    async with dialled(gateway) as client:
        await client.send(request)
        await client.reader.readuntil(b"half")
        seen.set()
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_a_stream_that_stalls_is_cut_and_its_place_is_free_again(engine: MockEngine) -> None:
    async def stall(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await asyncio.Event().wait()

    engine.will(stall)
    async with running_gateway(engine, idle_timeout=0.3, engine_requests=1) as gateway:
        async with gateway.client.post(gateway.url + PATH, json=CHAT | {"stream": True}) as answered:
            with pytest.raises(aiohttp.ClientError):
                await answered.content.read()
        await engine.cancelled.wait()
        assert (await gateway.post({"model": "mock", "input": "Hi"}))[0] == 200


async def test_an_answer_that_stalls_before_its_body_has_the_time_of_its_first_byte() -> None:
    cut = asyncio.Event()

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if head.startswith(b"GET"):
                writer.write(sized(b'{"object": "list", "data": [{"id": "mock"}]}'))
                return
            writer.write(CHUNKED)
            await cut.wait()

        return write

    async with (
        raw_server(answer) as server,
        running_gateway(server.url, first_byte_timeout=0.3, idle_timeout=60.0) as gateway,
    ):
        with pytest.raises(aiohttp.ClientError):
            await gateway.post(CHAT | {"stream": True}, path=PATH)
        cut.set()


async def test_a_body_that_is_no_http_is_a_cut_too() -> None:
    seen = asyncio.Event()

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if head.startswith(b"GET"):
                writer.write(sized(b'{"object": "list", "data": [{"id": "mock"}]}'))
                return
            writer.write(CHUNKED + chunked(chunk({"content": "half"}))[:-5])
            await seen.wait()
            writer.write(b"zz\r\nxx\r\n")

        return write

    async with (
        raw_server(answer) as server,
        running_gateway(server.url) as gateway,
        gateway.client.post(gateway.url + PATH, json=CHAT | {"stream": True}) as answered,
    ):
        await answered.content.readuntil(b"half")
        seen.set()
        with pytest.raises(aiohttp.ClientError):
            await answered.content.read()


async def test_an_engine_that_closes_its_connections_is_asked_to() -> None:
    """llama.cpp announces that it keeps a connection, and closes it after the stream: the next request would run into that."""
    async with standing_before("llamacpp", text("one")) as (gateway, engine):
        body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as answered:
            assert await answered.read() == text("one")
    assert engine.headers[-1]["Connection"] == "close"


# What an engine sends → what its client gets; None: nothing.
HEADERS: dict[str, tuple[str, str | None]] = {
    "Cache-Control": ("no-cache", "no-cache"),
    "X-RateLimit-Remaining-Requests": ("7", "7"),
    "x-ratelimit-reset-tokens": ("6m0s", "6m0s"),
    "openai-version": ("2020-10-01", "2020-10-01"),
    "openai-model": ("mock-1", "mock-1"),
    "openai-organization": ("org-1", None),
    "openai-project": ("proj_1", None),
    "x-ratelimit-reset-requests": ("\u00e9", None),
    "Retry-After": ("1.5", "2"),
    "x-should-retry": ("true", "true"),
    "Set-Cookie": ("a=1", None),
    "Authorization": ("Bearer secret", None),
    "WWW-Authenticate": ("Basic", None),
    "Proxy-Authenticate": ("Basic", None),
    "Location": ("http://other", None),
    "Link": ("<http://other>", None),
    "Refresh": ("0; http://other", None),
    "Via": ("1.1 proxy", None),
    "X-Powered-By": ("engine", None),
    "X-Odd": ("1", None),
    "Strict-Transport-Security": ("max-age=1", None),
    "Access-Control-Allow-Origin": ("*", None),
    "Clear-Site-Data": ('"*"', None),
    "antiphon-notice": ("forged", None),
}


async def test_only_headers_of_a_short_list_come_back(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(429, {"error": "no"}, {name: sent for name, (sent, _) in HEADERS.items()}))
    status, body = await gateway.post(CHAT, path=PATH)
    assert (status, body) == (429, {"error": "no"})
    assert {name: gateway.headers.get(name) for name in HEADERS} == {name: got for name, (_, got) in HEADERS.items()}
    own = {"Content-Type", "x-request-id", "openai-processing-ms", "Date", "Server", "Transfer-Encoding", "Content-Length"}
    listed = {name.lower() for name in (*HEADERS, *own)}
    assert [name for name in gateway.headers if name.lower() not in listed] == []


async def test_the_server_and_the_id_of_the_request_are_the_gateways_own(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(400, {}, {"Server": "engine/1", "x-request-id": "theirs", "openai-processing-ms": "-1"}))
    await gateway.post(CHAT, path=PATH, headers={"x-request-id": "mine"})
    assert gateway.headers["x-request-id"] == "mine"
    assert "engine" not in gateway.headers.get("Server", "")
    assert int(gateway.headers["openai-processing-ms"]) >= 0


@pytest.mark.parametrize("when", [{"Retry-After": "7"}, {"retry-after-ms": "7000"}])
async def test_where_another_attempt_is_futile_no_time_for_it_is_passed_on(
    gateway: GatewayUnderTest, engine: MockEngine, when: dict[str, str]
) -> None:
    engine.will(Refusal(503, {}, {"x-should-retry": "false", **when}))
    status, _ = await gateway.post(CHAT, path=PATH)
    assert (status, gateway.headers["x-should-retry"]) == (503, "false")
    assert not {"Retry-After", "retry-after-ms"} & set(gateway.headers)


@pytest.mark.parametrize("wait", ["inf", "nan", "-1", "soon"])
async def test_a_wait_that_makes_no_sense_is_not_passed_on(gateway: GatewayUnderTest, engine: MockEngine, wait: str) -> None:
    engine.will(Refusal(429, {}, {"Retry-After": wait}))
    await gateway.post(CHAT, path=PATH)
    assert gateway.headers.get("Retry-After", "1") in ("1", "3600")


async def test_no_header_of_the_client_goes_to_the_engine(engine: MockEngine) -> None:
    headers = {
        "Authorization": "Bearer client-key",
        "api-key": "client-key",
        "Cookie": "a=secret",
        "Host": "localhost",
        "X-Forwarded-For": "10.0.0.1",
        "OpenAI-Organization": "secret",
    }
    engine.will(Refusal(200, {}))
    async with running_gateway(engine, upstream_key="engine-key", api_key=("client-key",)) as gateway:
        assert (await gateway.post(CHAT, path=PATH, headers=headers))[0] == 200
    sent = {name.lower(): value for name, value in engine.headers[-1].items()}
    assert sent["authorization"] == "Bearer engine-key"
    assert sent["host"] == engine.url.removeprefix("http://")
    assert not {"api-key", "cookie", "x-forwarded-for", "openai-organization"} & sent.keys()


async def test_shutting_down_lets_a_stream_finish(engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await go_on.wait()
        await write(chunk(finish="stop") + DONE)

    engine.will(slow)
    async with (
        running_gateway(engine, shutdown_timeout=60) as gateway,
        gateway.client.post(gateway.url + PATH, json=CHAT | {"stream": True}) as answered,
    ):
        raw = await answered.content.readuntil(b"one")
        stopping = asyncio.create_task(gateway.app.shutdown())
        # Without a stream it takes no time at all.
        done, _ = await asyncio.wait({stopping}, timeout=0.1)
        assert not done
        go_on.set()
        raw += await answered.content.read()
        await stopping
    assert raw.endswith(DONE)


async def test_shutting_down_cuts_a_stream_that_takes_too_long(engine: MockEngine) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await asyncio.Event().wait()

    engine.will(endless)
    running = running_gateway(engine, shutdown_timeout=0.1)
    gateway = await running.__aenter__()
    async with gateway.client.post(gateway.url + PATH, json=CHAT | {"stream": True}) as answered:
        await answered.content.readuntil(b"one")
        stopping = asyncio.create_task(running.__aexit__(None, None, None))
        with pytest.raises(aiohttp.ClientError):
            await answered.content.read()
        await stopping
    await engine.cancelled.wait()


async def test_shutting_down_answers_a_request_whose_engine_has_not_begun(engine: MockEngine) -> None:
    async def silent(write: Writer) -> None:
        await asyncio.Event().wait()

    engine.will(silent)
    running = running_gateway(engine, shutdown_timeout=0.1)
    gateway = await running.__aenter__()
    posting = asyncio.create_task(gateway.post(CHAT, path=PATH))
    await engine.asked.wait()
    stopping = asyncio.create_task(running.__aexit__(None, None, None))
    status, body = await posting
    await stopping
    assert (status, body["error"]["message"]) == (503, "The gateway is shutting down.")
