"""Strands Agents: an agent with an `OpenAIResponsesModel`."""

from support.clients import Player
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest

CLIENT = "strands"


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("Person", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("structured", gateway) == {"name": "Ada", "age": 36}
    (tool,) = engine.last["tools"]
    assert tool["function"]["parameters"]["required"] == ["name", "age"]
