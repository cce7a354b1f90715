"""Runs the calls of `code_interpreter` with a tool of an MCP server."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.code_interpreter import (
    KIND,
    AutoContainer,
    CodeData,
    CodeInterpreter,
    data_to_result,
    offered_tool,
    without_fence,
)
from antiphon.core.hosted.containers import containers_in
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.toolbox.tools import TOOLS, ToolResult
from antiphon.errors import InvalidRequest
from antiphon.tools.code_interpreter.runner import NO_CODE, code_of
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse

# Calls a tool of a server: by the names of both, with these arguments.
CallTool = Callable[[str, str, Mapping[str, Any], ToolContext], Awaitable[ToolResult]]

NO_CONTAINERS = 'the gateway has code run by an MCP server, which has no containers. Send {"type": "auto"}'
NO_FILES = "the gateway has code run by an MCP server, which gets no files"


class McpInterpreterRunner(CodeInterpreter, ToolRunner):
    """The server has no containers: the ids in items only say which calls belong together."""

    # Those of the server count.
    has_own_timeouts = True

    def __init__(self, call_tool: CallTool, server: str, tool: str, argument: str, new_id: Callable[[str], str]) -> None:
        super().__init__()
        self._call_tool = call_tool
        self._server = server
        self._tool = tool
        self._argument = argument
        self._new_id = new_id

    async def container_for(
        self, request: CreateResponse, history: Sequence[Item], owner: str, other: str | None
    ) -> str | None:
        offered = offered_tool(request.tools or ())
        if offered is None:
            return None
        at, tool = offered
        where = f"{TOOLS}[{at}].container"
        if not isinstance(tool.container, AutoContainer):
            raise InvalidRequest(f"Invalid `{where}`: {NO_CONTAINERS}.", param=where, code="unsupported_value")
        if tool.container.file_ids:
            param = f"{where}.file_ids"
            raise InvalidRequest(f"Invalid `{param}`: {NO_FILES}.", param=param, code="unsupported_parameter")
        known = containers_in([*history, *request_to_items(request)])
        return known[0] if known else self._new_id("cntr")

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        code = without_fence(code_of(call))
        if not code.strip():
            return ToolResult(NO_CODE, failed=True)
        ran = await self._call_tool(self._server, self._tool, {self._argument: code}, context)
        result = data_to_result(CodeData(context.containers[KIND], ran.output), failed=ran.failed)
        return structs.replace(result, notice=ran.notice)
