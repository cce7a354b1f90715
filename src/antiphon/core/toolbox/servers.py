"""MCP servers as an exchange names them, and what their lists say."""

from msgspec import Struct, field

from antiphon.wire.hosted_items import McpTool


class McpServer(Struct, frozen=True):
    """An MCP server whose tools the gateway lists and runs."""

    label: str
    # None: the operator's server of this label.
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    authorization: str | None = None


class McpListError(Struct, frozen=True):
    """Why a server did not list its tools."""

    message: str
    # Of the server's HTTP answer.
    status: int | None = None


class Listing(Struct, frozen=True):
    """The tools of one server, or why there are none."""

    tools: list[McpTool] = field(default_factory=list)
    error: McpListError | None = None
