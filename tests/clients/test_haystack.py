"""Haystack: `OpenAIResponsesChatGenerator`, alone and in an agent."""

import msgspec
import pytest
from support.client_conversations import (
    CUT_OFF,
    GREETING,
    PERSON,
    RESULTS,
    SCHEMA_OF_PERSON,
    THOUGHT,
    THOUGHT_SENT_BACK,
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

SCRIPT = PythonScript("haystack_generator.py", environment="openai3")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_text_that_was_cut_off_is_marked(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(CUT_OFF)
    assert await client.play("cut", gateway) == ["Hello", "length"]
    assert engine.last["max_tokens"] == 16


async def test_a_thought_arrives_beside_the_text(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == {"reasoning": THOUGHT, "text": "Hello, Ada."}
    assert engine.last["reasoning_effort"] == "low"


@pytest.mark.parametrize("scenario", ["agent", "agent_without_store"])
async def test_an_agent_runs_two_calls_at_once(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play(scenario, gateway) == {"text": "Sunny.", "results": ["sunny in Paris", "sunny in Rome"]}
    assert messages(engine.last) == after_two_calls()


async def test_a_streamed_agent_runs_two_calls_at_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play("streamed_agent", gateway)
    assert seen == {"text": "Sunny.", "results": ["sunny in Paris", "sunny in Rome"]}
    asked, called, *results = messages(engine.last)
    assert [asked, called["content"]] == [user("Weather?"), THOUGHT_SENT_BACK]
    # It sorts the calls of a stream by the ids of their items.
    assert sorted(results, key=lambda each: str(each["tool_call_id"])) == RESULTS


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert msgspec.json.decode(await client.play("structured", gateway)) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


@pytest.mark.parametrize("scenario", ["two_turns", "two_turns_without_store", "previous_response"])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == "Ada."
    assert messages(engine.last) == second_turn()
