"""The settings of MCP servers: the table `mcp` of antiphon.toml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


class McpServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp.servers.NAME]`: a server that requests may use by its name, without a URL."""

    # The program to start. It speaks MCP over its standard input and output. Set this or `url`.
    command: str | None = None
    # The arguments of the program.
    args: tuple[str, ...] = ()
    # Variables of its environment. It gets these and a few common ones, such as PATH and HOME, but not the gateway's others.
    # "$NAME" is the variable NAME of the gateway's environment; "${NAME}" may stand inside a text.
    env: dict[str, str] = {}
    # The folder that it is started in. If it is not set: the gateway's.
    cwd: str | None = None
    # The URL of a server that runs already: streamable HTTP, or the older SSE. Set this or `command`.
    url: str | None = None
    # Headers that are sent to it, such as Authorization. Variables may stand in them as in `env`.
    headers: dict[str, str] = {}
    # Offer its tools in requests that do not ask for it, to every client.
    always: bool = False
    # The names of keys that may use it. Empty: all.
    keys: tuple[str, ...] = ()
    # With `always`: only for these models. Empty: for all.
    models: tuple[str, ...] = ()
    # With `always`: whether clients have to approve each call. Clients that did not ask for the server may not know how.
    require_approval: Literal["always", "never"] = "never"
    # The tools that may be used. If it is not set: all.
    allowed_tools: tuple[str, ...] | None = None
    # Seconds for one call. If it is not set: `tool_timeout`.
    timeout: Seconds | None = None
    # Use one session for all keys. False: each key has its own, and for a program its own process.
    shared: bool = False


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`."""

    # Which MCP servers requests may name by URL: "off" for none; "listed" for `hosts`; "public" for these and for https servers
    # on the public internet; "any" for private networks too. Link-local addresses and the gateway itself are never connected
    # to. If it is not set: "public", and servers on this machine, where only this machine can reach the gateway; else "off".
    urls: Literal["off", "listed", "public", "any"] | None = None
    # Hosts that requests may name: "tools.example.com", "10.0.0.5:8000", "*.example.com", "10.1.0.0/16".
    hosts: tuple[str, ...] = ()
    # Seconds to connect to a server, which includes the start of a program, and to list its tools.
    connect_timeout: Seconds = 30.0
    # Seconds after which a connection that nobody uses is closed, and a program ended.
    idle_timeout: Seconds = 300.0
    # The largest answer of a server, in bytes.
    max_answer_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    # The most parts of one result that are read: texts, images, resources. The model is shown that others were left out.
    max_parts: Annotated[int, Meta(ge=1)] = 1_000
    # The most tools of one server.
    max_tools: Annotated[int, Meta(ge=1)] = 500
    # Servers by name.
    servers: dict[str, McpServerSettings] = {}
