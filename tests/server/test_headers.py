"""The headers of every answer: what a client may do next, how long it took, and which pages may read it."""

import re
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI, InternalServerError
from support.background import Background
from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import dialled, get, post

from antiphon import __version__

PAGE = "https://page.example"
FORMAT: Any = {"type": "json_schema", "name": "a", "strict": True, "schema": {"type": "object", "required": ["a"]}}


async def headers_of(gateway: GatewayUnderTest, method: str, path: str, **options: Any) -> tuple[int, Any]:
    async with gateway.client.request(method, gateway.url + path, **options) as answer:
        await answer.read()
        return answer.status, answer.headers


# ---- whether to try again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/responses", {"input": 3}, 400),
        ("POST", "/v1/responses", {"input": "Hi", "previous_response_id": "resp_none"}, 400),
        ("GET", "/v1/responses/resp_none", None, 404),
        ("GET", "/v1/nothing", None, 404),
        ("PUT", "/v1/responses", None, 405),
        ("GET", "/v1/responses", None, 426),
    ],
)
async def test_what_cannot_succeed_is_not_to_be_tried_again(
    gateway: GatewayUnderTest, method: str, path: str, body: Any, status: int
) -> None:
    answered, headers = await headers_of(gateway, method, path, json=body)
    assert (answered, headers["x-should-retry"]) == (status, "false")


async def test_an_answer_that_was_invalid_twice_is_not_asked_for_again_by_the_sdk(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(text("no JSON"), text("no JSON either"))
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=3) as client:
        with pytest.raises(InternalServerError) as failed:
            await client.responses.create(model="mock", input="Hi", text={"format": FORMAT})
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert len(engine.requests) == 2


async def test_an_answer_that_was_invalid_twice_fails_with_a_code_for_which_no_client_asks_again(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(*[text("no JSON")] * 4)
    events = await gateway.stream(text={"format": FORMAT})
    assert (events[-1]["type"], events[-1]["response"]["error"]["code"]) == ("response.failed", "invalid_prompt")
    later = await Background(gateway).made(text={"format": FORMAT})
    assert (later["status"], later["error"]["code"]) == ("failed", "invalid_prompt")
    assert len(engine.requests) == 4


async def test_an_input_that_is_too_long_is_not_to_be_sent_again(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "the request exceeds the available context size", "code": 400}}))
    status, answer = await gateway.post({"input": "Hi"})
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert gateway.headers["x-should-retry"] == "false"


async def test_what_may_pass_may_be_tried_again(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*[Refusal(503, {"error": {"message": "busy"}}, {"Retry-After": "30"})] * 3)
    status, _ = await gateway.post({"input": "Hi"})
    assert status == 503
    assert "x-should-retry" not in gateway.headers


# ---- how long it took ------------------------------------------------------------------------------------------------


async def test_every_answer_says_how_long_it_took(gateway: GatewayUnderTest) -> None:
    await gateway.post({"input": "Hi"})
    assert int(gateway.headers["openai-processing-ms"]) >= 0
    await gateway.post(b"{")
    assert int(gateway.headers["openai-processing-ms"]) >= 0
    await gateway.stream()
    assert int(gateway.headers["openai-processing-ms"]) >= 0
    await gateway.get("/health")
    assert int(gateway.headers["openai-processing-ms"]) >= 0
    async with gateway.client.ws_connect(gateway.url + "/v1/responses") as socket:
        assert int(socket._response.headers["openai-processing-ms"]) >= 0
        assert socket._response.headers["x-request-id"].startswith("req_")


# ---- pages of other origins ------------------------------------------------------------------------------------------


async def preflight(gateway: GatewayUnderTest, origin: str, **more: str) -> tuple[int, Any]:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", **more}
    return await headers_of(gateway, "OPTIONS", "/v1/responses", headers=headers)


async def test_without_the_setting_no_page_of_another_origin_is_let_in(gateway: GatewayUnderTest) -> None:
    status, headers = await preflight(gateway, PAGE)
    assert status == 403
    assert "Access-Control-Allow-Origin" not in headers
    assert (await gateway.post({"input": "Hi"}, headers={"Origin": PAGE}))[0] == 403
    assert not [name for name in gateway.headers if name.startswith("Access-Control")]


async def test_a_preflight_is_answered_before_the_key_is_checked(engine: MockEngine) -> None:
    async with running_gateway(engine, cors_origins=(PAGE + "/",), api_key=("k",)) as gateway:
        asked = {"Access-Control-Request-Headers": "authorization, content-type"}
        status, headers = await preflight(gateway, PAGE, **asked, **{"Access-Control-Request-Private-Network": "true"})
        assert status == 204
        assert headers["Access-Control-Allow-Origin"] == PAGE
        assert "POST" in headers["Access-Control-Allow-Methods"]
        assert headers["Access-Control-Allow-Headers"] == "authorization, content-type"
        assert headers["Access-Control-Allow-Private-Network"] == "true"
        assert headers["Vary"] == "Origin"
        status, headers = await preflight(gateway, "https://other.example")
        assert status == 403
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(("setting", "sent"), [(PAGE, PAGE), ("*", "*")])
async def test_answers_streams_and_errors_can_be_read_by_an_allowed_page(engine: MockEngine, setting: str, sent: str) -> None:
    async with running_gateway(engine, cors_origins=("https://first.example", setting)) as gateway:
        for body in ({"input": "Hi"}, {"input": "Hi", "stream": True}, {"input": 3}):
            status, headers = await headers_of(gateway, "POST", "/v1/responses", json=body, headers={"Origin": PAGE})
            assert (status, headers["Access-Control-Allow-Origin"]) == (400 if body["input"] == 3 else 200, sent)
            exposed = headers["Access-Control-Expose-Headers"].split(", ")
            assert {"x-request-id", "antiphon-notice", "antiphon-way", "retry-after", "openai-processing-ms"} <= set(exposed)


async def test_an_engine_does_not_decide_which_pages_may_read(engine: MockEngine) -> None:
    engine.will(Refusal(418, {}, {"Access-Control-Allow-Origin": "*"}))
    async with running_gateway(engine, cors_origins=("https://first.example",)) as gateway:
        chat = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
        status, headers = await headers_of(gateway, "POST", "/v1/chat/completions", json=chat)
        assert (status, "Access-Control-Allow-Origin" in headers) == (418, False)


async def test_an_allowed_page_may_open_a_websocket_and_another_may_not(engine: MockEngine) -> None:
    async with running_gateway(engine, cors_origins=(PAGE,)) as gateway:
        async with gateway.client.ws_connect(gateway.url + "/v1/responses", origin=PAGE) as socket:
            await socket.send_json({"type": "response.create", "input": "Hi"})
            assert (await socket.receive_json())["type"] == "response.created"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await gateway.client.ws_connect(gateway.url + "/v1/responses", origin="https://other.example")
        assert refused.value.status == 403


# ---- whose answer it is ----------------------------------------------------------------------------------------------

HANDSHAKE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: " + b"a" * 22 + b"==",
)
CHAT = b'{"messages": [{"role": "user", "content": "Hi"}]}'
ANSWERS = {
    "a whole answer": (post(b'{"input": "Hi"}'), 200),
    "a stream": (post(b'{"input": "Hi", "stream": true}'), 200),
    "a request that is passed through": (
        post(b'{"messages": [{"role": "user", "content": "Hi"}]}', path=b"/v1/chat/completions"),
        200,
    ),
    "a WebSocket": (get(b"/v1/responses", *HANDSHAKE), 101),
    "an error": (post(b"{"), 400),
    "a path that is not there": (get(b"/nothing"), 404),
    "an expectation": (post(b"{}", b"Expect: miracles"), 400),
    "the metrics": (get(b"/metrics"), 200),
    "what is no HTTP": (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
    "half a head": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", 408),
}


@pytest.mark.usefixtures("both_transports")
@pytest.mark.parametrize("name", ANSWERS)
async def test_every_answer_names_the_server_once(engine: MockEngine, name: str) -> None:
    request, status = ANSWERS[name]
    async with running_gateway(engine, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(request)
        head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.split()[1] == b"%d" % status
    assert re.findall(rb"(?im)^server: (.*?)\r$", head) == [f"antiphon/{__version__}".encode()]
