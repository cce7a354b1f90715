"""MCP servers in a request: the `mcp` tool that names one, what is known of its tools, and the functions that an engine
sees."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.hosted.hosted_tool import HostedDefinition
from antiphon.core.hosted.mcp.forms import McpForm
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.protocols.responses.read import convert
from antiphon.core.protocols.responses.references import is_stored
from antiphon.core.toolbox import built_in
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.mcp_servers import MCP, Listing, McpDefinition, McpListError, is_idempotent, is_redacted
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ATTACHED, TOOLS, ToolIdentity
from antiphon.errors import InvalidRequest, quoted
from antiphon.patterns import late_pattern
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import McpListTools, McpTool, type_of
from antiphon.wire.input_items import InputMcpList, Item, Tool
from antiphon.wire.responses import Status

# Names of HTTP headers; values have no line breaks. Nobody may end a header early and begin another.
_HEADER_NAME = late_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = late_pattern(r"[\x00-\x08\x0a-\x1f\x7f]")
# The connection to a server is the gateway's own: these headers say how it is used. Who could set them could hide a second
# request in one.
OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"})


# ---- on entry --------------------------------------------------------------------------------------------------------


def tool_to_definition(
    tool: Tool, where: str, labels: Collection[str], check_url: Callable[[str], str | None]
) -> McpDefinition:
    """`labels`: the servers of the operator, which need no URL. `check_url`: why a URL may not be used."""
    given = convert(tool, McpDefinition, where)
    if not given.server_label:
        raise _invalid(f"{where}.server_label", "a server needs a label", code="empty_string")
    for member, what in (("connector_id", "connectors"), ("tunnel_id", "tunnels")):
        if getattr(given, member) is not None:
            raise _invalid(f"{where}.{member}", f"there are no {what} here. Use `server_url`", code="unsupported_parameter")
    if given.server_url is None:
        _check_label(given.server_label, where, labels)
    elif (complaint := check_url(given.server_url)) is not None:
        raise _invalid(f"{where}.server_url", complaint)
    _check_headers(given, where)
    return given


def _check_label(label: str, where: str, labels: Collection[str]) -> None:
    if label in labels:
        return
    # Which servers there are is not said: some may be for other keys only.
    raise InvalidRequest(
        f"Missing `{where}.server_url`: the gateway has no MCP server with the label {quoted(label)}. "
        "Send the URL of the server, or the label of one that the gateway has.",
        param=f"{where}.server_url",
        code="missing_required_parameter",
    )


def _check_headers(given: McpDefinition, where: str) -> None:
    """The values are secrets: no message repeats them."""
    for name, value in (given.headers or {}).items():
        place = f"{where}.headers"
        if _HEADER_NAME.fullmatch(name) is None:
            raise _invalid(place, f"{quoted(name)} is not the name of an HTTP header")
        if name.lower() in OWN_HEADERS:
            raise _invalid(place, f"{name} is set by the gateway itself")
        if _CONTROL.search(value) is not None:
            raise _invalid(place, f"the value of {name} has control characters")
    if given.authorization is not None and _CONTROL.search(given.authorization) is not None:
        raise _invalid(f"{where}.authorization", "the token has control characters")


def _invalid(param: str, problem: str, *, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(f"Invalid `{param}`: {problem}.", param=param, code=code)


ONLY_PROGRAMS = "only programs may call it, and they do not run here"
ATTACHED_LABEL = "the gateway has an MCP server of its own with the label {label} in this request. Use another label"
NOT_STORED = "the address of its server is not stored. Send the tool again"


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
        identity = ToolIdentity(MCP, tool.name, given.server_label)
        # Of tools with one name, what is stricter counts.
        if given.needs_approval(tool):
            box.needs_approval.add(identity)
        if not is_idempotent(tool):
            box.not_idempotent.add(identity)
        box.add(identity, _to_function(tool), where)


def _to_function(tool: McpTool) -> ChatFunction:
    """Whatever the server's schema allows beside an object: arguments are one."""
    schema = tool.input_schema
    kinds = schema.get("type", "object") if isinstance(schema, dict) else None
    is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    parameters: dict[str, Any] = {**schema, "type": "object"} if is_object else built_in.NO_PARAMETERS
    return ChatFunction("", tool.description or None, parameters)


LIST = type_of(McpListTools)
NOTHING_LISTED: Mapping[str, Listing] = {}
NOT_LISTED = "the tools of MCP server {label} are not offered: {error}"


class ToolLists(Struct, eq=False):
    """A list item is the cache of its server's tools: they are offered without asking the server again."""

    _items: Sequence[Item]
    _in_items: Mapping[str, Sequence[McpTool]] | None = None
    # By label, those of servers that the operator has attached included.
    _fresh: Mapping[str, Listing] = NOTHING_LISTED
    notices: Sequence[str] = ()

    def add(self, label: str, listing: Listing, *, attached: bool) -> None:
        """`attached`: the client did not ask for it, and can do without."""
        self._fresh = {**self._fresh, label: listing}
        if attached and listing.error is not None:
            self.notices = (*self.notices, NOT_LISTED.format(label=label, error=listing.error.message))

    def tools_of(self, label: str, *, attached: bool = False, named: Collection[str] = ()) -> Sequence[McpTool] | None:
        """None: the server has to be asked. `attached`: a list of the client does not count. It may say what is not so, and
        which tools may be called without approval is for the operator to say. `named`: the tools that the request wants. A
        list item has only those that an earlier request allowed."""
        if (fresh := self._fresh.get(label)) is not None:
            return fresh.tools
        if attached:
            return None
        if self._in_items is None:
            self._in_items = dict(_lists_in(self._items))
        listed = self._in_items.get(label)
        return None if listed is None or not {tool.name for tool in listed}.issuperset(named) else listed


def _lists_in(items: Iterable[Item]) -> Iterable[tuple[str, Sequence[McpTool]]]:
    """The latest one of a label counts. One that failed is none. Its converter reports what is wrong with an item."""
    for item in items:
        if item.get("type") != LIST or item.get("error") is not None:
            continue
        try:
            listed = msgspec.convert(item, InputMcpList)
        except msgspec.ValidationError:
            continue
        yield listed.server_label, listed.tools


class ListState:
    """The item of a list that was made."""

    prefix = "mcpl"
    check = fast_path = None
    written = checked_text = ""

    def __init__(self, item_id: str, label: str, listing: Listing) -> None:
        self.outcome: CheckOutcome | None = None
        self._index = 0
        self._done = McpListTools(item_id, label, listing.tools)
        if listing.error is not None:
            self._done = McpListTools(item_id, label, [], listing.error.message)
        self.item = McpListTools(item_id, label, [])

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self.item)
        yield events.McpListToolsInProgress(item_id=self.item.id, output_index=output_index)

    def close(self, status: Status) -> Iterable[Event]:
        self.item = self._done
        kind = events.McpListToolsCompleted if self.item.error is UNSET else events.McpListToolsFailed
        yield kind(item_id=self.item.id, output_index=self._index)
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def waive(self) -> None: ...


def failure_message(label: str, error: McpListError) -> str:
    """Names the label and the server's status, as OpenAI does."""
    status = f" Http status code: {error.status}." if error.status is not None else ""
    return f"Error retrieving tool list from MCP server: '{label}'.{status} {error.message}".rstrip()
