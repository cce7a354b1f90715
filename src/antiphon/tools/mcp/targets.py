"""MCP servers as the gateway reaches them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

import msgspec
from msgspec import Struct, structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.mcp_servers import MCP, McpServer
from antiphon.tools.runner import ToolContext

Pairs = tuple[tuple[str, str], ...]

# Characters of a secret; and of a part of a URL's path that may be one.
SHORTEST_SECRET = 6
SHORTEST_SEGMENT = 16


class StdioServer(Struct, frozen=True):
    """A program that is started here, and speaks over its standard input and output. Only the operator can name one."""

    command: str
    args: tuple[str, ...] = ()
    # Beside the few variables that every server gets.
    env: Pairs = ()
    cwd: str | None = None


class HttpServer(Struct, frozen=True):
    """A server at a URL: streamable HTTP, or the older SSE."""

    url: str
    headers: Pairs = ()
    # The operator named it: it may be anywhere.
    is_trusted: bool = False


Target = StdioServer | HttpServer


class OperatorServer(Struct, frozen=True):
    """A server of the operator, usable by its name."""

    name: str
    target: Target
    # One session serves all keys.
    shared: bool = False
    # Seconds for one call. None: as for others.
    timeout: float | None = None
    # The tools that may be used. None: all.
    allowed_tools: frozenset[str] | None = None
    # Who may use it, by the names of their keys. Empty: everybody.
    keys: frozenset[str] = frozenset()
    # It is offered in requests that do not ask for it: to these models, or to all if there are none.
    always: bool = False
    models: frozenset[str] = frozenset()
    # "always" or "never": whether a client has to approve calls of a server that it did not ask for.
    require_approval: str = "never"

    def serves(self, owner: str) -> bool:
        return not self.keys or owner in self.keys

    def is_attached(self, owner: str, models: Collection[str | None]) -> bool:
        """`models`: the names of the model that is asked for."""
        return self.always and self.serves(owner) and (not self.models or any(name in self.models for name in models))


class McpLimits(Struct, frozen=True):
    # Seconds to connect, which includes the start of a program, and to list the tools; for one call; until a session that
    # nobody uses is closed.
    connect: float = 30.0
    call: float = 60.0
    idle: float = 300.0
    # Of one answer of a server.
    answer_bytes: int = 4 * 1024 * 1024
    # Parts of one result that are read: texts, images, resources. The others are left out.
    parts: int = 1_000
    tools: int = 500
    schema_bytes: int = 256 * 1024
    schema_depth: int = 128
    # How many sessions are kept. The one that was unused for the longest is closed first.
    sessions: int = 200


def requested_target(server: McpServer) -> HttpServer:
    """A server whose URL a request names."""
    assert server.url is not None
    headers = dict(server.headers)
    if server.authorization is not None:
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {server.authorization}"
    return HttpServer(server.url, tuple(sorted(headers.items())))


def secrets_of(target: Target) -> list[str]:
    """What must not be in any message. Short ones would hit words that mean something else."""
    pairs = target.env if isinstance(target, StdioServer) else target.headers
    values = [part for _, value in pairs for part in (value, *value.split())]
    if isinstance(target, HttpServer):
        values += _secrets_in(target.url)
    return sorted({each for each in values if len(each) >= SHORTEST_SECRET}, key=len, reverse=True)


def _secrets_in(url: str) -> Iterator[str]:
    """Many services put a key into the query, or into the path, where it is longer than the names there."""
    parts = urlsplit(url)
    # A key may stand alone, without a name.
    values = [value or name for name, _, value in (each.partition("=") for each in parts.query.split("&"))]
    for each in (*values, *(segment for segment in parts.path.split("/") if len(segment) >= SHORTEST_SEGMENT)):
        yield from (each, unquote(each), unquote_plus(each))


# ---- a tool that the settings name, in the place of a built-in one ---------------------------------------------------

NO_SERVERS = "this gateway has no MCP servers"


def operators_call(server: str, tool: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(f"{server}.{tool}", MCP, tool, server, msgspec.json.encode(arguments).decode())


def operators_context(context: ToolContext) -> ToolContext:
    """The server of the settings is meant, whatever servers the request brings."""
    request = structs.replace(context.request, input=None, tools=None)
    return structs.replace(context, request=request, server_of=McpServer)
