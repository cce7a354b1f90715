"""A connection to an MCP server, by the SDK. This module and the transports are imported when the first one is made."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pydantic
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation, ToolListChangedNotification

from antiphon import __version__
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.definitions import HttpServer, McpLimits, StdioServer, Target
from antiphon.tools.mcp.failures import INVALID_ANSWER, McpFailure
from antiphon.tools.mcp.http_transport import make_client
from antiphon.tools.mcp.reports import Lost, Report
from antiphon.tools.mcp.stdio_transport import stdio_transport

# What they log has URLs and messages in it, which may be secrets.
for name in ("mcp", "httpx2", "httpcore2"):
    logging.getLogger(name).setLevel(logging.CRITICAL + 1)

# To these, servers of the older transport answer a POST.
MAY_BE_OLD_SSE = frozenset({400, 404, 405, 406, 410, 415, 501})


@asynccontextmanager
async def connected(
    target: Target,
    policy: AddressPolicy,
    limits: McpLimits,
    lost: Lost,
    when_changed: Callable[[], None],
    *,
    old_sse: bool = False,
) -> AsyncIterator[Client]:
    """`when_changed`: the server says that it has other tools now. Raises McpFailure, or what `to_failure` reads."""

    async def take(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            when_changed()

    async with AsyncExitStack() as stack:
        if isinstance(target, StdioServer):
            transport: Any = stdio_transport(target, limits, lost)
        else:
            transport = await _http(target, policy, limits, lost, stack, old_sse=old_sse)
        about = Implementation(name="antiphon", version=__version__)
        client = Client(transport, client_info=about, cache=None, message_handler=take)
        yield await stack.enter_async_context(client)


async def _http(
    server: HttpServer, policy: AddressPolicy, limits: McpLimits, lost: Lost, stack: AsyncExitStack, *, old_sse: bool
) -> Any:
    http = make_client(server, policy, limits, lost if old_sse else None)
    if old_sse:
        # It enters the client itself.
        return sse_client(server.url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: http)
    await stack.enter_async_context(http)
    return streamable_http_client(server.url, http_client=http, max_sse_event_size=limits.answer_bytes)


def skip_output_checks(client: Client) -> None:
    """A result that does not follow the tool's own output schema is still what the model is shown. To check it, the SDK would
    list the tools again."""

    async def accept(name: str, result: Any) -> None: ...

    client.session.validate_tool_result = accept  # type: ignore[method-assign]


def to_failure(error: BaseException, report: Report | None = None) -> McpFailure:
    """What the SDK raises, in our words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpFailure):
        return error
    if report is not None and (known := report.failure) is not None:
        return known
    match error:
        case MCPError():
            return McpFailure(error.message, code=error.code)
        case pydantic.ValidationError():
            return McpFailure("The server's answer does not follow the Model Context Protocol.", code=INVALID_ANSWER)
        case RuntimeError():
            # Such as a version of the protocol that the SDK does not know.
            return McpFailure(str(error), code=INVALID_ANSWER)
    return McpFailure(f"The connection to the server failed ({type(error).__name__}).")
