"""A tool that the gateway runs: what an engine sees of it, what its calls look like, and how a call is run."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Protocol

from msgspec import Struct, field

from antiphon.core.exchange.environment import GatewayTool
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.servers import McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire.responses import CreateResponse


class ToolContext(Struct, frozen=True):
    """The response that tools are run for."""

    owner: str
    response_id: str
    # With the secrets of its tools.
    request: CreateResponse
    # What is entered here is left when the response has ended.
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    # The MCP server that a label means in this response. Without more it is the operator's.
    server_of: Callable[[str], McpServer] = McpServer
    # The containers that tools run code in, by the types of the tools.
    containers: Mapping[str, str] = field(default_factory=dict)


class ToolRunner(GatewayTool, Protocol):
    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Runs one call, beside the others of its answer. It is cancelled when the response is, or when its time is up. What it
        raises is reported to the model as a failed call. The model gets as much of the result as its context has room for."""
