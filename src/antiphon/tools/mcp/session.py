"""A session with an MCP server: one connection, for as many calls as its owner makes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.failures import REPORT, Lost, McpFailure, McpNotInstalled, Report, list_too_large, timed_out
from antiphon.tools.mcp.results import ListedTools
from antiphon.tools.mcp.targets import HttpServer, McpLimits, Target, secrets_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ListToolsResult

T = TypeVar("T")

# The operator named these servers.
TRUSTED = AddressPolicy("any")
# Seconds that a session may take to end, and a request that is not waited for any more.
FAREWELL = 6.0
FIRST = asyncio.FIRST_COMPLETED


def is_installed() -> bool:
    return find_spec("mcp") is not None and find_spec("httpx2") is not None


def _load_sdk() -> Any:
    """The module that uses the SDK."""
    return import_module("antiphon.tools.mcp.connection")


class McpSession:
    """`open()`, then any number of calls at once, and `close()` in any case.

    A task of its own enters and leaves the SDK's contexts: they may not be left by another task than the one that entered them.
    """

    def __init__(self, target: Target, policy: AddressPolicy, limits: McpLimits) -> None:
        self.target = target
        self._policy = TRUSTED if isinstance(target, HttpServer) and target.is_trusted else policy
        self._limits = limits
        self._secrets = secrets_of(target)
        self._life: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._lost = Lost()
        # When its tools were listed, by the loop's clock, and which it had.
        self._listed: tuple[float, ListedTools] | None = None
        # The server has forgotten it, and has not run what it was asked last.
        self.is_forgotten = False

    @property
    def is_alive(self) -> bool:
        is_running = self._life is not None and not self._life.done() and not self._leaving.is_set()
        return is_running and not self.is_forgotten and self._lost.failure is None

    @property
    def protocol_version(self) -> str:
        return self._opened.result().protocol_version

    @property
    def noise(self) -> list[str]:
        """What a program wrote to standard output that is no message."""
        return list(self._lost.noise)

    # ---- its life ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Raises McpFailure."""
        if not is_installed():
            raise McpNotInstalled
        # In a thread: it takes a second, the first time.
        self._sdk = await asyncio.to_thread(_load_sdk)
        # Nothing of the request that it is opened for stays with it.
        self._life = asyncio.create_task(self._live(), context=Context())
        await asyncio.wait({self._opened}, timeout=self._limits.connect)
        if self._opened.done():
            self._opened.result()
            return
        failure = timed_out("answer", self._limits.connect)
        failure.detail = self._lost.detail
        raise failure.without(self._secrets)

    async def _live(self) -> None:
        failure = await self._connect(old_sse=False)
        if failure is not None and isinstance(self.target, HttpServer) and failure.status in self._sdk.MAY_BE_OLD_SSE:
            # If that fails too, the first failure says more.
            failure = failure if await self._connect(old_sse=True) is not None else None
        if failure is not None and not self._opened.done():
            failure.detail = failure.detail or self._lost.detail
            self._opened.set_exception(failure.without(self._secrets))

    async def _connect(self, *, old_sse: bool) -> McpFailure | None:
        """Until it is left. Returns why it could not be connected."""
        report = Report()
        REPORT.set(report)
        try:
            async with self._sdk.connected(
                self.target, self._policy, self._limits, self._lost, self._forget_list, old_sse=old_sse
            ) as client:
                self._sdk.skip_output_checks(client)
                if not self._opened.done():
                    self._opened.set_result(client)
                await self._leaving.wait()
        except Exception as error:
            if not self._opened.done():
                return self._lost.failure or self._failure(error, report)
        return None

    def _forget_list(self) -> None:
        self._listed = None

    def _failure(self, error: BaseException, report: Report) -> McpFailure:
        failure: McpFailure = self._sdk.to_failure(error, report)
        return failure

    async def close(self) -> None:
        self._leaving.set()
        if self._life is None:
            return
        if not self._opened.done():
            self._life.cancel()
        await asyncio.wait({self._life}, timeout=FAREWELL)
        self._life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._life
        if self._opened.done() and not self._opened.cancelled():
            # Nobody may have asked for it.
            self._opened.exception()

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def list_tools(self, max_age: float = 0) -> ListedTools:
        """Every page. `max_age`: a list that is so many seconds old will do, unless the server has said that it changed. Raises
        McpFailure."""
        now = asyncio.get_running_loop().time()
        if self._listed is not None and now - self._listed[0] < max_age:
            return self._listed[1]

        listed = await self._request(self._list_pages, "list its tools", self._limits.connect)
        self._listed = now, listed
        return listed

    async def _list_pages(self, client: "Client") -> ListedTools:
        tools: list[dict[str, Any]] = []
        size = 0
        cursor: str | None = None
        seen: set[str | None] = set()
        while cursor not in seen:
            page = await client.list_tools(cursor=cursor)
            listed = await self._read(page, partial(self._sdk.tools_to_plain, page, self._limits.tools))
            tools += listed.tools
            if len(tools) > self._limits.tools:
                raise McpFailure(f"The server lists more than {self._limits.tools:,} tools.")
            # Each page is within bounds. They are kept together.
            size += listed.size
            if size > self._limits.answer_bytes:
                raise list_too_large(self._limits.answer_bytes)
            seen.add(cursor)
            cursor = page.next_cursor
            if cursor is None:
                break
        return ListedTools(tools, size)

    async def call(self, name: str, arguments: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """The result, as JSON. Raises McpFailure."""

        async def called(client: "Client") -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            return await self._read(result, partial(self._sdk.result_to_plain, result, self._limits.parts))

        return await self._request(called, "answer", seconds or self._limits.call)

    async def _read(self, given: "CallToolResult | ListToolsResult", read: Callable[[], T]) -> T:
        return await asyncio.to_thread(read) if self._sdk.is_large(given) else read()

    async def _request(self, make: "Callable[[Client], Awaitable[T]]", what: str, seconds: float) -> T:
        """The SDK's request, or what ends it before: a failure on the way, the end of the server, or of the time for it."""
        report = Report()
        context = copy_context()
        context.run(REPORT.set, report)
        client = self._opened.result()
        request: asyncio.Task[T] = asyncio.create_task(_awaited(make(client)), context=context)
        ends: set[asyncio.Future[Any]] = {request, report.failed, self._lost.future}
        if self._life is not None:
            ends.add(self._life)
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=FIRST)
            if request.done() and not request.cancelled() and request.exception() is None:
                return request.result()
            self.is_forgotten = self.is_forgotten or report.session_is_gone
            raise self._end_of(request, report, what, seconds).without(self._secrets)
        finally:
            request.cancel()
            await asyncio.wait({request}, timeout=FAREWELL)

    def _end_of(self, request: "asyncio.Task[Any]", report: Report, what: str, seconds: float) -> McpFailure:
        """Why it has no result."""
        known = self._lost.failure or (report.failure if report.failed.done() else None)
        if known is not None:
            return known
        if request.done() and not request.cancelled() and (error := request.exception()) is not None:
            return self._failure(error, report)
        if self._life is not None and self._life.done():
            return McpFailure("The connection to the server is closed.")
        return timed_out(what, seconds)


async def _awaited(made: Awaitable[T]) -> T:
    return await made
