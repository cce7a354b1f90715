"""A tool that the gateway runs: what an engine sees of it, what its calls look like, and how a call is run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol, cast

from msgspec import Struct, field

from antiphon.core.exchange.environment import GatewayTool
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.mcp_servers import McpServer
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


# ---- What the tools of a request name, checked before its response begins: whether a vector store exists, for example ----


class ChecksTools(Protocol):
    """What a runner may do besides running calls."""

    async def check_tool(self, tool: dict[str, Any], where: str, owner: str) -> None:
        """The definition at this place in the request is right by itself. Raises ApiError if the owner cannot use it."""


async def check_tools(request: CreateResponse, runners: Mapping[str, ToolRunner], owner: str) -> None:
    for at, tool in enumerate(request.tools or ()):
        runner = runners.get(tool["type"])
        if runner is not None and hasattr(runner, "check_tool"):
            await cast(ChecksTools, runner).check_tool(tool, f"tools[{at}]", owner)


# ---- The containers that the tools of a request run code in ----------------------------------------------------------

Item = dict[str, Any]


async def tool_containers(
    tools: Mapping[str, ToolRunner], request: CreateResponse, history: Sequence[Item], owner: str
) -> dict[str, str]:
    """By the types of the tools. The items of calls name them from their first event on, so they are chosen before the exchange
    begins. Raises InvalidRequest for one that is not there."""
    found: dict[str, str] = {}
    # Nobody has checked the tools yet.
    kinds = [kind for tool in request.tools or () if isinstance(kind := tool.get("type"), str)]
    for kind in dict.fromkeys(kinds):
        choose = getattr(tools.get(kind), "container_for", None)
        other = next(iter(found.values()), None)
        if choose is not None and (id := await choose(request, history, owner, other)) is not None:
            found[kind] = id
    return found


def container_files(
    tools: Mapping[str, ToolRunner], containers: Mapping[str, str], owner: str
) -> dict[str, Sequence[CodeFile]]:
    """The files that these containers have already, by their ids."""
    known = ((id, getattr(tools.get(kind), "files_of", None)) for kind, id in containers.items())
    found = {id: files_of(id, owner) for id, files_of in known if files_of is not None}
    return {id: files for id, files in found.items() if files}
