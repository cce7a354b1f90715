"""Mastra: `@mastra/core` with a model of the AI SDK."""

import pytest
from support.bad_mcp_server import BadMcpServer
from support.clients import Player
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest

CLIENT = "mastra"


@pytest.mark.parametrize("scenario", ["mcpAsked", "mcpAskedStreamed"])
async def test_a_call_that_waits_for_an_approval_is_shown_and_not_run(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls"))
    async with BadMcpServer() as server:
        seen = await client.play(scenario, gateway, server=f"{server.url}/mcp")
    assert seen == {"text": "", "calls": ["mcp.echo"], "results": []}
    assert server.tools.called == []
