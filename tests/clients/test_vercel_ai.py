"""The AI SDK of Vercel: `ai` with `@ai-sdk/openai`."""

from pathlib import Path

import pytest
from support.bad_mcp_server import BadMcpServer
from support.client_conversations import PERSON, SCHEMA_OF_PERSON, messages, schema_of, user
from support.clients import Player
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

CLIENT = "vercel_ai"

STREAMS = Path(__file__).parents[1] / "golden" / "streams"


async def test_the_input_of_a_custom_tool_is_plain_text(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("sql", '{"input": "select 1"}'), finish="tool_calls"), text("One."))
    assert await client.play("custom", gateway) == "One."
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "sql", "arguments": {"input": "select 1"}}
    assert result["content"] == "rows of select 1"


async def test_an_image_is_passed_on(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("image", gateway) == "Hello world"
    said, shown = engine.last["messages"][0]["content"]
    assert said == {"type": "text", "text": "What is it?"}
    assert shown == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}


async def test_the_recorded_calls_of_an_engine_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will((STREAMS / "lc_chat_toolcall_parallel_stream.sse").read_bytes(), text("Warm at noon."))
    assert await client.play("recorded", gateway) == "Warm at noon."
    asked, called, weather, time = messages(engine.last)
    assert asked == user("Weather and time?")
    made = [each["function"] for each in called["tool_calls"]]
    assert made == [
        {"name": "get_weather", "arguments": {"city": "Paris", "unit": "c"}},
        {"name": "get_time", "arguments": {"tz": "UTC"}},
    ]
    assert [weather["content"], time["content"]] == ["20 c in Paris", "noon UTC"]


async def test_an_object_is_streamed(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    seen = await client.play("objectStream", gateway)
    assert seen["object"] == {"name": "Ada", "age": 36}
    assert seen["partial"][-1] == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


# ---- MCP servers that the gateway connects to ------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["vercel_ai", "vercel_ai_6"], indirect=True)
@pytest.mark.parametrize("scenario", ["mcp", "mcpStreamed"])
async def test_the_error_of_a_hosted_server_is_shown(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(answer(call("bad__tool_error", "{}"), finish="tool_calls"), text("Full."))
    async with BadMcpServer() as server:
        seen = await client.play(scenario, gateway, server=f"{server.url}/mcp")
    assert seen["text"] == "Full."
    content = [{"type": "text", "text": "The disk is full."}]
    assert seen["results"][0]["error"] == {"type": "mcp_tool_execution_error", "content": content}


@pytest.mark.parametrize("client", ["vercel_ai", "vercel_ai_6"], indirect=True)
@pytest.mark.parametrize("scenario", ["mcpTwoTurns", "mcpTwoTurnsStreamed"])
async def test_the_next_turn_has_the_call_of_a_hosted_server(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(answer(call("bad__echo", '{"a": 1}'), finish="tool_calls"), text("Done."), text("You are welcome."))
    async with BadMcpServer() as server:
        assert await client.play(scenario, gateway, server=f"{server.url}/mcp") == "You are welcome."
    assert [each["content"] for each in messages(engine.last)] == ["Echo it", "", '{"a": 1}', "Done.", "Thanks"]


@pytest.mark.parametrize("client", ["vercel_ai", "vercel_ai_6", "mastra"], indirect=True)
@pytest.mark.parametrize("scenario", ["mcp", "mcpStreamed"])
async def test_the_tools_of_a_hosted_server_need_no_description(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(text("Nothing to do."))
    async with BadMcpServer("pages") as server:
        seen = await client.play(scenario, gateway, server=f"{server.url}/mcp")
    assert seen == {"text": "Nothing to do.", "calls": [], "results": []}
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["bad__tool_0", "bad__tool_1", "bad__tool_2"]
