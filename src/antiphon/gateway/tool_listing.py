"""Lists of the tools of MCP servers."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from antiphon.core.exchange import Exchange
from antiphon.core.mcp.servers import Listing, McpListError, McpServer
from antiphon.gateway.outbox import Outbox
from antiphon.logs import log
from antiphon.tools.runner import ToolContext, ToolRunner


class ListsTools(Protocol):
    """What the runner of MCP tools does besides running them."""

    async def list_tools(self, server: McpServer, context: ToolContext) -> Listing: ...


async def list_servers(
    servers: Sequence[McpServer], tools: Mapping[str, ToolRunner], context: ToolContext, exchange: Exchange, outbox: Outbox
) -> None:
    """All at once."""
    runner = cast(ListsTools, tools["mcp"])

    async def list_server(server: McpServer) -> None:
        listing = await _listing_of(server, runner, context)
        outbox.add(exchange.listed(server.label, listing))
        outbox.flush()

    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(list_server(server))


async def _listing_of(server: McpServer, runner: ListsTools, context: ToolContext) -> Listing:
    try:
        return await runner.list_tools(server, context)
    except Exception as failed:
        log("listing_failed", level=logging.WARNING, exc_info=failed, label=server.label, response_id=context.response_id)
        return Listing(error=McpListError(f"Its tools could not be listed: {failed}"))
