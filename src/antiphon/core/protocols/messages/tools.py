"""The tools of a request → those of the Responses API. A table has a row for each type that Anthropic defines.

Tools that the client runs are functions to an engine. Those of a known type come without a schema: the table has it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.input_items import Tool
from antiphon.wire.messages import ToolChoice

# `bash_20250124`: a name, and the day of its version.
_VERSION = re.compile(r"_\d{8}$")
NOT_RUN = "the tool {kind} was left out: the gateway does not run it for this protocol"


class FunctionTool(Struct):
    name: str
    input_schema: dict[str, Any] = {}
    description: str | None = None
    strict: bool | None = None


class NamedTool(Struct):
    name: str


def tools_to_responses(tools: list[Tool]) -> tuple[list[Tool], list[str]]:
    """The tools, and notices about those that were left out."""
    made: list[Tool] = []
    notices: list[str] = []
    for at, tool in enumerate(tools):
        made += _read(tool, f"tools[{at}]", notices)
    return made, notices


def _read(tool: Tool, where: str, notices: list[str]) -> list[Tool]:
    kind = tool.get("type") or "custom"
    reader = TYPES.get(_VERSION.sub("", str(kind)))
    if reader is None:
        known = ", ".join(sorted(TYPES))
        problem = f"`{where}.type` must be one of these, with the day of a version: {known}. It is {quoted(kind)}."
        raise InvalidRequest(problem, param=f"{where}.type", code="invalid_value")
    found = reader(tool, where)
    if found is None:
        notices.append(NOT_RUN.format(kind=kind))
        return []
    return [found]


def _function(tool: Tool, where: str) -> Tool:
    given = convert(tool, FunctionTool, where)
    made: Tool = {"type": "function", "name": given.name, "parameters": given.input_schema}
    if given.description is not None:
        made["description"] = given.description
    if given.strict is not None:
        made["strict"] = given.strict
    return made


def _known(description: str, properties: Mapping[str, Any], *required: str) -> Callable[[Tool, str], Tool]:
    """A tool whose schema is Anthropic's, and part of what its models have learned."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}

    def read(tool: Tool, where: str) -> Tool:
        name = convert(tool, NamedTool, where).name
        return {"type": "function", "name": name, "description": description, "parameters": schema}

    return read


def _not_run(tool: Tool, where: str) -> None:
    """A tool that Anthropic's servers run."""


TEXT = {"type": "string"}
PATH = {"type": "string", "description": "The absolute path of the file or folder."}
LINES = {"type": "array", "items": {"type": "integer"}, "description": "The first and the last line to show."}
POINT = {"type": "array", "items": {"type": "integer"}, "description": "x and y, in pixels."}
LINE = {"type": "integer", "description": "The text is inserted after this line; 0: at the beginning."}


def _one_of(*values: str) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(values)}


TYPES: Mapping[str, Callable[[Tool, str], Tool | None]] = {
    "custom": _function,
    "bash": _known(
        "Runs a command in a Bash session that stays open between calls.",
        {"command": TEXT, "restart": {"type": "boolean", "description": "Starts a new session in place of the command."}},
    ),
    "text_editor": _known(
        "Views, creates and changes files.",
        {
            "command": _one_of("view", "create", "str_replace", "insert", "undo_edit"),
            "path": PATH,
            "file_text": TEXT,
            "old_str": TEXT,
            "new_str": TEXT,
            "insert_line": LINE,
            "insert_text": TEXT,
            "view_range": LINES,
        },
        *("command", "path"),
    ),
    "memory": _known(
        "Keeps notes in files below /memories, which stay for later conversations.",
        {
            "command": _one_of("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": PATH,
            "view_range": LINES,
            "file_text": TEXT,
            "old_str": TEXT,
            "new_str": TEXT,
            "insert_line": LINE,
            "insert_text": TEXT,
            "old_path": PATH,
            "new_path": PATH,
        },
        "command",
    ),
    "computer": _known(
        "Controls a computer with screen, keyboard and mouse.",
        {
            "action": {
                "type": "string",
                "description": "key, type, left_click, scroll, wait, screenshot, and others.",
            },
            "coordinate": POINT,
            "start_coordinate": POINT,
            "text": TEXT,
            "scroll_direction": _one_of("up", "down", "left", "right"),
            "scroll_amount": {"type": "integer"},
            "duration": {"type": "number", "description": "In seconds."},
        },
        "action",
    ),
    **dict.fromkeys(
        (
            *("web_search", "web_fetch", "code_execution", "tool_search_tool_bm25", "tool_search_tool_regex"),
            *("mcp_toolset", "advisor", "tool_search_tool"),
        ),
        _not_run,
    ),
}

# What may be called.
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def choice_to_responses(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.type != "tool":
        return CHOICES[choice.type]
    if choice.name is None:
        param = "tool_choice.name"
        raise InvalidRequest(f"Missing required parameter: `{param}`.", param=param, code="missing_required_parameter")
    return {"type": "function", "name": choice.name}
