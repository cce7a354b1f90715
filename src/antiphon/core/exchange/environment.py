"""What an exchange gets from its caller, the same for every exchange: ids, time, the cipher, settings, tools."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field, structs

from antiphon.core.checks.work import Flaw, Grammar, digest_of
from antiphon.core.events.lifecycle import REASONING_TEXT, ReasoningEvents
from antiphon.core.hosted.mcp.forms import ApprovalForm
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.items.calls import FORMS, Forms
from antiphon.core.knowledge.help import HelpSetting
from antiphon.core.prompt.documents import KnownDocuments
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS, RequestLimits
from antiphon.core.toolbox.definitions import DEFINITIONS, Define
from antiphon.core.toolbox.request_tools import KnownToolboxes
from antiphon.core.toolbox.tools import APPROVAL
from antiphon.sealing import NO_SEALER, Sealer

# How many definitions are remembered.
MOST_DEFINITIONS = 1024


class GatewayTool(Protocol):
    """A type of tool that the gateway runs: the functions that an engine sees of it, and the form of its calls."""

    def define(self, box: Any, tool: dict[str, Any], where: str, namespace: str | None = None) -> None: ...

    @property
    def form(self) -> type[FunctionForm]: ...


class KnownDefinitions(Struct, eq=False):
    """Which schemas and grammars compile. The same ones come with every request of a client, and are compiled once."""

    _most: int = MOST_DEFINITIONS
    # By digest: a definition may be large.
    _flaws: dict[bytes, Flaw | None] = {}

    def __contains__(self, definition: bytes | Grammar) -> bool:
        return definition_digest(definition) in self._flaws

    def flaw(self, definition: bytes | Grammar) -> Flaw | None:
        """Why it does not compile; None if it does, or if that is not known."""
        return self._flaws.get(definition_digest(definition))

    def add(self, definition: bytes | Grammar, flaw: Flaw | None) -> None:
        self._flaws[definition_digest(definition)] = flaw
        while len(self._flaws) > self._most:
            del self._flaws[next(iter(self._flaws))]


def definition_digest(definition: bytes | Grammar) -> bytes:
    encoded = definition if isinstance(definition, bytes) else msgspec.json.encode(definition)
    return digest_of(encoded)


class ToolTables:
    """What is looked up by the type of a tool. Made once, not for every request: a request without tools costs the same however
    many tools there are."""

    def __init__(self, tools: Mapping[str, GatewayTool]) -> None:
        self.definitions: Mapping[str, Define] = DEFINITIONS
        self.forms: Forms = FORMS
        if tools:
            self.definitions = DEFINITIONS | {kind: tool.define for kind, tool in tools.items()}
            self.forms = {**FORMS, APPROVAL: ApprovalForm, **{kind: tool.form for kind, tool in tools.items()}}
        self.hosted_kinds: Forms = {kind: form for kind, form in self.forms.items() if form.runs_here}


def no_report(event: str, **members: Any) -> None: ...


class Environment(Struct, frozen=True, eq=False):
    """What every exchange of a program shares. Only `new_id` and `now` are required."""

    # A new id with this prefix.
    new_id: Callable[[str], str]
    # Seconds since 1970.
    now: Callable[[], float]
    # Random characters, with which deltas are padded where the client asks for it.
    padding: Callable[[], str] = lambda: "x" * 16
    sealer: Sealer = NO_SEALER
    # Takes note of what was learned about an engine.
    report: Callable[..., None] = no_report
    check_grammars: bool = True
    # Which models get help.
    help: HelpSetting = "auto"
    # The tools that a small model may call again at once with the same arguments, as patterns of their names.
    polling_tools: tuple[str, ...] = ()
    # A model that was seen to announce calls and to make none is asked once more for the call, unless `help` is off.
    asks_for_announced: bool = False
    # The sampling of a model counts where the request does not say.
    own_sampling: bool = True
    reasoning_events: ReasoningEvents = REASONING_TEXT
    # Reasoning is sent as a summary whether the request asks for one or not.
    always_summary: bool = False
    # The tools that the gateway runs, by the `type` of their definition.
    tools: Mapping[str, GatewayTool] = field(default_factory=dict)
    # A model that calls the gateway's tools without end is stopped after this many engine answers.
    most_rounds: int = 10
    # What may be fetched for one request from the addresses that it names, in bytes. 0: nothing is.
    fetched_bytes: int = 0
    # How large the parts of a request may be.
    limits: RequestLimits = DEFAULT_LIMITS
    definitions: KnownDefinitions = field(default_factory=KnownDefinitions)
    documents: KnownDocuments = field(default_factory=KnownDocuments)
    toolboxes: KnownToolboxes = field(default_factory=KnownToolboxes)
    # Made of `tools`, when it is None.
    _tables: ToolTables | None = None
    # Those of the tables, at hand.
    tool_definitions: Mapping[str, Define] = field(default_factory=dict)
    # Those of the tools that the gateway runs.
    hosted_kinds: Forms = field(default_factory=dict)
    forms: Forms = field(default_factory=dict)
    # What `with_tool()` has made last.
    _with_tool: "tuple[str, GatewayTool, Environment] | None" = None

    def __post_init__(self) -> None:
        if self._tables is None:
            tables = ToolTables(self.tools)
            structs.force_setattr(self, "_tables", tables)
            structs.force_setattr(self, "tool_definitions", tables.definitions)
            structs.force_setattr(self, "hosted_kinds", tables.hosted_kinds)
            structs.force_setattr(self, "forms", tables.forms)

    def changed(self, **members: Any) -> "Environment":
        """This is done for every request: what is made of the tools is made anew only if they are others."""
        if "tools" in members:
            members["_tables"] = None
        return structs.replace(self, _with_tool=None, **members)

    def with_values(
        self,
        new_id: Callable[[str], str],
        now: Callable[[], float],
        padding: Callable[[], str],
        sealer: Sealer,
        definitions: KnownDefinitions,
        documents: KnownDocuments,
    ) -> "Environment":
        """What a recorded exchange gets. As `changed()` would make it, without a dictionary of the members."""
        return structs.replace(
            self,
            new_id=new_id,
            now=now,
            padding=padding,
            sealer=sealer,
            definitions=definitions,
            documents=documents,
            _with_tool=None,
        )

    def plain(self, *, helps: bool = False) -> "Environment":
        """For requests that get what they ask for. Nothing is sealed: their clients cannot send it back. `helps`: what a model
        needs that the request does not ask for is added nevertheless."""
        added = {} if helps else {"help": "off", "own_sampling": False}
        return self.changed(always_summary=False, sealer=NO_SEALER, **added)

    def with_tool(self, kind: str, tool: GatewayTool) -> "Environment":
        """With this tool as the one of its kind. Made once for the same tool, because this too is done for every request."""
        last = self._with_tool
        if last is None or last[0] != kind or last[1] is not tool:
            last = (kind, tool, self.changed(tools={**self.tools, kind: tool}))
            structs.force_setattr(self, "_with_tool", last)
        return last[2]
