"""LangChain: `langchain-openai` with `use_responses_api`, and agents of `langchain`."""

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
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import Player, PythonScript
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("langchain_agent.py", environment="openai3")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_text_that_was_cut_off_is_marked(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(CUT_OFF)
    assert await client.play("cut", gateway) == ["Hello", "max_output_tokens"]
    assert engine.last["max_tokens"] == 16


async def test_an_engine_that_fails_in_its_answer_is_an_error(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(BROKEN)
    name, message = await client.play("broken", gateway)
    assert name == "ValueError"
    assert "The engine failed: out of memory" in message


async def test_a_thought_is_a_block_of_its_own(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == [["reasoning", THOUGHT], ["text", "Hello, Ada."]]
    assert engine.last["reasoning_effort"] == "low"


@pytest.mark.parametrize("scenario", ["agent", "agent_without_store", "agent_with_previous_response"])
async def test_an_agent_runs_two_calls_at_once(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play(scenario, gateway)
    assert seen == [["human", "Weather?"], ["ai", ""], ["tool", "sunny in Paris"], ["tool", "sunny in Rome"], ["ai", "Sunny."]]
    assert messages(engine.last) == after_two_calls()


async def test_a_streamed_agent_runs_two_calls_at_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play("streamed_agent", gateway) == "sunny in Parissunny in RomeSunny."
    assert messages(engine.last) == after_two_calls()


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("structured", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


@pytest.mark.parametrize(
    "scenario", ["two_turns", "two_turns_without_store", "two_turns_with_previous_response", "two_turns_streamed"]
)
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == "Ada."
    assert messages(engine.last) == second_turn()
