"""Tool definitions: every type of tool as a function that an engine can call, and back by name.

function, custom, namespace (of both), tool_search by the client, local_shell, shell, apply_patch: offered as functions
everything else: run by OpenAI's servers, or without a counterpart here; left out with a notice
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from antiphon.core.item_paths import is_stored
from antiphon.core.validation import convert
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction, ChatTool

Tool = dict[str, Any]

LONGEST_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


class FunctionTool(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Grammar(Struct, frozen=True):
    """The `format` of a custom tool. Without a definition any text will do."""

    type: str = "text"
    syntax: str | None = None
    definition: str | None = None


class CustomTool(Struct):
    name: str
    description: str | None = None
    format: Grammar | None = None


class NamespaceTool(Struct):
    name: str
    tools: list[Tool]
    description: str | None = None


class ToolSearchTool(Struct):
    execution: str = "server"
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolResult(Struct, frozen=True):
    """What came of a call that the gateway ran. `output` is for the model; `data` is for the form that makes the item."""

    output: str
    failed: bool = False
    data: Any = None


@dataclass(frozen=True, slots=True)
class Native:
    """A tool as the client knows it. Its kind decides what its calls look like."""

    kind: str
    name: str
    namespace: str | None = None


def engine_name(native: Native) -> str:
    """The name that the engine sees: legal, at most 64 characters, and the same in every turn."""
    plain = f"{native.namespace}__{native.name}" if native.namespace else native.name
    legal = _ILLEGAL.sub("_", plain)
    return legal if legal == plain and len(legal) <= LONGEST_NAME else _with_digest(legal, native)


def _with_digest(name: str, native: Native) -> str:
    identity = f"{native.kind}\0{native.namespace or ''}\0{native.name}".encode()
    digest = hashlib.blake2b(identity, digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - len(digest) - 1]}_{digest}"


@dataclass(slots=True)
class Toolbox:
    """The functions that the engine sees, what each stands for, and the tools as the response lists them."""

    functions: dict[str, ChatTool] = field(default_factory=dict)
    natives: dict[str, Native] = field(default_factory=dict)
    names: dict[Native, str] = field(default_factory=dict)
    grammars: dict[Native, Grammar] = field(default_factory=dict)
    # Where in the request each function was defined.
    places: dict[str, str] = field(default_factory=dict)
    echo: list[Tool] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def add(self, native: Native, function: ChatFunction, where: str) -> None:
        if native in self.names:
            self.notices.append(f"tool {native.name} was offered twice: the first definition counts")
            return
        name = engine_name(native)
        # Two tools with the same name: the later one gets a suffix made of what it is, not of its position.
        function.name = name if name not in self.functions else _with_digest(name, native)
        self.functions[function.name] = ChatTool(function)
        self.natives[function.name] = native
        self.names[native] = function.name
        self.places[function.name] = where

    def name_of(self, native: Native) -> str:
        """The engine's name of this tool, also when it is not offered any more."""
        return self.names.get(native) or engine_name(native)

    def native_of(self, name: str) -> Native:
        """What the engine's call means. A model may leave the namespace out. Calls of unknown tools are passed on."""
        if name in self.natives:
            return self.natives[name]
        alike = [native for native in self.natives.values() if native.namespace and native.name == name]
        return alike[0] if len(alike) == 1 else Native("function", name)


# ---- functions -------------------------------------------------------------------------------------------------------


def _parameters(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def function_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    nested = tool.get("function")
    function = convert(nested, FunctionTool, f"{where}.function") if nested is not None else convert(tool, FunctionTool, where)
    native = Native("function", _checked_name(function.name, where), namespace)
    definition = ChatFunction(
        name="",
        description=function.description,
        parameters=function.parameters or NO_PARAMETERS,
        strict=True if function.strict else None,
    )
    box.add(native, definition, where)


def custom_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    """Free text becomes a function with one string. A grammar is described in words: engines cannot be constrained to it."""
    custom = convert(tool, CustomTool, where)
    native = Native("custom", _checked_name(custom.name, where), namespace)
    words = custom.description or ""
    hint = "The whole input of the tool, as plain text."
    if custom.format is not None and custom.format.definition:
        box.grammars[native] = custom.format
        hint = f"The whole input of the tool, as plain text that follows the {custom.format.syntax} grammar in the description."
        words = f"{words}\n\nThe input must follow this {custom.format.syntax} grammar:\n{custom.format.definition}".strip()
    parameters = _parameters({"input": {"type": "string", "description": hint}}, "input")
    box.add(native, ChatFunction(name="", description=words or None, parameters=parameters), where)


def namespace_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    group = convert(tool, NamespaceTool, where)
    for at, inner in enumerate(group.tools):
        place = f"{where}.tools[{at}]"
        reader = INNER.get(_kind(inner, place))
        if reader is None:
            box.notices.append(f"tool {inner['type']} in namespace {group.name} was left out: it does not run here")
        else:
            reader(box, inner, place, group.name)


def tool_search_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    search = convert(tool, ToolSearchTool, where)
    if search.execution != "client":
        leave_out(box, tool, where)
        return
    parameters = search.parameters or _parameters({"query": TEXT, "limit": NUMBER}, "query")
    definition = ChatFunction(name="", description=search.description, parameters=parameters)
    box.add(Native("tool_search", "tool_search"), definition, where)


def built_in(kind: str, description: str, parameters: dict[str, Any]) -> Callable[..., None]:
    """A tool that the client runs and that comes without a definition: the description is ours."""

    def add(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        box.add(Native(kind, kind), ChatFunction(name="", description=description, parameters=parameters), where)

    return add


def leave_out(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    name = tool.get("name") or tool.get("server_label")
    box.notices.append(f"tool {tool['type']}{f' {name}' if name else ''} was left out: it does not run here")


LOCAL_SHELL = built_in(
    "local_shell",
    "Runs a command on the user's machine and returns its output.",
    _parameters({"command": TEXTS, "working_directory": TEXT, "timeout_ms": NUMBER}, "command"),
)
SHELL = built_in(
    "shell",
    "Runs shell commands, one after another, and returns their output.",
    _parameters({"commands": TEXTS, "timeout_ms": NUMBER, "max_output_length": NUMBER}, "commands"),
)
APPLY_PATCH = built_in(
    "apply_patch",
    "Creates, updates or deletes one file. `diff` is the new content with a leading + on each line, or a V4A diff.",
    _parameters(
        {"type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]}, "path": TEXT, "diff": TEXT},
        "type",
        "path",
    ),
)

# Adds a tool to the box, by its definition and its place in the request.
Define = Callable[..., None]
# Every other type is left out, with a notice.
DEFINITIONS: dict[str, Define] = {
    "function": function_tool,
    "custom": custom_tool,
    "namespace": namespace_tool,
    "tool_search": tool_search_tool,
    "local_shell": LOCAL_SHELL,
    "shell": SHELL,
    "apply_patch": APPLY_PATCH,
}
INNER: dict[str, Define] = {"function": function_tool, "custom": custom_tool}


def tools_to_box(
    tools: Sequence[Tool], more: Iterable[tuple[str, Tool]] = (), definitions: Mapping[str, Define] = DEFINITIONS
) -> Toolbox:
    """`more`: tools that came in input items, each with its place there. They can be called, but the response does not list
    them as its own."""
    box = Toolbox()
    for at, tool in enumerate(tools):
        definitions.get(_kind(tool, where := f"tools[{at}]"), leave_out)(box, tool, where)
        box.echo.append(_echo(tool))
    for where, tool in more:
        if not _is_known(box, tool):
            _add_found(box, tool, where, definitions)
    return box


def _add_found(box: Toolbox, tool: Tool, where: str, definitions: Mapping[str, Define]) -> None:
    try:
        definitions.get(_kind(tool, where), leave_out)(box, tool, where)
    except InvalidRequest as wrong:
        if not is_stored(where):
            raise
        box.notices.append(f"{where} was left out: {wrong.message}")


def _is_known(box: Toolbox, tool: Tool) -> bool:
    """A tool that was found twice is the same tool, not a conflict."""
    kind = tool.get("type")
    return isinstance(kind, str) and kind in INNER and Native(kind, str(tool.get("name"))) in box.names


def _kind(tool: Tool, where: str) -> str:
    kind = tool.get("type")
    if not isinstance(kind, str):
        raise InvalidRequest(f"Invalid `{where}.type`: every tool needs a type.", param=f"{where}.type")
    return kind


def _checked_name(name: str, where: str) -> str:
    if not name:
        raise InvalidRequest(f"Invalid `{where}.name`: a tool needs a name.", param=f"{where}.name")
    return name


def _echo(tool: Tool) -> Tool:
    """Functions are shown flat and with all their members, as the API does."""
    if tool["type"] != "function":
        return tool
    given = tool.get("function") or tool
    return {"type": "function", **{name: given.get(name) for name in ("name", "description", "parameters", "strict")}}
