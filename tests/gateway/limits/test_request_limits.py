"""The limits of a request are settings, and count however it comes. `test_limits.py` of the Responses protocol tries each."""

from typing import Any

import msgspec
import pytest
from support.engine import MockEngine
from support.gateway import running_gateway

from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.settings.settings import Settings

TOOLS = [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]
TOO_MANY = {"model": "mock", "input": "Hi", "tools": TOOLS}
WORDS = "Invalid `tools`: it has 2 tools, and at most 1 tool is allowed (`max_tools`)."


def test_every_limit_is_a_setting_with_the_same_default() -> None:
    settings = Settings()
    assert (
        RequestLimits(**{name: getattr(settings, f"max_{name}") for name in RequestLimits.__struct_fields__}) == RequestLimits()
    )


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"])
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"background": True}], ids=["whole", "stream", "background"])
async def test_a_limit_counts_on_every_route(engine: MockEngine, path: str, fields: dict[str, Any]) -> None:
    async with running_gateway(engine, max_tools=1) as gateway:
        status, body = await gateway.post({**TOO_MANY, **fields}, path)
    assert (status, body["error"]["param"], body["error"]["message"]) == (400, "tools", WORDS)
    assert engine.requests == []


async def test_a_limit_counts_over_a_websocket(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, max_tools=1) as gateway,
        gateway.client.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        await socket.send_str(msgspec.json.encode({"type": "response.create", **TOO_MANY}).decode())
        answered = msgspec.json.decode((await socket.receive()).data)
    assert (answered["type"], answered["status"], answered["error"]["message"]) == ("error", 400, WORDS)


async def test_a_conversation_takes_no_json_that_is_too_deep(engine: MockEngine) -> None:
    deep = msgspec.Raw(b"[" * 500 + b"]" * 500)
    async with running_gateway(engine) as gateway:
        status, body = await gateway.post({"items": [{"type": "x", "a": deep}]}, "/v1/conversations")
    assert (status, body["error"]["param"]) == (400, "items[0]")
