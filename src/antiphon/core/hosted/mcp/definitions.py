"""The `mcp` tool of a request: its members, which of a server's tools it offers, and which of them need approval."""

import re
from collections.abc import Callable, Collection
from typing import Any, Literal

from msgspec import Struct

from antiphon.core.protocols.responses.validation import convert
from antiphon.core.toolbox.servers import McpServer
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.hosted_items import McpTool

Tool = dict[str, Any]

# Names of HTTP headers; values have no line breaks. Nobody may end a header early and begin another.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# The connection to a server is the gateway's own: these headers say how it is used. Who could set them could hide a second
# request in one.
OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"})


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


# The annotation that OpenAI's lists have; servers write "readOnlyHint".
READ_ONLY = "read_only"


def is_read_only(tool: McpTool) -> bool:
    return _hint(tool, "readOnlyHint") or _hint(tool, READ_ONLY)


def is_idempotent(tool: McpTool) -> bool:
    """Calling it once more does no harm. A server that says nothing promises nothing."""
    return is_read_only(tool) or _hint(tool, "idempotentHint")


def _hint(tool: McpTool, name: str) -> bool:
    return isinstance(tool.annotations, dict) and tool.annotations.get(name) is True


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
