"""The tools of a request in one box: what the engine is offered, what a call by the engine means, and what was left out."""

import itertools
from collections.abc import Callable, Collection, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import NODEFAULT, Struct, field, structs

from antiphon.core.checks.work import Grammar
from antiphon.core.toolbox.deferred import DeferredTools
from antiphon.core.toolbox.easy_function import EasyFunction, EasyFunctions
from antiphon.core.toolbox.mcp_servers import McpServers
from antiphon.core.toolbox.tools import APPROVAL, TOOLS, AsCalled, ToolIdentity, engine_name, may_change, with_digest
from antiphon.wire.chat import ChatFunction, ChatTool
from antiphon.wire.input_items import Tool


class OfferedTools(Struct):
    """The functions that the engine sees, and what is known of the tool that each stands for."""

    functions: dict[str, ChatTool] = field(default_factory=dict)
    # The tools by the names of their functions, and by which name each is called. A tool that easy functions replace can be
    # called by its own name all the same.
    identities: dict[str, ToolIdentity] = field(default_factory=dict)
    names: dict[ToolIdentity, str] = field(default_factory=dict)
    # Where in the request each function was defined.
    places: dict[str, str] = field(default_factory=dict)
    grammars: dict[ToolIdentity, Grammar] = field(default_factory=dict)
    # Functions whose arguments are not to be constrained: the client says `strict: false`.
    unconstrained: set[ToolIdentity] = field(default_factory=set)
    # Namespace → its description.
    namespaces: dict[str, str] = field(default_factory=dict)

    def add(self, identity: ToolIdentity, function: ChatFunction, where: str) -> None:
        self.functions[function.name] = ChatTool(function)
        self.identities[function.name] = identity
        self.names[identity] = function.name
        self.places[function.name] = where

    def replace(self, identity: ToolIdentity, functions: Sequence[EasyFunction]) -> None:
        """Offers these functions in the place of the tool."""
        own = self.names[identity]
        offered = {easy.name: ChatTool(ChatFunction(easy.name, easy.description, easy.parameters)) for easy in functions}
        tools = [(offered if name == own else {name: tool}).items() for name, tool in self.functions.items()]
        self.functions = dict(itertools.chain.from_iterable(tools))
        for name in offered:
            self.identities[name] = identity
            self.places[name] = self.places[own]
        # That counted for the arguments of the tool. Those of the functions may be constrained.
        self.unconstrained.discard(identity)

    def find(self, name: str) -> ToolIdentity | None:
        """The tool that a call by this name means. A model may leave the namespace out."""
        if name in self.identities:
            return self.identities[name]
        alike = [identity for identity in self.identities.values() if identity.namespace and identity.name == name]
        return alike[0] if len(alike) == 1 else None


class Toolbox(Struct):
    """The tools of a request, by what becomes of them, and the tools as the response lists them."""

    offered: OfferedTools = field(default_factory=OfferedTools)
    deferred: DeferredTools = field(default_factory=DeferredTools)
    easy: EasyFunctions = field(default_factory=EasyFunctions)
    servers: McpServers = field(default_factory=McpServers)
    # Tools that are not run before the client has approved the call.
    needs_approval: set[ToolIdentity] = field(default_factory=set)
    # Tools that the gateway runs whose calls must not be made a second time, because each has an effect of its own.
    not_idempotent: set[ToolIdentity] = field(default_factory=set)
    # Tools that do not run here.
    left_out: set[ToolIdentity] = field(default_factory=set)
    in_response: list[Tool] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def add(self, identity: ToolIdentity, function: ChatFunction, where: str) -> bool:
        """False: there is one already."""
        deferred = self.deferred
        known, is_own = deferred.tools.get(identity), where.startswith(TOOLS)
        if identity in self.offered.names or (known is not None and (is_own or deferred.source is not None)):
            # One that was found twice in input items is the same tool, not a conflict.
            if is_own:
                self.notices.append(f"tool {identity.name} was offered twice: the first definition counts")
            return False
        function.name = self._new_name(identity) if known is None else known.function.name
        (self.offered if deferred.source is None else deferred).add(identity, function, where)
        return True

    def _new_name(self, identity: ToolIdentity) -> str:
        """Of two tools with the same name, the later one gets a suffix made of what it is, not of its position. A tool that is
        deferred keeps its name for the time when it is found."""
        name = engine_name(identity)
        return with_digest(name, identity) if name in self.offered.functions or name in self.deferred.names else name

    def offer_deferred(self, identity: ToolIdentity) -> None:
        """A search has found it."""
        if identity not in self.offered.names:
            tool = self.deferred.tools[identity]
            self.offered.add(identity, tool.function, tool.where)

    def replace(self, identity: ToolIdentity, functions: Sequence[EasyFunction]) -> None:
        """Offers easy functions in the place of the tool. A call by its own name still means the tool."""
        self.offered.replace(identity, functions)
        self.easy.add(identity, functions)

    # ---- tools and their names ---------------------------------------------------------------------------------------

    def identity_of(self, name: str) -> ToolIdentity:
        """What the engine's call means. Calls of unknown tools are passed on."""
        return self.offered.find(name) or ToolIdentity("function", name)

    def knows(self, name: str) -> bool:
        """A call by this name means one of these tools."""
        return self.offered.find(name) is not None

    def name_of(self, identity: ToolIdentity) -> str:
        """The engine's name of this tool, also when it is not offered any more, or not yet."""
        if (name := self.offered.names.get(identity)) is not None:
            return name
        deferred = self.deferred.tools.get(identity)
        return engine_name(identity) if deferred is None else deferred.function.name

    def functions_of(self, identity: ToolIdentity) -> list[str]:
        """The functions that a tool is offered as."""
        return list(self.easy.names.get(identity) or (self.offered.names[identity],))

    def replaced_names(self, functions: Collection[str]) -> list[str]:
        """The own names of tools that are offered as some of these functions."""
        names = self.offered.names
        return [names[tool] for tool, easy in self.easy.names.items() if not set(easy).isdisjoint(functions)]

    def needing_running(self, functions: Collection[str]) -> list[str]:
        """Those of these functions that are of use only while something runs."""
        easy = self.easy.functions
        return [name for name in functions if name in easy and easy[name].needs_running]

    def offered_as(self, name: str) -> Sequence[str]:
        """The functions by which the model can make a call that it made by this name."""
        return (name,) if name in self.offered.functions else self.easy.names.get(self.identity_of(name), (name,))

    # ---- calls -------------------------------------------------------------------------------------------------------

    def may_change(self, name: str) -> bool:
        """A call by this name may have changed something, and would do so again. Easy functions set what is in a file, or run
        a command."""
        tool = self.offered.functions.get(name)
        return tool is not None and name not in self.easy.functions and may_change(tool.function)

    def form_of(self, identity: ToolIdentity) -> str:
        """The kind of tool that its calls look like."""
        return APPROVAL if identity in self.needs_approval else identity.kind

    def tool_arguments(self, name: str, arguments: str) -> str | None:
        """The arguments of the tool that an easy function stands for. None: it is no such function."""
        easy = self.easy.functions.get(name)
        return None if easy is None else easy.tool_arguments(arguments)

    def as_called(self, identity: ToolIdentity, arguments: str) -> AsCalled:
        easy = self.easy
        if not easy.names:
            return AsCalled(self.name_of(identity), arguments)
        if (call := easy.express(identity, arguments)) is not None:
            return AsCalled(*call, easy=easy.functions.keys())
        return AsCalled(self.name_of(identity), arguments, easy=easy.functions.keys() if identity in easy.names else ())

    def name_in_history(self, name: str, arguments: str) -> str:
        """The name of the function that the history will show for this call."""
        identity = self.identity_of(name)
        if identity not in self.easy.names:
            return self.name_of(identity)
        translated = self.tool_arguments(name, arguments)
        return self.as_called(identity, arguments if translated is None else translated).name


_READ_ONLY: dict[Any, Callable[[], Any]] = {dict: lambda: MappingProxyType({}), set: frozenset, list: tuple}


def _read_only(kind: type[Struct]) -> Any:
    """An empty one, to which nothing can be added."""
    factories = {each.name: each.default_factory for each in structs.fields(kind) if each.default_factory is not NODEFAULT}
    return kind(**{name: _READ_ONLY[make]() if make in _READ_ONLY else _read_only(make) for name, make in factories.items()})


# Most requests have no tools, and use this one.
NO_TOOLS: Toolbox = _read_only(Toolbox)
