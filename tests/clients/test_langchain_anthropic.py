"""LangChain with Anthropic's models: `langchain-anthropic`."""

from support.clients import Player
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest

CLIENT = "langchain_anthropic"


async def test_an_object_is_made_by_a_call(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("Person", '{"name": "Ada", "age": 36}'), finish="tool_calls"))
    assert await client.play("structured_by_tool", gateway) == {"name": "Ada", "age": 36}
    assert engine.last["tool_choice"] == "required"


async def test_an_image_is_passed_on(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("image", gateway) == "Hello world"
    said, shown = engine.last["messages"][0]["content"]
    assert said == {"type": "text", "text": "What is it?"}
    assert shown == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}


async def test_tokens_are_counted_with_those_of_tools(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("count", gateway) == 12
    assert engine.last["tools"][0]["function"]["name"] == "weather"
