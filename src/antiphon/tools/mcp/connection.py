"""A connection to an MCP server, by the SDK. This module and the transports are imported when the first one is made."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import msgspec
import pydantic
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation, ListToolsResult, Tool, ToolListChangedNotification

from antiphon import __version__
from antiphon.errors import UNREADABLE
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.failures import INVALID_ANSWER, Lost, McpFailure, Report, not_mcp
from antiphon.tools.mcp.http_transport import make_client
from antiphon.tools.mcp.large_answers import LARGE_ANSWER, large_text
from antiphon.tools.mcp.results import ListedTools, first_parts
from antiphon.tools.mcp.stdio_transport import stdio_transport
from antiphon.tools.mcp.targets import HttpServer, McpLimits, StdioServer, Target

T = TypeVar("T")

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
    # The text of a large answer is quoted in the one that stands for it.
    return streamable_http_client(server.url, http_client=http, max_sse_event_size=2 * limits.answer_bytes + LARGE_ANSWER)


def skip_output_checks(client: Client) -> None:
    """A result that does not follow the tool's own output schema is still what the model is shown. To check it, the SDK would
    list the tools again."""

    async def accept(name: str, result: Any) -> None: ...

    client.session.validate_tool_result = accept  # type: ignore[method-assign]


# ---- what the SDK has read -------------------------------------------------------------------------------------------


def result_to_plain(result: CallToolResult, most_parts: int) -> dict[str, Any]:
    """As JSON, with so many parts at most. Raises McpFailure for a large one that is no result."""
    if (text := large_text(result.meta)) is not None:
        return _large_to_plain(text, most_parts)
    plain = _to_plain(result)
    return {**plain, "content": first_parts(plain["content"], most_parts)}


def _large_to_plain(text: str, most_parts: int) -> dict[str, Any]:
    given = _decoded(text, dict[str, Any])
    # The SDK only looks whether it is an object, at every one of its members.
    structured, content = given.pop("structuredContent", None), given.get("content", [])
    if isinstance(content, list):
        content = first_parts(content, most_parts)
    if not isinstance(structured, dict | None):
        raise not_mcp()
    try:
        plain = _to_plain(CallToolResult.model_validate({**given, "content": content}, by_name=False))
    except pydantic.ValidationError:
        raise not_mcp() from None
    return plain if structured is None else {**plain, "structuredContent": structured}


def tools_to_plain(page: ListToolsResult, most: int) -> ListedTools:
    """As JSON. Raises McpFailure for more than these, and for a large list that is none."""
    text = large_text(page.meta)
    if text is None:
        tools = [_to_plain(tool) for tool in page.tools[: most + 1]]
        return ListedTools(tools, len(msgspec.json.encode(tools)))
    listed = _decoded(text, list[msgspec.Raw])
    try:
        tools = [_to_plain(Tool.model_validate_json(bytes(each), by_name=False)) for each in listed[: most + 1]]
    except pydantic.ValidationError:
        raise not_mcp() from None
    return ListedTools(tools, len(text))


def is_large(result: CallToolResult | ListToolsResult) -> bool:
    """It stands for one that is read in a thread."""
    return large_text(result.meta) is not None


def _to_plain(value: pydantic.BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _decoded(text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE:
        raise not_mcp() from None


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
            return not_mcp()
        case RuntimeError():
            # Such as a version of the protocol that the SDK does not know.
            return McpFailure(str(error), code=INVALID_ANSWER)
    return McpFailure(f"The connection to the server failed ({type(error).__name__}).")
