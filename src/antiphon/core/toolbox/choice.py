"""`tool_choice`: what the model may call and what it must, as an offer that the engine can enforce."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from antiphon.core.checks.constraints import constrains, say_function
from antiphon.core.checks.schema_support import is_enforced
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.deferred import DeferredTool
from antiphon.core.toolbox.definitions import DEFINITIONS, INNER, Define
from antiphon.core.toolbox.mcp_servers import MCP
from antiphon.core.toolbox.response_tools import flat
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import CLIENT_SEARCH, RUN_HERE, SERVER_SEARCH, ToolIdentity
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.chat import ChatFunction, ChatTool
from antiphon.wire.hosted_items import ALIASES

Choice = dict[str, Any]
K = TypeVar("K")

# ---- deferred tools in a choice --------------------------------------------------------------------------------------


def deferred_keys(box: Toolbox) -> frozenset[Hashable]:
    """The keys of all choices that name deferred tools: one of them, a namespace, or a server."""
    return frozenset(key for identity in box.deferred.tools for key in _keys(identity))


def choice_key(choice: Choice) -> Hashable:
    """What a choice names, in a form that can be looked up."""
    given = flat({"type": "function", **choice})
    if given["type"] == "namespace":
        return "namespace", str(given.get("name"))
    if given["type"] == MCP:
        return MCP, str(given.get("server_label")), _text(given.get("name"))
    return given["type"], str(given.get("name")), _text(given.get("namespace"))


def allowed_deferred(choice: str | Choice | None, box: Toolbox) -> Mapping[ToolIdentity, DeferredTool]:
    """Those that may be called once they are found."""
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return box.deferred.tools
    allowed = set(map(choice_key, choice["tools"]))
    return {identity: tool for identity, tool in box.deferred.tools.items() if not allowed.isdisjoint(_keys(identity))}


def _keys(identity: ToolIdentity) -> Iterable[Hashable]:
    """The ways to name it. A choice may leave the namespace of a tool out, or name all that a namespace or server has."""
    if identity.kind == MCP:
        return (MCP, identity.namespace, identity.name), (MCP, identity.namespace, None)
    kind, name, namespace = identity.kind, identity.name, identity.namespace
    return (kind, name, namespace), (kind, name, None), ("namespace", namespace)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# ---- tools as one engine gets them -----------------------------------------------------------------------------------


def tools_as_sent(tools: Sequence[ChatTool], box: Toolbox, *, constrains: bool) -> list[ChatTool]:
    """`constrains`: the engine constrains the arguments of functions that are marked as strict."""
    described = dict(_namespace_words(tools, box))
    return [ChatTool(_as_sent(tool.function, box, described.get(tool.function.name, ""), constrains)) for tool in tools]


def _as_sent(function: ChatFunction, box: Toolbox, words: str, constrains: bool) -> ChatFunction:
    description = "\n\n".join(filter(None, (function.description, words))) or None
    strict = function.strict or (constrains and _may_be_constrained(function, box)) or None
    if (description, strict) == (function.description, function.strict):
        return function
    return structs.replace(function, description=description, strict=strict)


def _may_be_constrained(function: ChatFunction, box: Toolbox) -> bool:
    """Unless the client says otherwise, arguments follow their schema if the engine enforces it, and are not checked."""
    return box.offered.identities[function.name] not in box.offered.unconstrained and is_enforced(function.parameters)


def _namespace_words(tools: Iterable[ChatTool], box: Toolbox) -> Iterable[tuple[str, str]]:
    """The first function of a namespace has its description, once for all: every further copy would only cost tokens."""
    seen: set[str] = set()
    for tool in tools:
        namespace = box.offered.identities[tool.function.name].namespace
        if namespace in box.offered.namespaces and namespace not in seen:
            seen.add(namespace)
            yield tool.function.name, f"About all tools of {namespace}: {box.offered.namespaces[namespace]}"


# ---- the offer -------------------------------------------------------------------------------------------------------


class AllowedTools(Struct):
    tools: list[Choice]
    mode: str = "auto"


class Offer(Struct, frozen=True):
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
    # The function by which the model answers in words, where its answer is constrained to a call and need not be one.
    say: ChatFunction | None = None
    # How many calls may be made together where the answer is constrained.
    most_calls: int = 1
    # The tools are described in the prompt: the template has none, or the engine constrains no answer beside tools.
    in_words: bool = False
    # The tools that may not be called in this answer because the model is in a loop, and why.
    withheld: Mapping[str, str] = {}
    # The calls that a small model does not make again now, by their names and arguments: they have succeeded.
    made: frozenset[Hashable] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The functions that may be called."""
        return self.only if self.only is not None else tuple(tool.function.name for tool in self.tools)

    @property
    def shown(self) -> list[ChatTool]:
        """The tools as the model sees them."""
        return self.tools if self.say is None else [*self.tools, ChatTool(self.say)]


# That of most requests. Nothing is added to it.
NO_OFFER = Offer([])


# Of a constrained answer. A small model that may write a longer list goes on with it.
MOST_CALLS = 4


def choice_to_offer(
    choice: str | Choice | None,
    box: Toolbox,
    dialect: Dialect,
    definitions: Mapping[str, Define] = DEFINITIONS,
    *,
    constrains_answers: bool = False,
    parallel: bool = True,
) -> Offer:
    """`definitions`: the types of tool that there are here, those that the gateway runs among them. `constrains_answers`: an
    answer that may be a call is constrained to the form of one. `parallel`: or of several."""
    offer = _offer(choice, Choosable(box, dialect, definitions))
    if not offer.tools:
        return offer
    if constrains_answers and not offer.must_call and constrains(dialect):
        offer = _constrained(offer, box, dialect, parallel=parallel)
    return structs.replace(
        offer, tools=tools_as_sent(offer.tools, box, constrains=dialect.constrains_calls and not offer.in_words)
    )


class Choosable:
    """What a choice is made from."""

    def __init__(self, box: Toolbox, dialect: Dialect, definitions: Mapping[str, Define]) -> None:
        self.box = box
        self.dialect = dialect
        self.definitions = definitions

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], list[str]]:
        """The functions by the kind and the name of their tool, whatever its namespace is."""
        return _grouped(((identity.kind, identity.name), known) for identity, known in self.box.offered.names.items())

    @cached_property
    def by_namespace(self) -> Mapping[str | None, list[str]]:
        return _grouped((identity.namespace, known) for identity, known in self.box.offered.names.items())

    @cached_property
    def _deferred(self) -> Collection[Hashable]:
        return deferred_keys(self.box)

    def defers(self, choice: Choice) -> bool:
        """It names tools that a search may find."""
        return choice_key(choice) in self._deferred

    def not_here(self, what: str) -> InvalidRequest:
        """A call is required that cannot be made. Without it, the client would get an answer that it did not ask for."""
        kinds = ", ".join(kind for kind in self.definitions if kind != "namespace")
        problem = f"`tool_choice` requires a call of {what}. Only tools of these types can be required: {kinds}."
        return InvalidRequest(problem, param="tool_choice", code="unsupported_value")


def _offer(choice: str | Choice | None, among: Choosable) -> Offer:
    box, dialect = among.box, among.dialect
    if isinstance(choice, dict):
        kind = choice.get("type")
        if not isinstance(kind, str):
            raise _missing("tool_choice.type", "a choice needs a type")
        return allowed_choice(choice, among) if kind == "allowed_tools" else named_choice(choice, among)
    if choice not in (None, "auto", "none", "required"):
        raise _invalid("tool_choice", f"{choice!r} must be one of: auto, none, required")
    # Engines treat "none" differently. Without tools nothing can be called.
    if choice == "none":
        return Offer([], only=())
    if choice == "required":
        return _required(list(box.offered.functions), among)
    return _auto(list(box.offered.functions.values()), dialect)


def _auto(tools: list[ChatTool], dialect: Dialect, only: tuple[str, ...] | None = None) -> Offer:
    # An engine that cannot parse calls rejects "auto", but shows the tools to its model all the same.
    if not tools:
        return NO_OFFER if only is None else Offer([], only=only)
    return Offer(tools, "auto" if dialect.reads_calls else "none", only, in_words=not dialect.shows_tools)


def _required(names: list[str], among: Choosable) -> Offer:
    box, dialect = among.box, among.dialect
    if not names:
        if not box.offered.functions and not box.left_out:
            raise _invalid("tool_choice", "a call is required, but there are no `tools`")
        raise among.not_here("a tool, but none of those that may be called runs here")
    if dialect.enforces_required and dialect.shows_tools:
        return Offer([box.offered.functions[name] for name in names], "required", tuple(names), must_call=True)
    return _required_call(names, box, dialect)


def _required_call(names: list[str], box: Toolbox, dialect: Dialect) -> Offer:
    """A required call that the engine does not enforce. If its answer is constrained, all tools stay in the prompt, and in its
    prefix cache."""
    if constrains(dialect):
        shown = _auto(list(box.offered.functions.values()), dialect, tuple(names))
        in_words = shown.in_words or not _shows_tools_too(dialect)
        return structs.replace(shown, must_call=True, constrained=True, in_words=in_words)
    # The engine may support the word after all, and the model may follow the prompt.
    tools, in_words = [box.offered.functions[name] for name in names], not dialect.shows_tools
    return Offer(tools, "required", tuple(names), must_call=True, prompted=True, in_words=in_words)


def _constrained(offer: Offer, box: Toolbox, dialect: Dialect, *, parallel: bool) -> Offer:
    """A call, or an answer in words, which is a call as well. What is done with easy functions takes one step after another:
    a small model that writes several of them has not seen what came of the first one."""
    # An engine that reads calls would pass on those of our own function.
    in_words = offer.in_words or dialect.calls_when_constrained or not _shows_tools_too(dialect)
    most = MOST_CALLS if parallel and not box.easy.functions else 1
    return structs.replace(offer, constrained=True, say=say_function(box.offered.functions), in_words=in_words, most_calls=most)


def _shows_tools_too(dialect: Dialect) -> bool:
    """The engine takes tools beside a constraint. It accepts a grammar beside tools that cannot be called."""
    return dialect.constrains_json_with_tools or dialect.constraint_member == "grammar"


def named_choice(choice: Choice, among: Choosable) -> Offer:
    box, dialect, kind = among.box, among.dialect, choice["type"]
    if kind in INNER and not flat(choice).get("name"):
        raise _missing("tool_choice.name", f"a choice of type {kind} needs a name")
    meant = _meant(choice)
    if meant == CLIENT_SEARCH and meant in box.left_out:
        raise _invalid("tool_choice", "tool_search has nothing to search: no tool has `defer_loading`")
    if kind not in among.definitions or kind == "namespace" or meant in box.left_out:
        name = "" if meant.name == meant.kind else f" {meant.name}"
        raise among.not_here(f"{kind}{name}, which does not run here")
    # Of a tool with several functions, the one that has its name is where to begin.
    names = box.functions_of(meant) if meant in box.offered.names else _engine_names(choice, among, "tool_choice")
    if not names:
        problem = f"{quoted(meant.name)} has defer_loading, so the model has to find it first. Require tool_search instead"
        raise _invalid("tool_choice", problem)
    if len(names) > 1:
        return _required(names, among)
    if dialect.enforces_named and dialect.shows_tools:
        named = {"type": "function", "function": {"name": names[0]}}
        return Offer(list(box.offered.functions.values()), named, (names[0],), must_call=True)
    return _required_call(names, box, dialect)


def allowed_choice(choice: Choice, among: Choosable) -> Offer:
    box = among.box
    allowed = convert(choice, AllowedTools, "tool_choice")
    if allowed.mode not in ("auto", "required"):
        raise _invalid("tool_choice.mode", f"{allowed.mode!r} must be one of: auto, required")
    # Each once: a namespace may have many tools.
    entries: dict[tuple[ToolIdentity, str], tuple[str, Choice]] = {}
    for at, entry in enumerate(allowed.tools):
        where = f"tool_choice.tools[{at}]"
        entries.setdefault((_meant(_checked(entry, where)), str(entry.get("name"))), (where, entry))
    meant = {
        name
        for (tool, _), (where, entry) in entries.items()
        # A tool that was left out needs no leaving out again.
        if tool not in box.left_out
        for name in _engine_names(entry, among, where)
    }
    if SERVER_SEARCH in box.offered.names and any(among.defers(entry) for _, entry in entries.values()):
        meant.add(box.offered.names[SERVER_SEARCH])
    names = [name for name in box.offered.functions if name in meant]
    if allowed.mode == "required":
        return _required(names, among)
    return _auto([box.offered.functions[name] for name in names], among.dialect, tuple(names))


def _checked(entry: Choice, where: str) -> Choice:
    if not isinstance(entry.get("type", "function"), str):
        raise InvalidRequest(f"Invalid `{where}.type`: expected a string.", param=f"{where}.type", code="invalid_type")
    return entry


def _meant(choice: Choice) -> ToolIdentity:
    """The tool that a choice names, as it would be known if it is offered."""
    given = flat({"type": "function", **choice})
    kind: str = ALIASES.get(given["type"]) or given["type"]
    name = given.get("server_label") or given.get("name") or kind
    namespace = given.get("namespace")
    return ToolIdentity(kind, str(name), None if namespace is None else str(namespace))


def _engine_names(choice: Choice, among: Choosable, where: str) -> list[str]:
    """The functions that a choice names: those of one tool, all of a namespace, or all of a tool that the gateway runs. None:
    a tool that is still deferred."""
    box, meant = among.box, _meant(choice)
    here = RUN_HERE.get(meant)
    meant = here if here in box.offered.names else meant
    if meant in box.offered.names and (meant.kind in DEFINITIONS or meant == here):
        return box.functions_of(meant)
    if meant.kind == "namespace":
        names = among.by_namespace.get(meant.name, [])
    elif meant.kind in DEFINITIONS:
        # A choice may leave the namespace out, as long as it is clear.
        alike = among.by_name.get((meant.kind, meant.name), [])
        names = alike if len(alike) == 1 and meant.namespace is None else []
    else:
        label, name = choice.get("server_label"), choice.get("name")
        label = _server_label(choice, where) if meant.kind == MCP else label
        names = [
            known
            for identity, known in box.offered.names.items()
            if identity.kind == meant.kind and label in (None, identity.namespace) and name in (None, identity.name)
        ]
    if not names and not among.defers(choice):
        inner = f"{quoted(choice['name'])} of " if meant.kind == MCP and choice.get("name") else ""
        raise _invalid(where, f"{inner}{quoted(meant.name)} is not among the tools")
    return names


def _grouped(pairs: Iterable[tuple[K, str]]) -> Mapping[K, list[str]]:
    groups: dict[K, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def _invalid(where: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid `{where}`: {problem}.", param=where, code="invalid_value")


def _missing(where: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Missing `{where}`: {problem}.", param=where, code="missing_required_parameter")


def provisional_choice(choice: str | Choice | None, box: Toolbox) -> str | Choice | None:
    """The choice as long as not all tools are known: what may be among the others is not looked for yet."""
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind not in ("required", MCP, "allowed_tools"):
        return choice
    if isinstance(choice, dict) and kind == MCP and (label := _server_label(choice, "tool_choice")) not in box.servers.places:
        raise _invalid("tool_choice", f"{quoted(label)} is not among the tools")
    return "auto"


def _server_label(choice: Choice, where: str) -> str:
    if not isinstance(label := choice.get("server_label"), str):
        raise _missing(f"{where}.server_label", "a choice of type mcp needs the label of a server")
    return label


def relaxed_choice(choice: str | Choice | None) -> str | Choice | None:
    """The choice once a tool was called: what was required has been done, what was excluded stays so."""
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": "auto"}
    return choice if choice == "none" else "auto"


def choice_to_response(choice: str | Choice | None) -> str | Choice:
    if choice is None:
        return "auto"
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools":
        return {**choice, "mode": choice.get("mode", "auto")}
    return flat(choice)
