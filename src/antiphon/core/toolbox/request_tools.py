"""The tools of a request → its toolbox. Those of the last lists are kept: an agent sends the same tools with every request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from antiphon.core.knowledge.help import Help
from antiphon.core.protocols.responses.references import is_stored
from antiphon.core.toolbox.deferred import DeferredTools, searches_here
from antiphon.core.toolbox.definitions import DEFINITIONS, INNER, Define, define
from antiphon.core.toolbox.mcp_servers import MCP, KnownLists, McpServers
from antiphon.core.toolbox.response_tools import flat, tool_to_response
from antiphon.core.toolbox.toolbox import NO_TOOLS, Toolbox
from antiphon.core.toolbox.tools import TOOLS, ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.wire.input_items import Tool

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
    if tool.get("type") == MCP and _offer_found(box, tool):
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
    named = [ToolIdentity(MCP, str(name), label) for name in names] if isinstance(names, list) else []
    found = [identity for identity in named if identity in box.deferred.tools]
    for identity in found:
        box.offer_deferred(identity)
    return bool(found)


def _functions_in(tool: Tool) -> Iterable[Tool]:
    return (inner for inner in (tool["tools"] if tool["type"] == "namespace" else (tool,)) if inner["type"] in INNER)


MOST_TOOLBOXES = 128
# Of all lists together, as JSON. What is made of them takes a few times as much memory.
MOST_BYTES = 4 * 1024 * 1024


class ToolboxKey(NamedTuple):
    """All that a toolbox is made of. The tools are compared as JSON: to Python, 1 and true are equal."""

    tools: bytes
    # Why they are offered as easier functions. None: they are not.
    easier: str | None


def toolbox_key(tools: Sequence[Tool], definitions: Mapping[str, Define], help: Help) -> ToolboxKey | None:
    """None: what is made of them depends on more than the tools, because the gateway runs some of them, or lists them."""
    for tool in tools:
        kind = tool.get("type")
        if not isinstance(kind, str) or definitions.get(kind) is not DEFINITIONS.get(kind):
            return None
    return ToolboxKey(msgspec.json.encode(tools), help.reason if help.easier_tools else None)


class KnownToolboxes:
    """By their keys, the one that was used last at the end. Nothing may be added to one of these any more."""

    def __init__(self, most: int = MOST_TOOLBOXES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._boxes: dict[ToolboxKey, Toolbox] = {}
        self._bytes = 0

    def get(self, key: ToolboxKey) -> Toolbox | None:
        box = self._boxes.pop(key, None)
        if box is not None:
            self._boxes[key] = box
        return box

    def add(self, key: ToolboxKey, box: Toolbox) -> None:
        self._remove(key)
        self._boxes[key] = box
        self._bytes += len(key.tools)
        while self._boxes and (len(self._boxes) > self._most or self._bytes > self._most_bytes):
            self._remove(next(iter(self._boxes)))

    def _remove(self, key: ToolboxKey) -> None:
        if self._boxes.pop(key, None) is not None:
            self._bytes -= len(key.tools)
