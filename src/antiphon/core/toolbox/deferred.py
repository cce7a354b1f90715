"""Tools with `defer_loading`: which they are, beside a search that the gateway runs."""

from collections.abc import Container, Iterable, Sequence
from typing import Any

from msgspec import Struct

from antiphon.core.toolbox.echo import flat
from antiphon.wire.chat import ChatFunction

Tool = dict[str, Any]

# The types of tools that can be deferred. A namespace is deferred if all of its tools are.
DEFERRABLE = frozenset({"function", "custom", "mcp"})


class DeferredTool(Struct, frozen=True):
    """A tool that the model sees once a search has found it."""

    function: ChatFunction
    # As the client defined it; of one in a namespace, also the namespace. A server's tools have the server's definition.
    definition: Tool
    group: Tool | None
    where: str


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
