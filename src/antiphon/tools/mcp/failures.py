"""What goes wrong with an MCP server, and what happens to one request on its way there. The SDK's errors do not say it: an HTTP
status, an answer that is too large, an address that may not be connected to."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar

from antiphon.installation import missing_extra
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


# Lines of a program that are kept.
LINES_KEPT = 10


class Report:
    def __init__(self) -> None:
        # Of the last HTTP answer, if it says that the request failed and nothing more.
        self.status: int | None = None
        self.reason = ""
        # The server does not know the session any more.
        self.session_is_gone = False
        # Nothing more is to be waited for.
        self.failed: asyncio.Future[McpFailure] = asyncio.get_running_loop().create_future()

    def fail(self, failure: McpFailure) -> None:
        if not self.failed.done():
            self.failed.set_result(failure)

    @property
    def failure(self) -> McpFailure | None:
        if self.failed.done():
            return self.failed.result()
        if self.status is None:
            return None
        return McpFailure(f"The server answered with HTTP status {self.status}{self.reason}.", status=self.status)


# The report of the request that is being made. The SDK sends each message in the context of who asked for it.
REPORT: ContextVar[Report | None] = ContextVar("report", default=None)


class Lost:
    """When a program has ended, or cannot be listened to any more, and why."""

    def __init__(self) -> None:
        self.future: asyncio.Future[McpFailure] = asyncio.get_running_loop().create_future()
        # What it wrote last to standard error, and to standard output without being a message.
        self.errors: deque[str] = deque(maxlen=LINES_KEPT)
        self.noise: deque[str] = deque(maxlen=LINES_KEPT)

    def set(self, failure: McpFailure) -> None:
        if not self.future.done():
            self.future.set_result(failure)

    @property
    def failure(self) -> McpFailure | None:
        return self.future.result() if self.future.done() else None

    @property
    def detail(self) -> list[str]:
        return [*self.noise, *self.errors]
