"""Tools as a response lists them: as they were given, in the shape that the API shows, and without secrets."""

from collections.abc import Callable
from typing import Any

from antiphon.core.toolbox.mcp_servers import MCP, without_secrets
from antiphon.wire.hosted_items import DEFAULTS
from antiphon.wire.input_items import Tool

# What a client sends for other servers. It is not shown to those who read the response.
SECRETS = frozenset({"authorization", "domain_secrets"})


def tool_to_response(tool: Tool) -> Tool:
    return IN_RESPONSE.get(tool["type"], _as_given)(tool)


def flat(tool: Tool) -> Tool:
    """Chat Completions nests what a function is; clients that were written for it send it so."""
    nested = tool.get("function")
    return {**nested, "type": tool["type"]} if isinstance(nested, dict) else tool


def _function(tool: Tool) -> Tool:
    """With the members that a client may expect, null if they were not given."""
    given = _given(flat(tool))
    return {"type": "function", **{name: given.get(name) for name in ("name", "description", "parameters", "strict")}, **given}


def _namespace(tool: Tool) -> Tool:
    return {"description": "", **_given(tool), "tools": [_inner(inner) for inner in tool["tools"]]}


def _inner(tool: Tool) -> Tool:
    """Other types are left out there, and have not been checked. A parameter of a function may be named like a secret."""
    if tool["type"] == "function":
        return _function(tool)
    return _given(flat(tool) if tool["type"] == "custom" else _as_given(without_secrets(tool)))


def _mcp(tool: Tool) -> Tool:
    """A URL ends after its origin: paths and queries have keys in them."""
    return {**_with_defaults(_as_given(without_secrets(tool))), "headers": None}


def _with_defaults(tool: Tool) -> Tool:
    """A value that should be an object and is none has been refused, or belongs to a tool that was left out."""
    given, defaults = _given(tool), DEFAULTS[tool["type"]]
    plain = {name: value for name, value in defaults.items() if not isinstance(value, dict)}
    objects = {name: _object(given.get(name), value) for name, value in defaults.items() if isinstance(value, dict)}
    return {**plain, **given, **objects}


def _object(given: Any, defaults: Tool) -> Tool:
    return defaults | _given(given) if isinstance(given, dict) else defaults


def _as_given(tool: Tool) -> Tool:
    return {name: _without_secrets(value) for name, value in tool.items() if name not in SECRETS}


def _given(tool: Tool) -> Tool:
    return {name: value for name, value in tool.items() if value is not None}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return _as_given(value) if isinstance(value, dict) else value


IN_RESPONSE: dict[str, Callable[[Tool], Tool]] = {
    **dict.fromkeys(DEFAULTS, _with_defaults),
    "function": _function,
    "custom": _given,
    "namespace": _namespace,
    MCP: _mcp,
}
