"""What the model may call: `tool_choice` in all its forms, enforced by what is offered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.checking import convert
from antiphon.core.dialect import Dialect
from antiphon.core.tools import DEFINITIONS, Native, Toolbox
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatTool

Choice = dict[str, Any]


class AllowedTools(Struct):
    tools: list[Choice]
    mode: str = "auto"


@dataclass(frozen=True, slots=True)
class Offer:
    tools: list[ChatTool]
    choice: str | Choice | UnsetType


def choice_to_offer(choice: str | Choice | None, box: Toolbox, dialect: Dialect) -> Offer:
    if isinstance(choice, dict):
        kind = choice.get("type")
        if not isinstance(kind, str):
            raise InvalidRequest("Invalid `tool_choice.type`: a choice needs a type.", param="tool_choice.type")
        return CHOICES.get(kind, leave_choice_out)(choice, box, dialect)
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


def named_choice(choice: Choice, box: Toolbox, dialect: Dialect) -> Offer:
    name = _engine_names(choice, box, "tool_choice")[0]
    if dialect.enforces_named:
        return Offer(list(box.functions.values()), {"type": "function", "function": {"name": name}})
    return Offer([box.functions[name]], "required")


def allowed_choice(choice: Choice, box: Toolbox, dialect: Dialect) -> Offer:
    allowed = convert(choice, AllowedTools, "tool_choice")
    if allowed.mode not in ("auto", "required"):
        raise InvalidRequest(
            f"Invalid `tool_choice.mode`: {allowed.mode!r} is neither auto nor required.", param="tool_choice.mode"
        )
    names = {
        name
        for at, entry in enumerate(allowed.tools)
        # A tool that was left out needs no leaving out again.
        if _kind(entry, f"tool_choice.tools[{at}]") in DEFINITIONS
        for name in _engine_names(entry, box, f"tool_choice.tools[{at}]")
    }
    return _offer([tool for name, tool in box.functions.items() if name in names], allowed.mode, box)


def leave_choice_out(choice: Choice, box: Toolbox, dialect: Dialect) -> Offer:
    box.notices.append(f"tool_choice {choice['type']} was dropped: that tool does not run here")
    return _offer(list(box.functions.values()), "auto", box)


CHOICES: dict[str, Callable[[Choice, Toolbox, Dialect], Offer]] = {
    "allowed_tools": allowed_choice,
    **{kind: named_choice for kind in DEFINITIONS if kind != "namespace"},
}


def _kind(entry: Choice, where: str) -> str:
    kind = entry.get("type", "function")
    if not isinstance(kind, str):
        raise InvalidRequest(f"Invalid `{where}.type`: expected a string.", param=f"{where}.type")
    return kind


def _engine_names(choice: Choice, box: Toolbox, where: str) -> list[str]:
    """The functions that a choice names: one, or all of a namespace."""
    kind = choice.get("type", "function")
    # Chat Completions nests the name; clients that were written for it send it so.
    nested = choice.get("function")
    name = choice.get("name") or (nested.get("name") if isinstance(nested, dict) else None) or kind
    namespace = choice.get("namespace")
    names: list[str] = []
    if kind == "namespace":
        names = [known for native, known in box.names.items() if native.namespace == name]
    elif isinstance(name, str) and (namespace is None or isinstance(namespace, str)):
        meant = Native(kind, name, namespace)
        names = [box.names[meant]] if meant in box.names else []
    if not names:
        raise InvalidRequest(f"`{where}` names {name!r}, which is not among the tools.", param=where)
    return names


def choice_to_echo(choice: str | Choice | None) -> str | Choice:
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": choice.get("mode", "auto")}
    return choice if choice is not None else "auto"
