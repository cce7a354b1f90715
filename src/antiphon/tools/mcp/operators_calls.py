"""Calls of a tool that the settings name, in the place of a built-in tool."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.servers import McpServer
from antiphon.tools.runner import ToolContext

NO_SERVERS = "this gateway has no MCP servers"


def operators_call(server: str, tool: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(f"{server}.{tool}", "mcp", tool, server, msgspec.json.encode(arguments).decode())


def operators_context(context: ToolContext) -> ToolContext:
    """The server of the settings is meant, whatever servers the request brings."""
    request = structs.replace(context.request, input=None, tools=None)
    return structs.replace(context, request=request, server_of=McpServer)
