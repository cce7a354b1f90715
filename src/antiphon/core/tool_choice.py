"""What the model may call, and what it must: `tool_choice` in all its forms, in a way that the engine can enforce."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.dialect import Dialect
from antiphon.core.tools import DEFINITIONS, Native, Toolbox
from antiphon.core.validation import convert
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatTool

Choice = dict[str, Any]


class AllowedTools(Struct):
    tools: list[Choice]
    mode: str = "auto"


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that the engine sees, and how it may choose among them."""

    tools: list[ChatTool]
    choice: str | Choice | UnsetType = UNSET
    # Only these may be called, where not all may; and whether one must be.
    only: tuple[str, ...] | None = None
    must_call: bool = False
    # How a required call is made certain where the engine does not enforce it: the answer is constrained to a call, or the
    # prompt asks for one.
    constrained: bool = False
    prompted: bool = False
    # The tools are described in the prompt: the template has none, or the engine constrains no answer beside tools.
    in_words: bool = False


def choice_to_offer(choice: str | Choice | None, box: Toolbox, dialect: Dialect) -> Offer:
    if isinstance(choice, dict):
        kind = choice.get("type")
        if not isinstance(kind, str):
            raise InvalidRequest("Invalid `tool_choice.type`: a choice needs a type.", param="tool_choice.type")
        return CHOICES.get(kind, leave_choice_out)(choice, box, dialect)
    if choice not in (None, "auto", "none", "required"):
        raise InvalidRequest(f"Invalid `tool_choice`: {choice!r} must be one of: auto, none, required.", param="tool_choice")
    # Engines treat "none" differently. Without tools nothing can be called.
    if choice == "none":
        return Offer([], only=())
    if choice == "required":
        return _required(list(box.functions), box, dialect)
    return _auto(list(box.functions.values()), dialect)


def _auto(tools: list[ChatTool], dialect: Dialect, only: tuple[str, ...] | None = None) -> Offer:
    # An engine that cannot parse calls rejects "auto", but shows the tools to its model all the same.
    if not tools:
        return Offer([], only=only)
    return Offer(tools, "auto" if dialect.reads_calls else "none", only, in_words=not dialect.shows_tools)


def _required(names: list[str], box: Toolbox, dialect: Dialect) -> Offer:
    if not names:
        if not box.echo:
            raise InvalidRequest("`tool_choice` is required, but there are no `tools`.", param="tool_choice")
        box.notices.append("tool_choice required was dropped: none of the tools runs here")
        return Offer([])
    if dialect.enforces_required and dialect.shows_tools:
        return Offer([box.functions[name] for name in names], "required", tuple(names), must_call=True)
    return _required_call(names, box, dialect)


def _required_call(names: list[str], box: Toolbox, dialect: Dialect) -> Offer:
    """A required call that the engine does not enforce. If its answer is constrained, all tools stay in the prompt, and in its
    prefix cache."""
    if dialect.constrains_json:
        shown = _auto(list(box.functions.values()), dialect, tuple(names))
        in_words = shown.in_words or not dialect.constrains_json_with_tools
        return replace(shown, must_call=True, constrained=True, in_words=in_words)
    # The engine may support the word after all, and the model may follow the prompt.
    tools, in_words = [box.functions[name] for name in names], not dialect.shows_tools
    return Offer(tools, "required", tuple(names), must_call=True, prompted=True, in_words=in_words)


def named_choice(choice: Choice, box: Toolbox, dialect: Dialect) -> Offer:
    name = _engine_names(choice, box, "tool_choice")[0]
    if dialect.enforces_named and dialect.shows_tools:
        named = {"type": "function", "function": {"name": name}}
        return Offer(list(box.functions.values()), named, (name,), must_call=True)
    return _required_call([name], box, dialect)


def allowed_choice(choice: Choice, box: Toolbox, dialect: Dialect) -> Offer:
    allowed = convert(choice, AllowedTools, "tool_choice")
    if allowed.mode not in ("auto", "required"):
        raise InvalidRequest(
            f"Invalid `tool_choice.mode`: {allowed.mode!r} is neither auto nor required.", param="tool_choice.mode"
        )
    meant = {
        name
        for at, entry in enumerate(allowed.tools)
        # A tool that was left out needs no leaving out again.
        if _kind(entry, f"tool_choice.tools[{at}]") in DEFINITIONS
        for name in _engine_names(entry, box, f"tool_choice.tools[{at}]")
    }
    names = [name for name in box.functions if name in meant]
    if allowed.mode == "required":
        return _required(names, box, dialect)
    return _auto([box.functions[name] for name in names], dialect, tuple(names))


def leave_choice_out(choice: Choice, box: Toolbox, dialect: Dialect) -> Offer:
    box.notices.append(f"tool_choice {choice['type']} was dropped: that tool does not run here")
    return _auto(list(box.functions.values()), dialect)


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


def relaxed_choice(choice: str | Choice | None) -> str | Choice | None:
    """The choice once a tool was called: what was required has been done, what was excluded stays so."""
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": "auto"}
    return choice if choice == "none" else "auto"


def choice_to_echo(choice: str | Choice | None) -> str | Choice:
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": choice.get("mode", "auto")}
    return choice if choice is not None else "auto"
