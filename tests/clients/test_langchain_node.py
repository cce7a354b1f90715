"""LangChain for Node: `@langchain/openai` with `useResponsesApi`, and agents of `langchain`."""

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
from support.clients import NodeScript, Player
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

SCRIPT = NodeScript("langchain.mjs")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_thought_is_a_block_of_its_own(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    thought, said = await client.play("reasoning", gateway)
    assert thought == {"type": "reasoning", "reasoning": THOUGHT}
    assert said == {"type": "text", "text": "Hello, Ada."}


@pytest.mark.parametrize("scenario", ["agent", "agentStateless"])
async def test_an_agent_runs_two_calls_at_once(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play(scenario, gateway)
    assert seen == [["human", "Weather?"], ["ai", ""], ["tool", "sunny in Paris"], ["tool", "sunny in Rome"], ["ai", "Sunny."]]
    assert messages(engine.last) == after_two_calls()


async def test_a_streamed_agent_runs_two_calls_at_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play("streamedAgent", gateway) == "sunny in Parissunny in RomeSunny."
    assert messages(engine.last) == after_two_calls()


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("object", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


@pytest.mark.parametrize("scenario", ["twoTurns", "twoTurnsStateless", "previousResponse"])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == "Ada."
    assert messages(engine.last) == second_turn()
