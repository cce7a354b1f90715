"""Pydantic AI: agents with an `OpenAIResponsesModel`, over HTTP and over a WebSocket."""

import pytest
from support.client_conversations import (
    BROKEN,
    CUT_OFF,
    GREETING,
    PERSON,
    SCHEMA_OF_PERSON,
    THOUGHT,
    TWO_CALLS,
    after_two_calls,
    messages,
    over_websockets,
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import Player, PythonScript
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("pydantic_ai_agent.py", environment="openai3")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_text_that_was_cut_off_is_marked(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(CUT_OFF)
    assert await client.play("cut", gateway) == ["Hello", "length"]
    assert engine.last["max_tokens"] == 16


async def test_an_engine_that_fails_in_its_answer_is_an_error(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(BROKEN)
    name, message = await client.play("broken", gateway)
    assert name == "ModelServerError"
    assert "The engine failed: out of memory" in message


async def test_a_thought_is_a_part_of_its_own(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == [["thinking", THOUGHT], ["text", "Hello, Ada."]]
    assert engine.last["reasoning_effort"] == "low"


@pytest.mark.parametrize("scenario", ["tools", "tools_without_store", "tools_with_previous_response", "streamed_tools"])
async def test_two_calls_at_once_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play(scenario, gateway) == "Sunny."
    assert messages(engine.last) == after_two_calls()


async def test_a_loop_runs_over_a_websocket(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*over_websockets(gateway, TWO_CALLS, text("Sunny.")))
    assert await client.play("tools_over_websocket", gateway) == "Sunny."
    assert messages(engine.last) == after_two_calls()


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("structured", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("final_result", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("structured_by_tool", gateway) == {"name": "Ada", "age": 36}
    assert engine.last["tool_choice"] == "required"


@pytest.mark.parametrize("scenario", ["two_turns", "two_turns_without_store", "two_turns_with_previous_response"])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == "Ada."
    assert messages(engine.last) == second_turn()
