"""The tools of a request → its toolbox."""

from collections.abc import Iterable, Mapping, Sequence

from antiphon.core.protocols.responses.item_paths import is_stored
from antiphon.core.toolbox.deferred import DeferredTools, searches_here
from antiphon.core.toolbox.definitions import DEFINITIONS, INNER, Define, define
from antiphon.core.toolbox.mcp_servers import KnownLists, McpServers
from antiphon.core.toolbox.response_tools import flat, tool_to_response
from antiphon.core.toolbox.toolbox import NO_TOOLS, Toolbox
from antiphon.core.toolbox.tools import TOOLS, Tool, ToolIdentity
from antiphon.errors import InvalidRequest

# What a client may ask of a function or a custom tool that is not done here. The response lists it, and the notice says so.
WITHOUT_EFFECT = {
    "defer_loading": "the model sees the tool from the start",
    "async": "the result of a call is expected in the next request",
    "output_schema": "the model does not see it",
}
# More would make the header too long.
MOST_NAMES = 3


def members_without_effect(tools: Iterable[Tool], *, defers: bool = False) -> Iterable[str]:
    """`defers`: tools with `defer_loading` are hidden until they are found."""
    given = [flat(tool) for tool in tools]
    for member, effect in WITHOUT_EFFECT.items():
        if defers and member == "defer_loading":
            continue
        names = [str(tool.get("name")) for tool in given if tool.get(member)]
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            yield f"{member} of {', '.join(names[:MOST_NAMES])}{more} has no effect: {effect}"


def tools_to_box(
    tools: Sequence[Tool],
    more: Sequence[tuple[str, Tool]] = (),
    definitions: Mapping[str, Define] = DEFINITIONS,
    lists: KnownLists | None = None,
) -> Toolbox:
    """`more`: tools that came in input items, each with its place there. They can be called, but the response does not list
    them as its own. `lists`: what is known of the tools of MCP servers."""
    if not tools and not more:
        return NO_TOOLS
    searched = searches_here(tools, definitions)
    box = Toolbox(deferred=DeferredTools(searched), servers=McpServers(lists=lists))
    for at, tool in enumerate(tools):
        define(box, tool, f"{TOOLS}[{at}]", definitions)
        box.in_response.append(tool_to_response(tool))
    box.notices += members_without_effect((inner for tool in tools for inner in _functions_in(tool)), defers=searched)
    for where, tool in more:
        _add_found(box, tool, where, definitions)
    return box


def _add_found(box: Toolbox, tool: Tool, where: str, definitions: Mapping[str, Define]) -> None:
    if tool.get("type") == "mcp" and _offer_found(box, tool):
        return
    try:
        define(box, tool, where, definitions)
    except InvalidRequest as wrong:
        if not is_stored(where):
            raise
        box.notices.append(f"{where} was left out: {wrong.message}")


def _offer_found(box: Toolbox, tool: Tool) -> bool:
    """Tools of a server that a search has found. The request itself says what the server is. False: it does not."""
    label, names = str(tool.get("server_label")), tool.get("allowed_tools")
    named = [ToolIdentity("mcp", str(name), label) for name in names] if isinstance(names, list) else []
    found = [identity for identity in named if identity in box.deferred.tools]
    for identity in found:
        box.offer_deferred(identity)
    return bool(found)


def _functions_in(tool: Tool) -> Iterable[Tool]:
    return (inner for inner in (tool["tools"] if tool["type"] == "namespace" else (tool,)) if inner["type"] in INNER)
