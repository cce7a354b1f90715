"""Tools as a response lists them: as they were given, in the shape that the API shows, and without secrets."""

from collections.abc import Callable
from typing import Any

from antiphon.core.toolbox.mcp_servers import without_secrets

Tool = dict[str, Any]

# What a client sends for other servers. It is not shown to those who read the response.
SECRETS = frozenset({"authorization", "domain_secrets"})
LOCATION = {"type": "approximate", "city": None, "country": None, "region": None, "timezone": None}

FILE_SEARCH_DEFAULTS = {"filters": None, "max_num_results": 20}
RANKING = {"ranker": "auto", "score_threshold": 0}
IMAGE_DEFAULTS = {
    "background": "auto",
    "moderation": "auto",
    "output_compression": 100,
    "output_format": "png",
    "quality": "auto",
    "size": "auto",
}
MCP_DEFAULTS = {"allowed_tools": None, "require_approval": "always"}


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
    """With the defaults of what was not given. A URL ends after its origin: paths and queries have keys in them."""
    return {**MCP_DEFAULTS, **_given(_as_given(without_secrets(tool))), "headers": None}


def _web_search(tool: Tool) -> Tool:
    return {"filters": None, **_web_search_preview(tool)}


def _web_search_preview(tool: Tool) -> Tool:
    """A location that is no object has been refused, or belongs to a tool that was left out."""
    given = _given(tool)
    location = given.get("user_location")
    location = LOCATION | _given(location) if isinstance(location, dict) else LOCATION
    return {"search_context_size": "medium", **given, "user_location": location}


def _file_search(tool: Tool) -> Tool:
    """Options that are no object have been refused, or belong to a tool that was left out."""
    given = _given(tool)
    options = given.get("ranking_options")
    ranking = RANKING | _given(options) if isinstance(options, dict) else RANKING
    return {**FILE_SEARCH_DEFAULTS, **given, "ranking_options": ranking}


def _image_generation(tool: Tool) -> Tool:
    return {**IMAGE_DEFAULTS, **_given(tool)}


def _as_given(tool: Tool) -> Tool:
    return {name: _without_secrets(value) for name, value in tool.items() if name not in SECRETS}


def _given(tool: Tool) -> Tool:
    return {name: value for name, value in tool.items() if value is not None}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return _as_given(value) if isinstance(value, dict) else value


IN_RESPONSE: dict[str, Callable[[Tool], Tool]] = {
    "function": _function,
    "custom": _given,
    "namespace": _namespace,
    "mcp": _mcp,
    "file_search": _file_search,
    "image_generation": _image_generation,
    "web_search": _web_search,
    "web_search_2025_08_26": _web_search,
    "web_search_preview": _web_search_preview,
    "web_search_preview_2025_03_11": _web_search_preview,
}
