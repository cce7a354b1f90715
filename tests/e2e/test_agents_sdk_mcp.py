"""The Agents SDK with the tools of an MCP server that the gateway runs: at once, approved and refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from agents import (
    Agent,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
)
from openai import AsyncOpenAI
from support.bad_mcp_server import BadMcpServer
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

QUIET = RunConfig(tracing_disabled=True)
ECHO = answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls")


@pytest_asyncio.fixture
async def model(gateway: GatewayUnderTest) -> AsyncIterator[OpenAIResponsesModel]:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
        yield OpenAIResponsesModel(model="mock", openai_client=client)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[BadMcpServer]:
    async with BadMcpServer() as server:
        yield server


def hosted(server: BadMcpServer, approve: bool | None) -> HostedMCPTool:
    """`approve`: what is answered to each request for approval; None: no call needs one."""

    def decide(request: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        return {"approve": bool(approve)} if approve else {"approve": False, "reason": "Not today."}

    config: Any = {"type": "mcp", "server_label": "bad", "server_url": server.url + "/mcp"}
    config["require_approval"] = "never" if approve is None else "always"
    return HostedMCPTool(tool_config=config, on_approval_request=None if approve is None else decide)


async def outcome(agent: Agent[Any], *, streamed: bool) -> Any:
    if not streamed:
        return await Runner.run(agent, "Echo it", run_config=QUIET)
    running = Runner.run_streamed(agent, "Echo it", run_config=QUIET)
    async with asyncio.timeout(30):
        async for _ in running.stream_events():
            pass
    return running


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("approve", [None, True, False])
async def test_a_hosted_server_is_used(
    model: OpenAIResponsesModel, server: BadMcpServer, engine: MockEngine, approve: bool | None, streamed: bool
) -> None:
    engine.will(ECHO, text("Done."))
    agent = Agent(name="Echo", model=model, tools=[hosted(server, approve)])
    result = await outcome(agent, streamed=streamed)
    assert result.final_output == "Done."
    kinds = [item.raw_item.type for response in [result] for item in response.new_items if hasattr(item.raw_item, "type")]
    assert "mcp_list_tools" in kinds
    assert ("mcp_call" in kinds) == (approve is not False)
    assert ("mcp_approval_request" in kinds) == (approve is not None)
    told = engine.last["messages"][-1]["content"]
    assert ('{"a": 1}' in told) == (approve is not False)
    assert ("Not today." in told) == (approve is False)
