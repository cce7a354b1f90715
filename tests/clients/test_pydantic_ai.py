"""Pydantic AI: agents with an `OpenAIResponsesModel`."""

from support.clients import Player
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest

CLIENT = "pydantic_ai"


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("final_result", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("structured_by_tool", gateway) == {"name": "Ada", "age": 36}
    assert engine.last["tool_choice"] == "required"
