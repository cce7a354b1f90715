"""Tools with `defer_loading`: beside a search that the gateway runs, the model sees them once the search has found them."""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from antiphon.core.toolbox.mcp_servers import MCP
from antiphon.core.toolbox.response_tools import flat
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.wire.chat import ChatFunction
from antiphon.wire.input_items import Tool

# The types of tools that can be deferred. A namespace is deferred if all of its tools are.
DEFERRABLE = frozenset({"function", "custom", MCP})


class DeferredTool(Struct, frozen=True):
    """A tool that the model sees once a search has found it."""

    function: ChatFunction
    # As the client defined it; of one in a namespace, also the namespace. A server's tools have the server's definition.
    definition: Tool
    group: Tool | None
    where: str


class DeferredTools(Struct):
    """The deferred tools of a request, those included that a search has found."""

    # The gateway runs a search. Without one, no tool is deferred.
    searched: bool = False
    tools: dict[ToolIdentity, DeferredTool] = field(default_factory=dict)
    # The names that they have once they are found. No other tool gets one of these.
    names: set[str] = field(default_factory=set)
    # The definition that is being read, if its tools are deferred, and its namespace.
    source: tuple[Tool, Tool | None] | None = None

    @contextmanager
    def reading(self, definition: Tool, group: Tool | None = None) -> Iterator[None]:
        """The tools that are added meanwhile are deferred. They come from this definition, and this namespace."""
        self.source = (definition, group)
        try:
            yield
        finally:
            self.source = None

    def add(self, identity: ToolIdentity, function: ChatFunction, where: str) -> None:
        """Adds a tool of the definition that is being read."""
        assert self.source is not None
        self.tools[identity] = DeferredTool(function, *self.source, where)
        self.names.add(function.name)


def searches_here(tools: Sequence[Tool], kinds: Container[str]) -> bool:
    """The gateway runs a search, and there is something to be found. `kinds`: the types of tools that there are here."""
    asked = any(tool.get("type") == "tool_search" and tool.get("execution") in (None, "server") for tool in tools)
    return asked and any(is_deferred(inner, group) and inner["type"] in kinds for inner, group in _members(tools))


def is_deferred(tool: Tool, group: Tool | None = None) -> bool:
    """It stays hidden until it is found. Its namespace may say so for all of its tools."""
    kind = tool.get("type")
    if not isinstance(kind, str) or kind not in DEFERRABLE:
        return False
    return bool(flat(tool).get("defer_loading") or (group is not None and group.get("defer_loading")))


def _members(tools: Iterable[Tool]) -> Iterable[tuple[Tool, Tool | None]]:
    """Every tool, each with its namespace. They may still be malformed."""
    for tool in tools:
        inner = tool.get("tools") if tool.get("type") == "namespace" else None
        if isinstance(inner, list):
            yield from ((each, tool) for each in inner if isinstance(each, dict))
        else:
            yield tool, None
