"""Tool definitions: every type of tool as a function that an engine can call, and back by name.

function, custom, namespace (of both), tool_search, local_shell, shell of the client, apply_patch: offered as functions
with `defer_loading`, beside a tool_search that the gateway runs: kept, and offered once a search has found them
those that the gateway runs (mcp, web_search, file_search, code_interpreter, …): defined by their runners, which the caller adds
everything else: without a counterpart here, or not set up; left out with a notice
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import NODEFAULT, Struct, field, structs

from antiphon.core.checks.work import Grammar
from antiphon.core.protocols.responses.item_paths import is_stored
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox import built_in as built_in_tools
from antiphon.core.toolbox.deferred import DeferredTool, is_deferred, searches_here
from antiphon.core.toolbox.easy_function import EasyFunction
from antiphon.core.toolbox.echo import flat, tool_to_echo
from antiphon.core.toolbox.mcp_servers import McpDefinition, McpServer
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction, ChatTool
from antiphon.wire.hosted_items import McpApprovalRequest, McpTool, type_of
from antiphon.wire.tools import ALIASES

# ---- What a client may ask of a function or a custom tool that is not done here. It is echoed, and the notice says so ----

WITHOUT_EFFECT = {
    "defer_loading": "the model sees the tool from the start",
    "async": "the result of a call is expected in the next request",
    "output_schema": "the model does not see it",
}
# More would make the header too long.
MOST_NAMES = 3


def members_without_effect(tools: Iterable[dict[str, Any]], *, defers: bool = False) -> Iterable[str]:
    """`defers`: tools with `defer_loading` are hidden until they are found."""
    given = [flat(tool) for tool in tools]
    for member, instead in WITHOUT_EFFECT.items():
        if defers and member == "defer_loading":
            continue
        names = [str(tool.get("name")) for tool in given if tool.get(member)]
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            yield f"{member} of {', '.join(names[:MOST_NAMES])}{more} has no effect: {instead}"


Tool = dict[str, Any]

# The field of a request that lists its tools; and where the tools are that the operator adds to it.
TOOLS = "tools"
ATTACHED = "attached"
# What engines accept. A client may send longer names.
LONGEST_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_GIVEN_NAME = 128
# The form of calls that the client has to approve first.
APPROVAL = type_of(McpApprovalRequest)


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


class ToolResult(Struct, frozen=True):
    """What came of a call that the gateway ran. `output` is for the model; `data` is for the form that makes the item."""

    output: str
    failed: bool = False
    data: Any = None
    # What the client should know of it.
    notice: str = ""


class Native(Struct, frozen=True, gc=False):
    """A tool as the client knows it. Its kind decides what its calls look like."""

    kind: str
    name: str
    namespace: str | None = None


def engine_name(native: Native) -> str:
    """The name that the engine sees: legal, at most 64 characters, and the same in every turn."""
    own = not native.namespace or is_namespace_of_its_own(native)
    plain = native.name if own else f"{native.namespace}__{native.name}"
    legal = _ILLEGAL.sub("_", plain)
    return legal if legal == plain and len(legal) <= LONGEST_NAME else _with_digest(legal, native)


def is_namespace_of_its_own(native: Native) -> bool:
    """The API puts a deferred function that is in no namespace into one of its own name."""
    return native.kind == "function" and native.namespace == native.name


class AsCalled(Struct, frozen=True):
    """A call of a tool as the model makes it."""

    name: str
    arguments: str
    # The tool is offered as easy functions: the results of its calls are shown in plain words, which may name these functions.
    easy: Collection[str] = ()


def plain_call(native: Native, arguments: str) -> AsCalled:
    """A call of a tool that is not offered."""
    return AsCalled(engine_name(native), arguments)


def _with_digest(name: str, native: Native) -> str:
    identity = f"{native.kind}\0{native.namespace or ''}\0{native.name}".encode()
    digest = hashlib.blake2b(identity, digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - len(digest) - 1]}_{digest}"


class KnownLists(Protocol):
    """The tools of MCP servers, as far as they are known."""

    def tools_of(self, label: str, *, attached: bool = False, named: Collection[str] = ()) -> Sequence[McpTool] | None: ...


class Toolbox(Struct):
    """The functions that the engine sees, what each stands for, and the tools as the response lists them."""

    functions: dict[str, ChatTool] = field(default_factory=dict)
    natives: dict[str, Native] = field(default_factory=dict)
    names: dict[Native, str] = field(default_factory=dict)
    grammars: dict[Native, Grammar] = field(default_factory=dict)
    # Functions whose arguments are not to be constrained: the client says `strict: false`.
    unconstrained: set[Native] = field(default_factory=set)
    # Namespace → its description.
    namespaces: dict[str, str] = field(default_factory=dict)
    left_out: set[Native] = field(default_factory=set)
    # There is a search that the gateway runs, and these are the tools that it finds, those included that it has found.
    searches: bool = False
    searchable: dict[Native, DeferredTool] = field(default_factory=dict)
    # The names that they will have.
    reserved: set[str] = field(default_factory=set)
    # The definition whose tools are deferred, and its namespace.
    deferring: tuple[Tool, Tool | None] | None = None
    # Tools that the gateway runs whose calls must not be made a second time, because each has an effect of its own.
    not_idempotent: set[Native] = field(default_factory=set)
    # The functions that are offered in place of a tool, by their names; and their names by the tool.
    easy: dict[str, EasyFunction] = field(default_factory=dict)
    instead: dict[Native, tuple[str, ...]] = field(default_factory=dict)
    # MCP servers, by label: where each was defined; and those whose tools have to be listed before they can be offered.
    servers: dict[str, str] = field(default_factory=dict)
    # The servers that the labels mean: calls go there.
    mcp: dict[str, McpDefinition] = field(default_factory=dict)
    unlisted: list[McpServer] = field(default_factory=list)
    # What is known of their tools. A server that is not among them has to be asked first.
    lists: KnownLists | None = None
    # Tools that are not run before the client has approved the call.
    needs_approval: set[Native] = field(default_factory=set)
    # Where in the request each function was defined.
    places: dict[str, str] = field(default_factory=dict)
    echo: list[Tool] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def add(self, native: Native, function: ChatFunction, where: str) -> bool:
        """False: there is one already."""
        known, is_own = self.searchable.get(native), where.startswith(TOOLS)
        if native in self.names or (known is not None and (is_own or self.deferring is not None)):
            # One that was found twice in input items is the same tool, not a conflict.
            if is_own:
                self.notices.append(f"tool {native.name} was offered twice: the first definition counts")
            return False
        function.name = self._new_name(native) if known is None else known.function.name
        if self.deferring is not None:
            self.searchable[native] = DeferredTool(function, *self.deferring, where)
            self.reserved.add(function.name)
        else:
            self._offer(native, function, where)
        return True

    def _new_name(self, native: Native) -> str:
        """Of two tools with the same name, the later one gets a suffix made of what it is, not of its position. A tool that is
        deferred keeps its name for the time when it is found."""
        name = engine_name(native)
        return _with_digest(name, native) if name in self.functions or name in self.reserved else name

    def _offer(self, native: Native, function: ChatFunction, where: str) -> None:
        self.functions[function.name] = ChatTool(function)
        self.natives[function.name] = native
        self.names[native] = function.name
        self.places[function.name] = where

    @contextmanager
    def defers(self, definition: Tool, group: Tool | None = None) -> Iterator[None]:
        """The tools that are added meanwhile are deferred. They come from this definition, and this namespace."""
        self.deferring = (definition, group)
        try:
            yield
        finally:
            self.deferring = None

    def offer_deferred(self, native: Native) -> None:
        """A search has found it."""
        if native not in self.names:
            tool = self.searchable[native]
            self._offer(native, tool.function, tool.where)

    def offer_as(self, native: Native, functions: Sequence[EasyFunction]) -> None:
        """Offers these functions in the place of the tool. A call by its own name still means the tool."""
        own = self.names[native]
        offered = {easy.name: ChatTool(ChatFunction(easy.name, easy.description, easy.parameters)) for easy in functions}
        tools = [(offered if name == own else {name: tool}).items() for name, tool in self.functions.items()]
        self.functions = dict(itertools.chain.from_iterable(tools))
        for easy in functions:
            self.natives[easy.name] = native
            self.places[easy.name] = self.places[own]
            self.easy[easy.name] = easy
        self.instead[native] = tuple(offered)
        # That counted for the arguments of the tool. Those of the functions may be constrained.
        self.unconstrained.discard(native)

    def form_of(self, native: Native) -> str:
        """The kind of tool that its calls look like."""
        return APPROVAL if native in self.needs_approval else native.kind

    def functions_of(self, native: Native) -> list[str]:
        """The functions that a tool is offered as."""
        return list(self.instead.get(native) or (self.names[native],))

    def own_names(self, functions: Collection[str]) -> list[str]:
        """The own names of tools that are offered as some of these functions."""
        return [self.names[native] for native, names in self.instead.items() if not set(names).isdisjoint(functions)]

    def offered_as(self, name: str) -> Sequence[str]:
        """The functions by which the model can make a call that it made by this name."""
        return (name,) if name in self.functions else self.instead.get(self.native_of(name), (name,))

    def native_arguments(self, name: str, arguments: str) -> str | None:
        """The arguments of the tool that an easy function stands for. None: it is no such function."""
        easy = self.easy.get(name)
        return None if easy is None else easy.native_arguments(arguments)

    def as_called(self, native: Native, arguments: str) -> AsCalled:
        if not self.instead:
            return AsCalled(self.name_of(native), arguments)
        for name in self.instead.get(native, ()):
            if (own := self.easy[name].own_arguments(arguments)) is not None:
                return AsCalled(name, own, easy=self.easy.keys())
        return AsCalled(self.name_of(native), arguments, easy=self.easy.keys() if native in self.instead else ())

    def shown_name(self, name: str, arguments: str) -> str:
        """The name of the function that the history will show for this call."""
        native = self.native_of(name)
        if native not in self.instead:
            return self.name_of(native)
        own = self.native_arguments(name, arguments)
        return self.as_called(native, arguments if own is None else own).name

    def name_of(self, native: Native) -> str:
        """The engine's name of this tool, also when it is not offered any more, or not yet."""
        if (name := self.names.get(native)) is not None:
            return name
        deferred = self.searchable.get(native)
        return engine_name(native) if deferred is None else deferred.function.name

    def native_of(self, name: str) -> Native:
        """What the engine's call means. A model may leave the namespace out. Calls of unknown tools are passed on."""
        return self._find(name) or Native("function", name)

    def knows(self, name: str) -> bool:
        """A call by this name means one of these tools."""
        return self._find(name) is not None

    def _find(self, name: str) -> Native | None:
        if name in self.natives:
            return self.natives[name]
        alike = [native for native in self.natives.values() if native.namespace and native.name == name]
        return alike[0] if len(alike) == 1 else None


# ---- functions -------------------------------------------------------------------------------------------------------


def function_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    nested = tool.get("function")
    place = where if nested is None else f"{where}.function"
    function = convert(tool if nested is None else nested, FunctionTool, place)
    native = _function_native(box, _checked_name(function.name, place, strict=namespace is None), namespace)
    definition = ChatFunction(
        name="",
        description=function.description or None,
        parameters=function.parameters or built_in_tools.NO_PARAMETERS,
        strict=True if function.strict else None,
    )
    if box.add(native, definition, where) and function.strict is False:
        box.unconstrained.add(native)


def _function_native(box: Toolbox, name: str, namespace: str | None) -> Native:
    native = Native("function", name, namespace or name)
    deferred = box.deferring is not None or native in box.searchable
    return native if namespace is not None or deferred else Native("function", name)


def custom_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    """Free text becomes a function with one string. A grammar is described in words: engines cannot be constrained to it."""
    custom = convert(tool, CustomTool, where)
    native = Native("custom", _checked_name(custom.name, where, strict=False), namespace)
    words = custom.description or ""
    hint = "The whole input of the tool, as plain text."
    grammar = custom.format if custom.format is not None and custom.format.definition else None
    if custom.format is not None and custom.format.type == "grammar" and not is_stored(where):
        _check_grammar_is_there(custom.format, f"{where}.format.definition")
    if grammar is not None:
        hint = f"The whole input of the tool, as plain text that follows the {grammar.syntax} grammar in the description."
        words = f"{words}\n\nThe input must follow this {grammar.syntax} grammar:\n{grammar.definition}".strip()
    parameters = built_in_tools.parameters({"input": {"type": "string", "description": hint}}, "input")
    if box.add(native, ChatFunction("", words or None, parameters), where) and grammar is not None:
        box.grammars[native] = grammar


def _check_grammar_is_there(grammar: Grammar, where: str) -> None:
    if grammar.definition is None:
        raise InvalidRequest(f"`{where}` is required.", param=where, code="missing_required_parameter")
    if not grammar.definition.strip():
        raise InvalidRequest(f"Invalid `{where}`: the grammar is empty.", param=where, code="invalid_grammar")


def namespace_tool(box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
    group = convert(tool, NamespaceTool, where)
    _checked_name(group.name, where, strict=False)
    if group.description:
        box.namespaces.setdefault(group.name, group.description)
    for at, inner in enumerate(group.tools):
        _define(box, inner, f"{where}.tools[{at}]", INNER, group.name, group=tool)


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
    if not box.searches:
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
        box.add(Native(kind, kind), ChatFunction(name="", description=description, parameters=parameters), where)

    return add


def leave_out(box: Toolbox, tool: Tool, where: str, namespace: str | None = None, *, why: str = "it does not run here") -> None:
    name = flat(tool).get("name") or tool.get("server_label")
    place = f" in namespace {namespace}" if namespace else ""
    kind: str = ALIASES.get(tool["type"]) or tool["type"]
    box.left_out.add(Native(kind, str(name or kind), namespace))
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
# The searches of the client and of the gateway.
CLIENT_SEARCH = Native("tool_search", "tool_search")
SERVER_SEARCH = Native("server_tool_search", "tool_search")
# The shells of the client and of the gateway.
CLIENT_SHELL = Native("shell", "shell")
HOSTED_SHELL = Native("hosted_shell", "shell")
# The tools of the client that the gateway may run in its place.
RUN_HERE = {CLIENT_SEARCH: SERVER_SEARCH, CLIENT_SHELL: HOSTED_SHELL}
INNER: dict[str, Define] = {"function": function_tool, "custom": custom_tool}
CALLED_BY_PROGRAMS = frozenset({*INNER, "shell", "apply_patch"})


# Most requests have no tools, and use this one. Nothing can be added to it.
_READ_ONLY: dict[Any, Callable[[], Any]] = {dict: lambda: MappingProxyType({}), set: frozenset, list: tuple}
NO_TOOLS = Toolbox(
    **{
        each.name: _READ_ONLY[each.default_factory]()
        for each in structs.fields(Toolbox)
        if each.default_factory is not NODEFAULT
    }
)


def tools_to_box(
    tools: Sequence[Tool],
    more: Sequence[tuple[str, Tool]] = (),
    definitions: Mapping[str, Define] = DEFINITIONS,
    lists: KnownLists | None = None,
) -> Toolbox:
    """`more`: tools that came in input items, each with its place there. They can be called, but the response does not list
    them as its own. `lists`: what is known of the tools of MCP servers."""
    if not tools and not more:
        return NO_TOOLS
    box = Toolbox(searches=searches_here(tools, definitions), lists=lists)
    for at, tool in enumerate(tools):
        _define(box, tool, f"{TOOLS}[{at}]", definitions)
        box.echo.append(tool_to_echo(tool))
    box.notices += members_without_effect((inner for tool in tools for inner in _functions_in(tool)), defers=box.searches)
    for where, tool in more:
        _add_found(box, tool, where, definitions)
    return box


def _add_found(box: Toolbox, tool: Tool, where: str, definitions: Mapping[str, Define]) -> None:
    if tool.get("type") == "mcp" and _offer_found(box, tool):
        return
    try:
        _define(box, tool, where, definitions)
    except InvalidRequest as wrong:
        if not is_stored(where):
            raise
        box.notices.append(f"{where} was left out: {wrong.message}")


def _offer_found(box: Toolbox, tool: Tool) -> bool:
    """Tools of a server that a search has found. The request itself says what the server is. False: it does not."""
    label, names = str(tool.get("server_label")), tool.get("allowed_tools")
    natives = [Native("mcp", str(name), label) for name in names] if isinstance(names, list) else []
    found = [native for native in natives if native in box.searchable]
    for native in found:
        box.offer_deferred(native)
    return bool(found)


def _functions_in(tool: Tool) -> Iterable[Tool]:
    return (inner for inner in (tool["tools"] if tool["type"] == "namespace" else (tool,)) if inner["type"] in INNER)


def _define(
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
    hides = box.searches and where.startswith(TOOLS) and is_deferred(tool, group)
    with box.defers(tool, group) if hides else nullcontext():
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
    if strict and (_ILLEGAL.search(name) is not None or len(name) > LONGEST_GIVEN_NAME):
        allowed = f"expected at most {LONGEST_GIVEN_NAME} characters, which are letters, digits, _ or -"
        raise InvalidRequest(f"Invalid `{where}.name`: {allowed}.", param=f"{where}.name", code="invalid_value")
    return name
