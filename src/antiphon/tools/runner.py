"""A tool that the gateway runs: what an engine sees of it, what its calls look like, and how a call is run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct, field

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.hosted_tool import HostedDefinition
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.mcp_servers import Listing, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import CreateResponse

NO_LISTS = "Tools of this type have no lists."


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


class ToolRunner(HostedDefinition):
    """Subclasses have `define()`, `form` and `run()`. They override of the rest what they need."""

    # Its calls end in time by themselves. Otherwise the gateway stops them after its `tool_timeout`.
    has_own_timeouts = False

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Runs one call, beside the others of its answer. It is cancelled when the response is, or when its time is up. What it
        raises is reported to the model as a failed call. The model gets as much of the result as its context has room for."""
        raise NotImplementedError

    # ---- before the response begins ----------------------------------------------------------------------------------

    async def check_tool(self, tool: Tool, where: str, owner: str) -> None:
        """The definition at this place in the request is right by itself. Raises ApiError if the owner cannot use it: because a
        vector store does not exist, for example."""

    async def container_for(
        self, request: CreateResponse, history: Sequence[Item], owner: str, other: str | None
    ) -> str | None:
        """The id of the container that calls will run in; None: in none. `other`: that of another tool of the request. Raises
        InvalidRequest for one that is not there."""
        return None

    def files_of(self, container: str, owner: str) -> Sequence[CodeFile]:
        """The files that this container has already."""
        return ()

    async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
        """The tools of an MCP server. Only the runner of these has any."""
        return Listing(error=McpListError(NO_LISTS))


async def check_tools(request: CreateResponse, runners: Mapping[str, ToolRunner], owner: str) -> None:
    for at, tool in enumerate(request.tools or ()):
        if (runner := runners.get(tool["type"])) is not None:
            await runner.check_tool(tool, f"tools[{at}]", owner)


async def tool_containers(
    tools: Mapping[str, ToolRunner], request: CreateResponse, history: Sequence[Item], owner: str
) -> dict[str, str]:
    """The containers that the tools of a request run code in, by the types of the tools. The items of calls name them from
    their first event on, so they are chosen before the exchange begins. Raises InvalidRequest for one that is not there."""
    found: dict[str, str] = {}
    # Nobody has checked the tools yet.
    kinds = [kind for tool in request.tools or () if isinstance(kind := tool.get("type"), str)]
    for kind in dict.fromkeys(kinds):
        other = next(iter(found.values()), None)
        runner = tools.get(kind)
        if runner is not None and (id := await runner.container_for(request, history, owner, other)) is not None:
            found[kind] = id
    return found


def container_files(
    tools: Mapping[str, ToolRunner], containers: Mapping[str, str], owner: str
) -> dict[str, Sequence[CodeFile]]:
    """The files that these containers have already, by their ids."""
    found = {id: tools[kind].files_of(id, owner) for kind, id in containers.items() if kind in tools}
    return {id: files for id, files in found.items() if files}
