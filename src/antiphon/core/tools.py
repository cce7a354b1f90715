"""Tool definitions and choices: what the engine is offered, and what the response echoes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.checking import convert
from antiphon.core.dialect import Dialect
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction, ChatTool

Tool = dict[str, Any]

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class FunctionTool(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class AllowedTools(Struct):
    tools: list[dict[str, Any]]
    mode: str = "auto"


@dataclass(slots=True)
class Toolbox:
    """The functions that the engine will see, by name, and the tools as the response shows them."""

    functions: dict[str, ChatTool] = field(default_factory=dict)
    echo: list[Tool] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Offer:
    tools: list[ChatTool]
    choice: str | dict[str, Any] | UnsetType


# ---- definitions -----------------------------------------------------------------------------------------------------


def add_function(box: Toolbox, tool: Tool, where: str) -> None:
    nested = tool.get("function")
    function = convert(nested, FunctionTool, f"{where}.function") if nested is not None else convert(tool, FunctionTool, where)
    if not function.name:
        raise InvalidRequest(f"Invalid `{where}.name`: a function needs a name.", param=f"{where}.name")
    if function.name in box.functions:
        box.notices.append(f"tool {function.name} was offered twice: the first definition counts")
        return
    box.functions[function.name] = ChatTool(
        ChatFunction(
            name=function.name,
            description=function.description,
            parameters=function.parameters or NO_PARAMETERS,
            strict=True if function.strict else None,
        )
    )
    box.echo.append(
        {
            "type": "function",
            "name": function.name,
            "description": function.description,
            "parameters": function.parameters,
            "strict": function.strict,
        }
    )


def leave_out(box: Toolbox, tool: Tool, where: str) -> None:
    """Hosted tools run on OpenAI's servers, and other types have no counterpart in Chat Completions."""
    name = tool.get("name") or tool.get("server_label")
    box.notices.append(f"tool {tool['type']}{f' {name}' if name else ''} was left out: it does not run here")
    box.echo.append(tool)


# Every other type is left out, with a notice.
DEFINITIONS: dict[str, Callable[[Toolbox, Tool, str], None]] = {"function": add_function}


def tools_to_box(tools: Sequence[Tool]) -> Toolbox:
    box = Toolbox()
    for at, tool in enumerate(tools):
        kind = tool.get("type")
        if not isinstance(kind, str):
            raise InvalidRequest(f"Invalid `tools[{at}].type`: every tool needs a type.", param=f"tools[{at}].type")
        DEFINITIONS.get(kind, leave_out)(box, tool, f"tools[{at}]")
    return box


# ---- choices ---------------------------------------------------------------------------------------------------------


def choice_to_offer(choice: str | dict[str, Any] | None, box: Toolbox, dialect: Dialect) -> Offer:
    if isinstance(choice, dict):
        kind = choice.get("type")
        reader = CHOICES.get(kind, leave_choice_out) if isinstance(kind, str) else leave_choice_out
        return reader(choice, box, dialect)
    if choice not in (None, "auto", "none", "required"):
        raise InvalidRequest(f"Invalid `tool_choice`: {choice!r} is none of auto, none, required.", param="tool_choice")
    # Engines differ in how they take "none"; without tools nothing can be called.
    if choice == "none":
        return Offer([], UNSET)
    return _offer(list(box.functions.values()), choice or "auto", box)


def _offer(tools: list[ChatTool], mode: str, box: Toolbox) -> Offer:
    if not tools:
        if mode == "required" and not box.echo:
            raise InvalidRequest("`tool_choice` is required, but there are no `tools`.", param="tool_choice")
        if mode == "required":
            box.notices.append("tool_choice required was dropped: none of the tools runs here")
        return Offer([], UNSET)
    return Offer(tools, mode)


def named_choice(choice: dict[str, Any], box: Toolbox, dialect: Dialect) -> Offer:
    tool = _named(choice, box, "tool_choice")
    if dialect.takes_named_choice:
        named = {"type": "function", "function": {"name": tool.function.name}}
        return Offer(list(box.functions.values()), named)
    return Offer([tool], "required")


def allowed_choice(choice: dict[str, Any], box: Toolbox, dialect: Dialect) -> Offer:
    allowed = convert(choice, AllowedTools, "tool_choice")
    if allowed.mode not in ("auto", "required"):
        raise InvalidRequest(
            f"Invalid `tool_choice.mode`: {allowed.mode!r} is neither auto nor required.", param="tool_choice.mode"
        )
    chosen = {
        tool.function.name: tool
        for at, entry in enumerate(allowed.tools)
        if entry.get("type", "function") == "function"
        for tool in [_named(entry, box, f"tool_choice.tools[{at}]")]
    }
    return _offer([tool for name, tool in box.functions.items() if name in chosen], allowed.mode, box)


def leave_choice_out(choice: dict[str, Any], box: Toolbox, dialect: Dialect) -> Offer:
    kind = choice.get("type")
    if not isinstance(kind, str):
        raise InvalidRequest("Invalid `tool_choice.type`: a choice needs a type.", param="tool_choice.type")
    box.notices.append(f"tool_choice {kind} was dropped: that tool does not run here")
    return _offer(list(box.functions.values()), "auto", box)


CHOICES: dict[str, Callable[[dict[str, Any], Toolbox, Dialect], Offer]] = {
    "function": named_choice,
    "allowed_tools": allowed_choice,
}


def _named(choice: dict[str, Any], box: Toolbox, where: str) -> ChatTool:
    # Chat Completions nests the name; clients that were written for it send it so.
    nested = choice.get("function")
    name = choice.get("name") or (nested.get("name") if isinstance(nested, dict) else None)
    if not isinstance(name, str) or name not in box.functions:
        raise InvalidRequest(f"`{where}` names {name!r}, which is not among the tools.", param=where)
    return box.functions[name]


def choice_to_echo(choice: str | dict[str, Any] | None) -> str | dict[str, Any]:
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": choice.get("mode", "auto")}
    return choice if choice is not None else "auto"
