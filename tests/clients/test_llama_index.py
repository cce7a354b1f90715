"""LlamaIndex: `OpenAIResponses` of `llama-index-llms-openai`, alone and in a `FunctionAgent`.

It leaves thoughts out of what it sends back.
"""

import pytest
from support.client_conversations import (
    GREETING,
    PERSON,
    SCHEMA_OF_PERSON,
    THOUGHT,
    TWO_CALLS,
    after_two_calls,
    messages,
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import Player, PythonScript
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("llama_index_agent.py", environment="openai2")

WEATHER = {"text": "Sunny.", "results": ["sunny in Paris", "sunny in Rome"]}


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_thought_is_a_block_of_its_own(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == {"reasoning": THOUGHT, "text": "Hello, Ada."}
    assert engine.last["reasoning_effort"] == "low"


async def test_an_agent_runs_two_calls_at_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play("agent", gateway) == WEATHER
    assert messages(engine.last) == after_two_calls(thought=False)


async def test_calls_that_are_repeated_beside_the_response_that_made_them_count_once(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play("agent_with_previous_responses", gateway) == WEATHER
    assert messages(engine.last) == after_two_calls()


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("structured", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


@pytest.mark.parametrize(("scenario", "thought"), [("two_turns", False), ("previous_response", True)])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str, thought: bool
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == "Ada."
    assert messages(engine.last) == second_turn(thought=thought)
