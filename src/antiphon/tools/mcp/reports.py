"""What happens to one request on its way to a server. The SDK's errors do not say it: an HTTP status, an answer that is too
large, an address that may not be connected to."""

import asyncio
from collections import deque
from contextvars import ContextVar

from antiphon.tools.mcp.failures import McpFailure

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
