"""Errors as clients see them: OpenAI's envelope, the right status, and never a 500."""

import logging
import re
from typing import Any

import msgspec
import pytest
from aiohttp import web
from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import dialled, post

from antiphon.core.protocols.table import PROTOCOLS
from antiphon.errors import MethodNotAllowed
from antiphon.logs import JsonFormatter
from antiphon.server.paths import ProtocolPaths
from antiphon.server.routes.table import ROUTES

TOO_LONG = Refusal(
    400,
    {
        "error": {
            "code": 400,
            "message": "request (5031 tokens) exceeds the available context size (2048 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 5031,
            "n_ctx": 2048,
        }
    },
)


def is_envelope(body: dict[str, Any]) -> bool:
    error = body["error"]
    return error.keys() == {"message", "type", "param", "code"} and (error["code"] is None or isinstance(error["code"], str))


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"input": "\\ud800"}', b'{"a":' * 5000, b"null", b'{"seed": 1e999}'],
)
async def test_a_body_that_is_no_json_object_is_a_400(gateway: GatewayUnderTest, body: bytes) -> None:
    status, answer = await gateway.post(body)
    assert status == 400
    assert is_envelope(answer)


async def test_a_wrong_field_is_a_400_that_names_it(gateway: GatewayUnderTest) -> None:
    status, answer = await gateway.post({"input": [{"role": "user", "content": [{"type": "input_text", "text": 3}]}]})
    assert status == 400
    assert answer["error"]["param"] == "input[0].content[0].text"
    assert answer["error"]["type"] == "invalid_request_error"


async def test_context_overflow_is_a_failed_stream_or_a_400(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TOO_LONG, TOO_LONG)
    events = await gateway.stream()
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
    status, answer = await gateway.post({"input": "Hi"})
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert is_envelope(answer)


async def test_a_rejection_by_the_engine_is_a_400_with_its_reason(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for stream in (True, False):
        engine.will(Refusal(400, {"error": {"message": "unrecognized type frob", "code": 400}}))
        status, answer = await gateway.post({"input": "Hi", "stream": stream})
        assert status == 400
        assert "unrecognized type frob" in answer["error"]["message"]


async def test_a_body_that_is_too_large_is_a_413(engine: MockEngine) -> None:
    async with running_gateway(engine, max_body_bytes=1000) as gateway:
        status, answer = await gateway.post({"input": "x" * 2000})
        assert status == 413
        assert is_envelope(answer)
        assert answer["error"]["message"] == "The body is larger than 1000 bytes."
        at_most = msgspec.json.encode({"model": "mock", "input": "Hi"}).ljust(1000)
        assert (await gateway.post(at_most))[0] == 200
        assert (await gateway.post(at_most + b" "))[0] == 413


async def test_a_limit_of_one_is_said_in_the_singular(engine: MockEngine) -> None:
    async with running_gateway(engine, max_body_bytes=1) as gateway:
        _, answer = await gateway.post({"input": "Hi"})
        assert answer["error"]["message"] == "The body is larger than 1 byte."


async def test_an_unknown_route_is_a_404_and_an_unknown_method_a_405(gateway: GatewayUnderTest) -> None:
    status, answer = await gateway.post({}, path="/v1/nothing")
    assert status == 404
    assert is_envelope(answer)
    async with gateway.client.put(gateway.url + "/v1/responses") as wrong:
        assert wrong.status == 405
        assert is_envelope(await wrong.json())


def methods_at(path: str) -> set[str]:
    """What the table of routes has for a path."""
    methods = set()
    for route in ROUTES:
        assert isinstance(route, web.RouteDef)
        if re.fullmatch(VARIABLE.sub(lambda name: name["pattern"] or "[^/]+", route.path), path):
            methods.add(route.method)
            if route.method == "GET" and route.kwargs.get("allow_head", True):
                methods.add("HEAD")
    return methods


VARIABLE = re.compile(r"\{\w+(:(?P<pattern>[^}]+))?\}")
PATHS = sorted(
    {
        VARIABLE.sub(lambda name: "" if name["pattern"] == "/?" else "x", route.path)
        for route in ROUTES
        if isinstance(route, web.RouteDef)
    }
)


async def test_a_method_that_a_path_does_not_take_gets_those_that_it_takes(gateway: GatewayUnderTest) -> None:
    protocols = ProtocolPaths(PROTOCOLS)
    for path in PATHS:
        taken = methods_at(path)
        assert taken, path
        for method in {"HEAD", "OPTIONS", "PATCH", "PUT"} - taken:
            async with gateway.client.request(method, gateway.url + path) as answer:
                assert answer.status == 405, (method, path)
                assert answer.headers["Allow"] == ", ".join(sorted(taken)), (method, path)
                if method != "HEAD":
                    refusal = MethodNotAllowed(f"{path} takes {', '.join(sorted(taken))}, not {method}.", taken)
                    refused = protocols.protocol_of(path, {}).error(refusal, answer.headers["x-request-id"])
                    assert await answer.read() == refused.body


async def test_a_broken_upgrade_is_rejected_so_that_codex_falls_back_at_once(gateway: GatewayUnderTest) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with gateway.client.get(gateway.url + "/v1/responses", headers=headers) as answer:
        assert answer.status == 426
        assert is_envelope(await answer.json())


async def test_every_answer_has_a_request_id_and_a_valid_one_of_the_client_is_kept(gateway: GatewayUnderTest) -> None:
    await gateway.post({"input": "Hi"}, headers={"x-request-id": "mine-1"})
    assert gateway.headers["x-request-id"] == "mine-1"
    await gateway.post({"input": "Hi"}, headers={"x-request-id": 'x" forged'})
    assert gateway.headers["x-request-id"].startswith("req_")
    await gateway.post(b"{")
    assert gateway.headers["x-request-id"].startswith("req_")
    await gateway.stream()
    assert gateway.headers["x-request-id"].startswith("req_")
    assert "OpenAI-Model" not in gateway.headers


async def test_a_bug_in_the_gateway_is_not_a_500(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("antiphon.gateway.runs.gateway.request_to_items", bug)
    status, answer = await gateway.post({"input": "Hi"})
    assert (status, answer["error"]["code"]) == (502, "internal_error")
    assert "bug" in caplog.text


async def test_a_bug_in_the_middle_of_a_stream_still_ends_it_properly(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("antiphon.core.stream.chat_chunks.ChunkReader.receive", bug)
    events = await gateway.stream()
    assert events[-1]["type"] == "response.failed"
    assert "bug" in caplog.text


@pytest.mark.usefixtures("both_transports")
async def test_after_the_head_of_a_stream_no_other_head_follows(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("antiphon.gateway.runs.run.ResponseRun.run", bug)
    async with dialled(gateway) as client:
        await client.send(post(b'{"model": "mock", "input": "Hi", "stream": true}'))
        received = await client.rest()
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1") == 1
    # Not of all of it: the last header may end with a zero.
    assert not received.partition(b"\r\n\r\n")[2].endswith(b"0\r\n\r\n")
    assert "bug" in caplog.text


KEYS = ("first-key", "second-key")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer first-key", 200),
        ("Bearer second-key", 200),
        ("bearer second-key", 200),
        ("Bearer third-key", 401),
        ("Bearer first-ke", 401),
        ("Basic first-key", 401),
        ("Bearer ", 401),
        ("Bearer ключ", 401),
        (None, 401),
    ],
)
async def test_a_key_is_required_if_one_is_set(engine: MockEngine, header: str | None, status: int) -> None:
    async with running_gateway(engine, api_key=KEYS) as gateway:
        headers = {"Authorization": header} if header else {}
        for path in ("/v1/responses", "/v1/chat/completions"):
            messages = [{"role": "user", "content": "Hi"}]
            sent = {"model": "mock"} | ({"input": "Hi"} if path == "/v1/responses" else {"messages": messages})
            code, answer = await _quietly(gateway, sent, path, headers)
            assert code == status, answer
            if status == 401:
                assert answer["error"]["code"] == "invalid_api_key"
        async with gateway.client.get(gateway.url + "/health") as health:
            assert health.status == 200


async def _quietly(gateway: GatewayUnderTest, body: Any, path: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    async with gateway.client.post(gateway.url + path, json=body, headers=headers) as answer:
        raw = await answer.read()
        return answer.status, (await answer.json() if answer.content_type == "application/json" else {"raw": raw})


async def test_neither_prompts_nor_answers_nor_keys_are_logged(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    engine.will(text("secret-answer"), Refusal(400, {"error": {"message": "cannot read secret-prompt"}}))
    with caplog.at_level(logging.DEBUG, "antiphon"):
        async with running_gateway(engine, api_key=("secret-key",), upstream_key="secret-upstream") as gateway:
            for key in ("secret-key", "secret-key", "secret-wrong"):
                await gateway.post({"input": "secret-prompt"}, headers={"Authorization": f"Bearer {key}"})
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name == "antiphon"]
    # What was learned of the engine, and the three requests.
    assert len(lines) == 4
    assert '"status":200' in lines[1]
    assert '"input_tokens":12' in lines[1]
    assert not any("secret" in line for line in lines)


async def test_an_engine_that_is_not_ready_is_a_503_with_retry_after() -> None:
    async with running_gateway("http://127.0.0.1:9", retries=0) as gateway:
        async with gateway.client.get(gateway.url + "/ready") as ready:
            assert ready.status == 503
            assert int(ready.headers["Retry-After"]) >= 1
        async with gateway.client.get(gateway.url + "/health") as health:
            assert health.status == 200
