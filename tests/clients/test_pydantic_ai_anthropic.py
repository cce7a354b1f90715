"""Pydantic AI: agents with an `AnthropicModel`."""

import base64

from support.client_conversations import GREETING, TWO_CALLS, messages, result, second_turn, user
from support.clients import Player
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest
from support.pdfs import make_pdf

CLIENT = "pydantic_ai_anthropic"


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("final_result", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("structured_by_tool", gateway) == {"name": "Ada", "age": 36}
    assert engine.last["tool_choice"] == "required"


async def test_the_model_is_told_that_a_tool_failed(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Unknown."))
    assert await client.play("failing_tools", gateway) == "Unknown."
    assert messages(engine.last)[-2:] == [
        result("Error: Paris is unknown.", id="call_1"),
        result("Error: Rome is unknown.", id="call_2"),
    ]


async def test_a_system_message_stays_in_its_place(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play("told_later", gateway) == "Ada."
    assert messages(engine.last) == [*second_turn(), user("<system_message>\nBe brief.\n</system_message>")]


async def test_a_document_is_read(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    data = base64.b64encode(make_pdf("Once.")).decode()
    assert await client.play("document", gateway, data=data) == "Hello world"
    assert messages(engine.last) == [user('What does it say?\n<file name="file">\n[page 1]\nOnce.\n</file>')]
