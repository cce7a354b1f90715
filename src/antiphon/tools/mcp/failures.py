"""What goes wrong with an MCP server."""

from collections.abc import Iterable

from antiphon.errors import missing_extra
from antiphon.wire.hosted_items import McpHttpError, McpProtocolError

# Codes of JSON-RPC, as MCP uses them.
CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
INVALID_ANSWER = -32603

LONGEST_MESSAGE = 1000


class McpFailure(Exception):
    """A server that could not be reached, or that did not answer as it should. The message is fit for a client."""

    def __init__(
        self, message: str, *, code: int = CONNECTION_CLOSED, status: int | None = None, detail: Iterable[str] = ()
    ) -> None:
        """`status`: of the server's HTTP answer. `detail`: lines for the operator only."""
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.detail = list(detail)

    def to_error(self) -> McpProtocolError | McpHttpError:
        if self.status is not None:
            return McpHttpError(self.status, self.message)
        return McpProtocolError(self.code, self.message)

    def without(self, secrets: Iterable[str]) -> "McpFailure":
        """The same, fit to be shown: servers repeat what they were sent."""
        message = _short(text_without(self.message, secrets))
        detail = [text_without(each, secrets) for each in self.detail]
        return McpFailure(message, code=self.code, status=self.status, detail=detail)


class McpNotInstalled(McpFailure):
    def __init__(self) -> None:
        super().__init__(missing_extra("an MCP server", "mcp"))


def timed_out(what: str, seconds: float) -> McpFailure:
    return McpFailure(f"The server did not {what} within {seconds:g} seconds.", code=REQUEST_TIMEOUT)


def not_mcp() -> McpFailure:
    return McpFailure("The server's answer does not follow the Model Context Protocol.", code=INVALID_ANSWER)


def too_large(most: int) -> McpFailure:
    return McpFailure(f"The server's answer has more than {most:,} bytes.", code=INVALID_ANSWER)


def list_too_large(most: int) -> McpFailure:
    return McpFailure(f"The server's list of tools has more than {most:,} bytes.", code=INVALID_ANSWER)


def text_without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "…")
    return text


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"
