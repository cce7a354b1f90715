"""Lists of the tools of MCP servers."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from antiphon.core.toolbox.servers import Listing, McpListError, McpServer
from antiphon.logs import log
from antiphon.tools.runner import ToolContext, ToolRunner


class ListsTools(Protocol):
    """What the runner of MCP tools does besides running them."""

    async def list_tools(self, server: McpServer, context: ToolContext) -> Listing: ...


async def list_servers(
    servers: Sequence[McpServer], tools: Mapping[str, ToolRunner], context: ToolContext
) -> dict[str, Listing]:
    """All at once, by their labels."""
    runner = cast(ListsTools, tools["mcp"])
    async with asyncio.TaskGroup() as group:
        tasks = {server.label: group.create_task(_listing_of(server, runner, context)) for server in servers}
    return {label: task.result() for label, task in tasks.items()}


async def _listing_of(server: McpServer, runner: ListsTools, context: ToolContext) -> Listing:
    try:
        return await runner.list_tools(server, context)
    except Exception as failed:
        log("listing_failed", level=logging.WARNING, exc_info=failed, label=server.label, response_id=context.response_id)
        return Listing(error=McpListError(f"Its tools could not be listed: {failed}"))
