"""Semantic Kernel: an `OpenAIResponsesAgent`.

It says again what the user said: before the results of calls, and everywhere without `store`. It shows no thoughts.
"""

from support.client_conversations import GREETING, after_two_calls, assistant, messages, two_calls, user
from support.clients import Player
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

CLIENT = "semantic_kernel"

WEATHER = "Skills-weather"  # the plugin and its function


async def test_a_thought_is_left_out_of_the_answer(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("thought", gateway) == [["text", "Hello, Ada."]]
    assert engine.last["reasoning_effort"] == "low"


async def test_two_calls_at_once_are_answered_without_store(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(two_calls(WEATHER), text("Sunny."))
    assert await client.play("tools_without_store", gateway) == "Sunny."
    assert messages(engine.last) == [user("Weather?"), *after_two_calls(WEATHER, thought=False)]


async def test_a_second_turn_knows_the_first_without_store(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play("two_turns_without_store", gateway) == "Ada."
    asked = [user("What is my name?")] * 2
    assert messages(engine.last) == [user("My name is Ada."), assistant("Hello, Ada."), *asked]
