"""The AI SDK of Vercel with Anthropic's provider: `ai` with `@ai-sdk/anthropic`."""

import base64
from typing import Any

import pytest
from support.client_conversations import PERSON, SCHEMA_OF_PERSON, TWO_CALLS, messages, result, schema_of, user
from support.clients import Player
from support.engine import MockEngine, Refusal, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.pdfs import make_pdf

CLIENT = "vercel_ai_anthropic"


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("json", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("objectByTool", gateway) == {"name": "Ada", "age": 36}
    assert engine.last["tool_choice"] == "required"
    assert engine.last["parallel_tool_calls"] is False


async def test_an_object_is_streamed(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    seen = await client.play("objectStream", gateway)
    assert seen["object"] == {"name": "Ada", "age": 36}
    assert seen["partial"][-1] == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


async def test_the_model_is_told_that_a_tool_failed(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Unknown."))
    assert await client.play("failing", gateway) == "Unknown."
    assert messages(engine.last)[-2:] == [
        result("Error: Paris is unknown.", id="call_1"),
        result("Error: Rome is unknown.", id="call_2"),
    ]


async def test_a_tool_that_anthropic_defines_is_run(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("bash", '{"command": "ls"}'), finish="tool_calls"), text("Done."))
    assert await client.play("builtin", gateway) == "Done."
    assert messages(engine.last)[-1] == result("ran ls", id="call_1")
    assert list(engine.last["tools"][0]["function"]["parameters"]["properties"]) == ["command", "restart"]


async def test_an_image_is_passed_on(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("file", gateway, data="iVBORw==", mediaType="image/png") == "Hello world"
    said, shown = engine.last["messages"][0]["content"]
    assert said == {"type": "text", "text": "What is it?"}
    assert shown == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}


async def test_a_document_is_read(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    data = base64.b64encode(make_pdf("Once.")).decode()
    assert await client.play("file", gateway, data=data, mediaType="application/pdf") == "Hello world"
    assert messages(engine.last) == [user('What is it?\n<file name="a.pdf">\n[page 1]\nOnce.\n</file>')]


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({"retries": 0}, {"status": 529, "message": "The engine is not ready: loading", "isRetryable": True}),
        ({"api_key": ("right",)}, {"status": 401, "message": "Incorrect API key provided.", "isRetryable": False}),
    ],
    ids=["overloaded", "wrong_key"],
)
async def test_the_client_knows_which_errors_may_pass(
    client: Player, engine: MockEngine, settings: dict[str, Any], seen: dict[str, Any]
) -> None:
    engine.will(Refusal(503, {"error": {"message": "loading"}}))
    async with running_gateway(engine, **settings) as gateway:
        assert await client.play("refused", gateway) == seen
