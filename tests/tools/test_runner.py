"""What a runner does that overrides nothing but `run()`."""

from contextlib import AsyncExitStack

from antiphon.core.toolbox.mcp_servers import McpServer
from antiphon.tools.runner import ToolContext, ToolRunner, check_tools, container_files, tool_containers
from antiphon.wire.responses import CreateResponse

RUNNERS = {"thing": ToolRunner()}
REQUEST = CreateResponse(tools=[{"type": "thing"}, {"type": "other"}])


async def test_it_takes_every_definition_and_has_no_container() -> None:
    await check_tools(REQUEST, RUNNERS, "owner")
    assert await tool_containers(RUNNERS, REQUEST, [], "owner") == {}
    assert container_files(RUNNERS, {"thing": "cntr_1", "other": "cntr_2"}, "owner") == {}


async def test_it_is_stopped_by_the_gateway_and_lists_no_tools() -> None:
    runner = RUNNERS["thing"]
    assert not runner.has_own_timeouts
    listing = await runner.list_tools(McpServer("a"), ToolContext("owner", "resp_1", REQUEST, AsyncExitStack()))
    assert listing.tools == []
    assert listing.error is not None
