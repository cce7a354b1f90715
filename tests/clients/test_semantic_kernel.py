"""Semantic Kernel: an `OpenAIResponsesAgent`.

It says again what the user said: before the results of calls, and everywhere without `store`. It shows no thoughts.
"""

import msgspec
import pytest
from support.clients import (
    GREETING,
    PERSON,
    RESULTS,
    SCHEMA_OF_PERSON,
    Player,
    PythonScript,
    assistant,
    calls_made,
    messages,
    schema_of,
    second_turn,
    system,
    two_calls,
    user,
)
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("semantic_kernel_agent.py", environment="openai2")


async def test_text_arrives(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == "Hello world"
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_thought_is_left_out_of_the_answer(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == [["text", "Hello, Ada."]]
    assert engine.last["reasoning_effort"] == "low"


@pytest.mark.parametrize("scenario", ["tools", "tools_without_store", "streamed_tools"])
async def test_the_results_of_two_calls_at_once_are_the_last_that_the_model_reads(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(two_calls("Skills-weather"), text("Sunny."))
    assert await client.play(scenario, gateway) == "Sunny."
    assert calls_made(engine.last) == ["call_1", "call_2"]
    assert messages(engine.last)[-2:] == RESULTS


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert msgspec.json.decode(await client.play("structured", gateway)) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


async def test_a_second_turn_continues_the_first(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play("two_turns", gateway) == "Ada."
    assert messages(engine.last) == second_turn()


async def test_a_second_turn_knows_the_first_without_store(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play("two_turns_without_store", gateway) == "Ada."
    asked = [user("What is my name?")] * 2
    assert messages(engine.last) == [user("My name is Ada."), assistant("Hello, Ada."), *asked]
