"""Strands Agents: an agent with an `OpenAIResponsesModel`, with and without state on the server.

It leaves thoughts out of what it sends back.
"""

import pytest
from support.client_conversations import GREETING, THOUGHT, TWO_CALLS, after_two_calls, messages, second_turn, system, user
from support.clients import Player, PythonScript
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("strands_agent.py", environment="openai2")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"texts": ["Hello world"], "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_thought_is_streamed_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == THOUGHT
    assert engine.last["reasoning_effort"] == "low"


async def test_two_calls_at_once_are_run_and_answered(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play("tools", gateway) == ["Sunny."]
    assert messages(engine.last) == after_two_calls(thought=False)


async def test_calls_that_are_repeated_beside_the_response_that_made_them_count_once(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play("tools_with_state", gateway) == ["Sunny."]
    assert messages(engine.last) == after_two_calls()


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("Person", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("structured", gateway) == {"name": "Ada", "age": 36}
    (tool,) = engine.last["tools"]
    assert tool["function"]["parameters"]["required"] == ["name", "age"]


@pytest.mark.parametrize(("scenario", "thought"), [("two_turns", False), ("two_turns_with_state", True)])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str, thought: bool
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == ["Ada."]
    assert messages(engine.last) == second_turn(thought=thought)
