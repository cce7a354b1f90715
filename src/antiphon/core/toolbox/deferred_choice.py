"""Deferred tools in a `tool_choice`: which of them it names, and which of them a search may find."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from antiphon.core.toolbox.deferred import DeferredTool
from antiphon.core.toolbox.echo import flat
from antiphon.core.toolbox.tools import Native, Toolbox

Choice = dict[str, Any]


def deferred_keys(box: Toolbox) -> frozenset[Hashable]:
    """The keys of all choices that name deferred tools: one of them, a namespace, or a server."""
    return frozenset(key for native in box.searchable for key in _keys(native))


def choice_key(choice: Choice) -> Hashable:
    given = flat({"type": "function", **choice})
    if given["type"] == "namespace":
        return "namespace", str(given.get("name"))
    if given["type"] == "mcp":
        return "mcp", str(given.get("server_label")), _text(given.get("name"))
    return given["type"], str(given.get("name")), _text(given.get("namespace"))


def allowed_deferred(choice: str | Choice | None, box: Toolbox) -> Mapping[Native, DeferredTool]:
    """Those that may be called once they are found."""
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return box.searchable
    allowed = set(map(choice_key, choice["tools"]))
    return {native: tool for native, tool in box.searchable.items() if not allowed.isdisjoint(_keys(native))}


def _keys(native: Native) -> Iterable[Hashable]:
    """The ways to name it. A choice may leave the namespace of a tool out, or name all that a namespace or server has."""
    if native.kind == "mcp":
        return ("mcp", native.namespace, native.name), ("mcp", native.namespace, None)
    return (native.kind, native.name, native.namespace), (native.kind, native.name, None), ("namespace", native.namespace)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
