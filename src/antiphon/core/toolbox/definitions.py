"""The types of tool that a request may define, and how each becomes a function that an engine can call.

function, custom, namespace (of both), tool_search, local_shell, shell of the client, apply_patch: offered as functions
with `defer_loading`, beside a tool_search that the gateway runs: kept, and offered once a search has found them
those that the gateway runs (mcp, web_search, file_search, code_interpreter, …): defined by their runners, which the caller adds
everything else: without a counterpart here, or not set up; left out with a notice
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from msgspec import Struct

from antiphon.core.checks.work import Grammar
from antiphon.core.protocols.responses.read import convert
from antiphon.core.protocols.responses.references import is_stored
from antiphon.core.toolbox import built_in as built_in_tools
from antiphon.core.toolbox.deferred import is_deferred
from antiphon.core.toolbox.response_tools import flat
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import CLIENT_SEARCH, CLIENT_SHELL, ILLEGAL_IN_NAMES, SERVER_SEARCH, TOOLS, ToolIdentity
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction
from antiphon.wire.hosted_items import ALIASES
from antiphon.wire.input_items import Tool

LONGEST_GIVEN_NAME = 128

# ---- definitions in a request ----------------------------------------------------------------------------------------


class FunctionTool(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomTool(Struct):
    name: str
    description: str | None = None
    format: Grammar | None = None


class ShellSkill(Struct):
    name: str
    path: str
    description: str = ""


class ShellEnvironment(Struct):
    type: str = "local"
    skills: list[ShellSkill] | None = None


class ShellTool(Struct):
    environment: ShellEnvironment | None = None


class Callers(Struct):
    """Who may call a tool: the model itself, or a program that it wrote."""

    allowed_callers: list[str] | None = None


class NamespaceTool(Struct):
    name: str
    tools: list[Tool]
    description: str | None = None


class ToolSearchTool(Struct):
    execution: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


# ---- definitions as functions ----------------------------------------------------------------------------------------


def function_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    nested = tool.get("function")
    place = where if nested is None else f"{where}.function"
    function = convert(tool if nested is None else nested, FunctionTool, place)
    identity = _function_identity(box, _checked_name(function.name, place, strict=namespace is None), namespace)
    definition = ChatFunction(
        name="",
        description=function.description or None,
        parameters=function.parameters or built_in_tools.NO_PARAMETERS,
        strict=True if function.strict else None,
    )
    if box.add(identity, definition, where) and function.strict is False:
        box.offered.unconstrained.add(identity)


def _function_identity(box: Toolbox, name: str, namespace: str | None) -> ToolIdentity:
    identity = ToolIdentity("function", name, namespace or name)
    deferred = box.deferred.source is not None or identity in box.deferred.tools
    return identity if namespace is not None or deferred else ToolIdentity("function", name)


def custom_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    """Free text becomes a function with one string. A grammar is described in words: engines cannot be constrained to it."""
    custom = convert(tool, CustomTool, where)
    identity = ToolIdentity("custom", _checked_name(custom.name, where, strict=False), namespace)
    words = custom.description or ""
    hint = "The whole input of the tool, as plain text."
    grammar = custom.format if custom.format is not None and custom.format.definition else None
    if custom.format is not None and custom.format.type == "grammar" and not is_stored(where):
        _check_grammar_is_there(custom.format, f"{where}.format.definition")
    if grammar is not None:
        hint = f"The whole input of the tool, as plain text that follows the {grammar.syntax} grammar in the description."
        words = f"{words}\n\nThe input must follow this {grammar.syntax} grammar:\n{grammar.definition}".strip()
    parameters = built_in_tools.parameters({"input": {"type": "string", "description": hint}}, "input")
    if box.add(identity, ChatFunction("", words or None, parameters), where) and grammar is not None:
        box.offered.grammars[identity] = grammar


def _check_grammar_is_there(grammar: Grammar, where: str) -> None:
    if grammar.definition is None:
        raise InvalidRequest(f"`{where}` is required.", param=where, code="missing_required_parameter")
    if not grammar.definition.strip():
        raise InvalidRequest(f"Invalid `{where}`: the grammar is empty.", param=where, code="invalid_grammar")


def namespace_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    group = convert(tool, NamespaceTool, where)
    _checked_name(group.name, where, strict=False)
    if group.description:
        box.offered.namespaces.setdefault(group.name, group.description)
    for at, inner in enumerate(group.tools):
        define(box, inner, f"{where}.tools[{at}]", INNER, group.name, group=tool)


def tool_search_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    search = convert(tool, ToolSearchTool, where)
    if search.execution in (None, "server"):
        _server_search(box, tool, where, search)
        return
    if search.execution != "client":
        leave_out(box, tool, where, why="its execution must be server or client")
        return
    parameters = search.parameters or built_in_tools.SEARCH_PARAMETERS
    definition = ChatFunction(name="", description=search.description or None, parameters=parameters)
    box.add(CLIENT_SEARCH, definition, where)


def _server_search(box: Toolbox, tool: Tool, where: str, search: ToolSearchTool) -> None:
    """What it finds is part of its description, and known when all tools are."""
    if not box.deferred.searched:
        leave_out(box, tool, where, why="there is nothing to search, because no tool has defer_loading")
        return
    if search.parameters is not None:
        box.notices.append("parameters of tool tool_search has no effect: the gateway runs the search")
    description = search.description or built_in_tools.SERVER_SEARCH
    box.add(SERVER_SEARCH, ChatFunction("", description, built_in_tools.SERVER_SEARCH_PARAMETERS), where)


def shell_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    environment = convert(tool, ShellTool, where).environment or ShellEnvironment()
    if environment.type != "local":
        leave_out(box, tool, where, why=f"its environment {environment.type} does not run here")
        return
    words = built_in_tools.SHELL
    if environment.skills:
        lines = [f"- {skill.name} ({skill.path}): {skill.description}" for skill in environment.skills]
        words = "\n".join([f"{words}\n\n{built_in_tools.SKILLS}", *lines])
    box.add(CLIENT_SHELL, ChatFunction("", words, built_in_tools.SHELL_PARAMETERS), where)


def built_in(kind: str, description: str, parameters: dict[str, Any]) -> Callable[..., None]:
    """A tool that the client runs and that comes without a definition: the description is ours."""

    def add(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        box.add(ToolIdentity(kind, kind), ChatFunction(name="", description=description, parameters=parameters), where)

    return add


def leave_out(box: Toolbox, tool: Tool, where: str, namespace: str | None = None, *, why: str = "it does not run here") -> None:
    name = flat(tool).get("name") or tool.get("server_label")
    place = f" in namespace {namespace}" if namespace else ""
    kind: str = ALIASES.get(tool["type"]) or tool["type"]
    box.left_out.add(ToolIdentity(kind, str(name or kind), namespace))
    box.notices.append(f"tool {tool['type']}{f' {name}' if name else ''}{place} was left out: {why}")


# Adds a tool to the box, by its definition and its place in the request.
Define = Callable[..., None]
# Every other type is left out, with a notice.
DEFINITIONS: dict[str, Define] = {
    "function": function_tool,
    "custom": custom_tool,
    "namespace": namespace_tool,
    "tool_search": tool_search_tool,
    "local_shell": built_in("local_shell", built_in_tools.LOCAL_SHELL, built_in_tools.LOCAL_SHELL_PARAMETERS),
    "shell": shell_tool,
    "apply_patch": built_in("apply_patch", built_in_tools.APPLY_PATCH, built_in_tools.APPLY_PATCH_PARAMETERS),
}
INNER: dict[str, Define] = {"function": function_tool, "custom": custom_tool}
CALLED_BY_PROGRAMS = frozenset({*INNER, "shell", "apply_patch"})


def define(
    box: Toolbox,
    tool: Tool,
    where: str,
    definitions: Mapping[str, Define],
    namespace: str | None = None,
    *,
    group: Tool | None = None,
) -> None:
    """`group`: the definition of the namespace."""
    kind = _kind(tool, where)
    callers = convert(flat(tool), Callers, where).allowed_callers if kind in CALLED_BY_PROGRAMS else None
    if callers is not None and "direct" not in callers:
        leave_out(box, tool, where, namespace, why="only programs may call it, and they do not run here")
        return
    # Tools in input items have been found.
    hides = box.deferred.searched and where.startswith(TOOLS) and is_deferred(tool, group)
    with box.deferred.reading(tool, group) if hides else nullcontext():
        definitions.get(kind, leave_out)(box, tool, where, namespace)


def _kind(tool: Tool, where: str) -> str:
    kind = tool.get("type")
    if not isinstance(kind, str):
        problem = f"Missing `{where}.type`: every tool needs a type."
        raise InvalidRequest(problem, param=f"{where}.type", code="missing_required_parameter")
    return kind


def _checked_name(name: str, where: str, *, strict: bool) -> str:
    """OpenAI is strict about the names of functions. In a namespace any name will do: clients put the tools of MCP servers
    there, whose names have other characters."""
    if not name:
        raise InvalidRequest(f"Invalid `{where}.name`: a tool needs a name.", param=f"{where}.name", code="invalid_value")
    if strict and (ILLEGAL_IN_NAMES.search(name) is not None or len(name) > LONGEST_GIVEN_NAME):
        allowed = f"expected at most {LONGEST_GIVEN_NAME} characters, which are letters, digits, _ or -"
        raise InvalidRequest(f"Invalid `{where}.name`: {allowed}.", param=f"{where}.name", code="invalid_value")
    return name
