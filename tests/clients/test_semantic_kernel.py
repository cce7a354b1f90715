"""Semantic Kernel: an `OpenAIResponsesAgent`.

It says again what the user said: before the results of calls, and everywhere without `store`. It shows no thoughts.
"""

import msgspec
import pytest
from support.client_conversations import (
    GREETING,
    PERSON,
    SCHEMA_OF_PERSON,
    after_two_calls,
    assistant,
    messages,
    schema_of,
    second_turn,
    system,
    two_calls,
    user,
)
from support.clients import Player, PythonScript
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("semantic_kernel_agent.py", environment="openai2")

WEATHER = "Skills-weather"  # the plugin and its function


async def test_text_arrives(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == "Hello world"
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


async def test_a_thought_is_left_out_of_the_answer(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == [["text", "Hello, Ada."]]
    assert engine.last["reasoning_effort"] == "low"


@pytest.mark.parametrize("scenario", ["tools", "streamed_tools"])
async def test_two_calls_at_once_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(two_calls(WEATHER), text("Sunny."))
    assert await client.play(scenario, gateway) == "Sunny."
    assert messages(engine.last) == after_two_calls(WEATHER)


async def test_two_calls_at_once_are_answered_without_store(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(two_calls(WEATHER), text("Sunny."))
    assert await client.play("tools_without_store", gateway) == "Sunny."
    assert messages(engine.last) == [user("Weather?"), *after_two_calls(WEATHER, thought=False)]


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
