"""The `mcp` tool of a request: its members, which of a server's tools it offers, and which of them need approval."""

import re
from collections.abc import Callable, Collection
from typing import Any

from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.mcp_servers import McpDefinition
from antiphon.errors import InvalidRequest, quoted

Tool = dict[str, Any]

# Names of HTTP headers; values have no line breaks. Nobody may end a header early and begin another.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
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
