"""MCP servers as an exchange names them, and what their lists say."""

from msgspec import Struct, field

from antiphon.wire.hosted_items import McpTool


class McpServer(Struct, frozen=True):
    label: str
    # None: the operator's server of this label.
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    authorization: str | None = None


class McpListError(Struct, frozen=True):
    message: str
    # Of the server's HTTP answer.
    status: int | None = None


class Listing(Struct, frozen=True):
    tools: list[McpTool] = field(default_factory=list)
    error: McpListError | None = None
