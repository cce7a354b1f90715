"""Runs calls of MCP tools, and lists the tools of MCP servers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.mcp_servers import MCP, Listing, McpListError, McpServer
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolResult
from antiphon.installation import missing_extra
from antiphon.logs import log
from antiphon.tools.addresses import AddressPolicy, url_complaint
from antiphon.tools.mcp.failures import McpFailure, McpNotInstalled
from antiphon.tools.mcp.large_answers import LARGE_ANSWER
from antiphon.tools.mcp.pool import Place, SessionPool
from antiphon.tools.mcp.results import Block, ListedTools, result_to_tool_result, to_tools
from antiphon.tools.mcp.session import McpSession
from antiphon.tools.mcp.targets import McpLimits, OperatorServer, Target, requested_target, secrets_of
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.hosted_items import McpTool
from antiphon.wire.input_items import Tool

T = TypeVar("T")

# Seconds for which a server of the operator that could not be reached, or did not list its tools, is not tried again. Where it
# is attached to every request, each would wait for it.
RETRY_INTERVAL = 10.0
LIST = "list"
# Seconds for which the list of such a server is used again. Otherwise every request would wait for it.
LIST_LIFETIME = 60.0


class McpRunner(McpTools, ToolRunner):
    # Of one server they are longer than of another.
    has_own_timeouts = True

    def __init__(
        self,
        servers: Mapping[str, OperatorServer],
        policy: AddressPolicy,
        limits: McpLimits,
        *,
        retry_interval: float = RETRY_INTERVAL,
        list_lifetime: float = LIST_LIFETIME,
    ) -> None:
        """`servers`: of the operator, by name. `policy`: for the URLs of requests."""
        super().__init__(servers.keys(), self.url_complaint)
        self.pool = SessionPool(lambda target: McpSession(target, self._policy, self._limits), limits)
        self.change(servers, policy, limits)
        self._retry_interval = retry_interval
        self._list_lifetime = list_lifetime
        # Of the operator's servers: when it failed, by the loop's clock, and why.
        self._failed: dict[Hashable, tuple[float, McpFailure]] = {}
        # The places that a response keeps.
        self._kept: dict[tuple[str, Hashable], Place] = {}

    def change(self, servers: Mapping[str, OperatorServer], policy: AddressPolicy, limits: McpLimits) -> None:
        """For the requests from now on. A session stays open until nobody has used it for a while."""
        self.labels = servers.keys()
        self._servers = servers
        self._always = [server for server in servers.values() if server.always]
        self._policy = policy
        self._limits = limits
        self.pool.change(limits)

    def url_complaint(self, url: str) -> str | None:
        """Why a request may not name this URL, as far as it can be seen from the URL itself."""
        if self._policy.allow == "off":
            return "MCP servers cannot be named by URL here: the setting mcp.urls does not allow it"
        return url_complaint(self._policy, url)

    def attached(self, owner: str, models: Collection[str | None]) -> Sequence[Tool]:
        """The tools that requests get which do not ask for them."""
        return [_to_tool(server) for server in self._always if server.is_attached(owner, models)]

    # ---- what the gateway asks for -----------------------------------------------------------------------------------

    async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
        left_out: list[str] = []
        try:
            listed = await self._list(server, context)
            read = partial(self._offered, listed, self._allowed_tools(server), left_out)
            tools = await asyncio.to_thread(read) if listed.size >= LARGE_ANSWER else read()
        except McpFailure as failure:
            return Listing(error=McpListError(failure.message, failure.status))
        for sentence in left_out:
            log("mcp tool left out", level=logging.WARNING, server=server.label, reason=sentence)
        return Listing(tools)

    def _offered(self, listed: ListedTools, allowed: frozenset[str] | None, left_out: list[str]) -> list[McpTool]:
        tools = to_tools(listed.tools, self._limits, left_out)
        return [tool for tool in tools if allowed is None or tool.name in allowed]

    async def _list(self, server: McpServer, context: ToolContext) -> ListedTools:
        operator = self._operators(server)
        if operator is None:
            return await self._ask(server, context, McpSession.list_tools)
        # A server that does not list its tools may still answer calls.
        key = LIST, self._key(server, context.owner)
        self._raise_recent(key)

        async def listed(session: McpSession) -> ListedTools:
            try:
                return await session.list_tools(self._list_lifetime)
            except McpFailure as failure:
                if not session.is_forgotten:
                    self._note_failure(key, operator, failure)
                raise

        return await self._ask(server, context, listed)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        result, _ = await self.run_whole(call, context)
        return result

    async def run_whole(self, call: ToolCall, context: ToolContext) -> tuple[ToolResult, Sequence[Block]]:
        """The result as a model gets it, and the content that the server sent, with what a model cannot be shown."""
        server = context.server_of(call.namespace or "")
        try:
            return await self._run(server, call, context)
        except McpFailure as failure:
            return ToolResult(failure.message, failed=True, data=failure.to_error()), ()

    async def _run(self, server: McpServer, call: ToolCall, context: ToolContext) -> tuple[ToolResult, Sequence[Block]]:
        arguments: dict[str, Any] = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
        if (allowed := self._allowed_tools(server)) is not None and call.name not in allowed:
            raise McpFailure(f"The tool {call.name} is not allowed.")
        operator = self._operators(server)
        # Not those of the session, which may have been opened under other settings.
        seconds = (operator.timeout if operator is not None else None) or self._limits.call
        secrets = secrets_of(self._target(server, context.owner))
        result = await self._ask(server, context, lambda session: session.call(call.name, arguments, seconds))
        if "structuredContent" not in result:
            return result_to_tool_result(result, secrets), result.get("content") or ()
        # It may have as many members as an answer may have bytes.
        return await asyncio.to_thread(_structured_to_result, result, secrets), result.get("content") or ()

    async def close(self) -> None:
        await self.pool.close()

    async def _ask(self, server: McpServer, context: ToolContext, ask: Callable[[McpSession], Awaitable[T]]) -> T:
        """A request to a server, in the session of this owner. Raises McpFailure."""
        session = await self._session(server, context)
        try:
            return await ask(session)
        except McpFailure:
            if not session.is_forgotten:
                raise
            # Nothing was done: the server does not know the session any more. It may have been started anew.
            return await ask(await self._session(server, context))

    # ---- sessions ----------------------------------------------------------------------------------------------------

    async def _session(self, server: McpServer, context: ToolContext) -> McpSession:
        """The session of this owner with this server, kept until the response has ended."""
        key = self._key(server, context.owner)
        self._raise_recent(key)
        try:
            return await self.pool.session(await self._place(key, context), key[1])
        except McpFailure as failure:
            if (operator := self._operators(server)) is not None:
                self._note_failure(key, operator, failure)
            raise

    def _key(self, server: McpServer, owner: str) -> tuple[str | None, Target]:
        """All that a session must not be shared across."""
        operator = self._operators(server)
        return None if operator is not None and operator.shared else owner, self._target(server, owner)

    def _note_failure(self, key: Hashable, operator: OperatorServer, failure: McpFailure) -> None:
        # Only the operator can do something about it. What the program wrote may be what it was asked.
        log("mcp server failed", level=logging.WARNING, server=operator.name, reason=failure.message)
        self._failed[key] = asyncio.get_running_loop().time(), failure

    async def _place(self, key: Hashable, context: ToolContext) -> Place:
        pin = (context.response_id, key)
        if pin not in self._kept:
            place = await context.resources.enter_async_context(self.pool.kept(key))
            self._kept[pin] = place
            context.resources.callback(self._kept.pop, pin, None)
        return self._kept[pin]

    def _raise_recent(self, key: Hashable) -> None:
        when, failure = self._failed.get(key, (0.0, None))
        if failure is None:
            return
        if asyncio.get_running_loop().time() - when < self._retry_interval:
            raise failure
        del self._failed[key]

    def _target(self, server: McpServer, owner: str) -> Target:
        if server.url is not None:
            if (complaint := self.url_complaint(server.url)) is not None:
                raise McpFailure(f"The URL cannot be used: {complaint}.")
            return requested_target(server)
        operator = self._servers.get(server.label)
        if operator is None or not operator.serves(owner):
            raise McpFailure(f"There is no MCP server with the label {server.label}.")
        return operator.target

    def _operators(self, server: McpServer) -> OperatorServer | None:
        return self._servers.get(server.label) if server.url is None else None

    def _allowed_tools(self, server: McpServer) -> frozenset[str] | None:
        operator = self._operators(server)
        return operator.allowed_tools if operator is not None else None


def _structured_to_result(result: dict[str, Any], secrets: Sequence[str]) -> ToolResult:
    made = result_to_tool_result(result, secrets)
    # To free it takes long, too.
    del result["structuredContent"]
    return made


def _to_tool(server: OperatorServer) -> Tool:
    return {"type": MCP, "server_label": server.name, "require_approval": server.require_approval}


class NoMcp(McpTools, ToolRunner):
    """Where the SDK is not installed."""

    def as_recorded(self) -> McpTools:
        return self

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None, **_: Any) -> None:
        leave_out(box, tool, where, why=missing_extra("MCP", "mcp"))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        raise McpNotInstalled

    async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
        return Listing(error=McpListError(McpNotInstalled().message))

    def attached(self, owner: str, models: Collection[str | None]) -> Sequence[Tool]:
        return ()

    def change(self, servers: Mapping[str, OperatorServer], policy: AddressPolicy, limits: McpLimits) -> None: ...

    async def close(self) -> None: ...
