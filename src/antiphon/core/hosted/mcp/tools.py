"""What an engine sees of MCP servers: the tools of each, as functions named after its label."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

import msgspec

from antiphon.core.hosted.hosted_tool import HostedDefinition
from antiphon.core.hosted.mcp.definitions import tool_to_definition
from antiphon.core.hosted.mcp.forms import McpForm
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.protocols.responses.item_paths import is_stored
from antiphon.core.toolbox import built_in
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.mcp_servers import McpDefinition, is_idempotent, is_redacted
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ATTACHED, TOOLS, Tool, ToolIdentity
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.chat import ChatFunction
from antiphon.wire.hosted_items import McpTool

ONLY_PROGRAMS = "only programs may call it, and they do not run here"
ATTACHED_LABEL = "the gateway has an MCP server of its own with the label {label} in this request. Use another label"
NOT_STORED = "the address of its server is not stored. Send the tool again"


# The type of the tool, and the kind of its calls.
MCP = "mcp"


class McpTools(HostedDefinition):
    """`labels`: the servers of the operator, which a request may name without a URL. `check_url`: why a URL of a request may
    not be used, as far as that can be seen from the URL itself; None: it may."""

    form: type[FunctionForm] = McpForm

    def __init__(self, labels: Collection[str] = (), check_url: Callable[[str], str | None] = lambda url: None) -> None:
        self.labels = labels
        self.check_url = check_url
        self._recorded: McpTools | None = None

    def as_recorded(self) -> "McpTools":
        """What an exchange was made with, whatever the operator changes later. Its URLs were checked then. The same object as
        long as the labels are the same."""
        labels = tuple(self.labels)
        if self._recorded is None or self._recorded.labels != labels:
            self._recorded = McpTools(labels)
        return self._recorded

    def to_recorded(self) -> list[str]:
        return sorted(self.labels)

    @classmethod
    def from_recorded(cls, recorded: Any) -> Self:
        return cls(msgspec.convert(recorded, list[str]))

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        # What was shown of a server may come back in an item, such as the output of a search.
        is_lost = is_stored(where) or (is_redacted(tool.get("server_url")) and not where.startswith(TOOLS))
        given = tool_to_definition(tool, where, self.labels, _any_url if is_lost else self.check_url)
        label = given.server_label
        if label in box.servers.places:
            _ignore(box, label, where)
            return
        if given.only_programs or is_lost:
            leave_out(box, tool, where, why=ONLY_PROGRAMS if given.only_programs else NOT_STORED)
            return
        box.servers.add(given, where)
        if given.server_description:
            box.offered.namespaces.setdefault(label, given.server_description)
        is_attached = where.startswith(ATTACHED)
        known = None
        if box.servers.lists is not None:
            known = box.servers.lists.tools_of(label, attached=is_attached, named=given.named_tools)
        if known is None:
            box.servers.unlisted.append(given.server)
        else:
            _offer(box, given, known, where)


def _any_url(url: str) -> None:
    """It is not used."""


def _ignore(box: Toolbox, label: str, where: str) -> None:
    """Another definition has the label. The one in `tools` counts, then the operator's, then the first one in input items.
    What was found in items must not get the calls that are meant for another server, nor say which of them need approval."""
    if where.startswith(TOOLS):
        raise InvalidRequest(
            f"Invalid `{where}.server_label`: another tool has the label {quoted(label)}. Each server needs its own.",
            param=f"{where}.server_label",
            code="invalid_value",
        )
    if box.servers.places[label].startswith(ATTACHED) and not where.startswith(ATTACHED):
        box.notices.append(f"{where} was left out: {ATTACHED_LABEL.format(label=label)}")


def _offer(box: Toolbox, given: McpDefinition, tools: Sequence[McpTool], where: str) -> None:
    for tool in tools:
        if not given.offers(tool):
            continue
        native = ToolIdentity(MCP, tool.name, given.server_label)
        # Of tools with one name, what is stricter counts.
        if given.needs_approval(tool):
            box.needs_approval.add(native)
        if not is_idempotent(tool):
            box.not_idempotent.add(native)
        box.add(native, _to_function(tool), where)


def _to_function(tool: McpTool) -> ChatFunction:
    """Whatever the server's schema allows beside an object: arguments are one."""
    schema = tool.input_schema
    kinds = schema.get("type", "object") if isinstance(schema, dict) else None
    is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    parameters: dict[str, Any] = {**schema, "type": "object"} if is_object else built_in.NO_PARAMETERS
    return ChatFunction("", tool.description or None, parameters)
