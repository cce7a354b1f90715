"""The MCP servers of a request: their definitions, the tools that they offer, and the secrets that only a server may see."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from antiphon.core.protocols.responses.fields import types_of
from antiphon.errors import UNREADABLE
from antiphon.patterns import late_pattern
from antiphon.wire.hosted_items import McpTool
from antiphon.wire.input_items import WITH_TOOLS, Tool
from antiphon.wire.responses import CreateResponse

# The type of the tool that names a server, and the kind of the tools that a server has.
MCP = "mcp"


class McpServer(Struct, frozen=True):
    """An MCP server whose tools the gateway lists and runs."""

    label: str
    # None: the operator's server of this label.
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    authorization: str | None = None


class ToolFilter(Struct):
    tool_names: list[str] | None = None
    # Matches tools that their server calls read-only, or only the others.
    read_only: bool | None = None

    @property
    def is_empty(self) -> bool:
        return self.tool_names is None and self.read_only is None

    def matches(self, tool: McpTool) -> bool:
        named = self.tool_names is None or tool.name in self.tool_names
        return named and (self.read_only is None or is_read_only(tool) is self.read_only)


class ApprovalFilter(Struct):
    always: ToolFilter | None = None
    never: ToolFilter | None = None


class McpDefinition(Struct):
    server_label: str
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | ToolFilter | None = None
    require_approval: Literal["always", "never"] | ApprovalFilter | None = None
    server_description: str | None = None
    defer_loading: bool | None = None
    allowed_callers: list[Literal["direct", "programmatic"]] | None = None

    @property
    def server(self) -> McpServer:
        return McpServer(self.server_label, self.server_url, self.headers or {}, self.authorization)

    @property
    def only_programs(self) -> bool:
        return self.allowed_callers is not None and "direct" not in self.allowed_callers

    @property
    def named_tools(self) -> Collection[str]:
        """Empty if it names none."""
        allowed = self.allowed_tools
        return (allowed if isinstance(allowed, list) else allowed and allowed.tool_names) or ()

    def offers(self, tool: McpTool) -> bool:
        allowed = self.allowed_tools
        if allowed is None:
            return True
        return tool.name in allowed if isinstance(allowed, list) else allowed.matches(tool)

    def needs_approval(self, tool: McpTool) -> bool:
        """Unless the client says otherwise, it does. So does one that both filters match."""
        rule = self.require_approval
        if not isinstance(rule, ApprovalFilter):
            return rule != "never"
        if rule.always is not None and not rule.always.is_empty and rule.always.matches(tool):
            return True
        return rule.never is None or rule.never.is_empty or not rule.never.matches(tool)


class KnownLists(Protocol):
    """The tools of MCP servers, as far as they are known."""

    def tools_of(self, label: str, *, attached: bool = False, named: Collection[str] = ()) -> Sequence[McpTool] | None: ...


class McpServers(Struct):
    """The MCP servers of a request, by their labels."""

    # The servers that the labels mean: calls go there.
    definitions: dict[str, McpDefinition] = field(default_factory=dict)
    # Where each was defined.
    places: dict[str, str] = field(default_factory=dict)
    # Those whose tools have to be listed before they can be offered.
    unlisted: list[McpServer] = field(default_factory=list)
    # What is known of their tools. A server that is not among them has to be asked first.
    lists: KnownLists | None = None

    def add(self, given: McpDefinition, where: str) -> None:
        self.definitions[given.server_label] = given
        self.places[given.server_label] = where


# The annotation that OpenAI's lists have; servers write "readOnlyHint".
READ_ONLY = "read_only"


def is_read_only(tool: McpTool) -> bool:
    return _hint(tool, "readOnlyHint") or _hint(tool, READ_ONLY)


def is_idempotent(tool: McpTool) -> bool:
    """Calling it once more does no harm. A server that says nothing promises nothing."""
    return is_read_only(tool) or _hint(tool, "idempotentHint")


def _hint(tool: McpTool, name: str) -> bool:
    return isinstance(tool.annotations, dict) and tool.annotations.get(name) is True


# ---- secrets ---------------------------------------------------------------------------------------------------------

REDACTED = "<redacted>"
SECRETS = ("authorization", "headers", "server_url")
_SECRET_NAMES = tuple(name.encode() for name in SECRETS)
# For a body that is no JSON: the strings after these names, and all that may be in an object.
_IN_TEXT = late_pattern(
    rb'("(?:authorization|server_url)"\s*:\s*)"(?:[^"\\]|\\.)*"?|("headers"\s*:\s*)\{(?:[^{}"]|"(?:[^"\\]|\\.)*"?)*\}?',
    re.DOTALL,
)


def public_url(url: str) -> str:
    """Paths and queries of servers have keys in them."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return REDACTED
    host = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}"
    return url if url.rstrip("/") == origin else f"{origin}/{REDACTED}"


def is_redacted(url: Any) -> bool:
    """It was shown by `public_url`, and is not where a server is."""
    return isinstance(url, str) and (url == REDACTED or url.endswith(f"/{REDACTED}"))


def without_secrets(tool: Tool) -> Tool:
    """The same tool, unless it is of this type, or has such tools in it. In a namespace they are left out, and still shown."""
    if isinstance(inner := tool.get("tools"), list):
        tool = {**tool, "tools": tools_without_secrets(inner)}
    if tool.get("type") != MCP:
        return tool
    public = {name: value for name, value in tool.items() if name not in ("authorization", "headers")}
    return public | {"server_url": public_url(url)} if isinstance(url := tool.get("server_url"), str) else public


def tools_without_secrets(tools: Any) -> Any:
    if not isinstance(tools, list):
        return tools
    return [without_secrets(tool) if isinstance(tool, dict) else tool for tool in tools]


def has_secrets(request: CreateResponse) -> bool:
    if not request.tools and not isinstance(request.input, list):
        return False
    return any(_has_secrets(tool) for tool in tools_of_request(request))


def _has_secrets(tool: Tool) -> bool:
    if tool.get("type") == MCP and any(tool.get(name) for name in SECRETS):
        return True
    inner = tool.get("tools")
    return isinstance(inner, list) and any(_has_secrets(each) for each in inner if isinstance(each, dict))


def tools_of_request(request: CreateResponse) -> Iterator[Tool]:
    """Also those in its input items, and not those in namespaces."""
    yield from request.tools or ()
    items = request.input if isinstance(request.input, list) else ()
    for item in () if types_of(items).isdisjoint(WITH_TOOLS) else items:
        if item.get("type") in WITH_TOOLS and isinstance(tools := item.get("tools"), list):
            yield from (tool for tool in tools if isinstance(tool, dict))


def may_have_secrets(body: bytes) -> bool:
    return any(map(body.__contains__, _SECRET_NAMES))


def body_without_secrets(body: bytes) -> bytes:
    """The body of a request, whether it could be read or not."""
    if not may_have_secrets(body):
        return body
    try:
        value = msgspec.json.decode(body)
        return msgspec.json.encode(_public_request(value)) if isinstance(value, dict) else body
    except UNREADABLE:
        return _IN_TEXT.sub(_redact, body)


def _public_request(value: dict[str, Any]) -> dict[str, Any]:
    public = {**value, "tools": tools_without_secrets(value["tools"])} if "tools" in value else value
    if isinstance(items := value.get("input"), list):
        public["input"] = [_public_item(item) for item in items]
    return public


def _public_item(item: Any) -> Any:
    if not isinstance(item, dict) or item.get("type") not in WITH_TOOLS:
        return item
    return {**item, "tools": tools_without_secrets(item.get("tools"))}


def _redact(found: re.Match[bytes]) -> bytes:
    return found[1] + b'"' + REDACTED.encode() + b'"' if found[1] is not None else found[2] + b"{}"


# ---- lists of tools --------------------------------------------------------------------------------------------------


class McpListError(Struct, frozen=True):
    """Why a server did not list its tools."""

    message: str
    # Of the server's HTTP answer.
    status: int | None = None


class Listing(Struct, frozen=True):
    """The tools of one server, or why there are none."""

    tools: list[McpTool] = field(default_factory=list)
    error: McpListError | None = None
