"""Runs the calls of `code_interpreter`: Python in a container, or a tool of an MCP server."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.code_interpreter import (
    KIND,
    AutoContainer,
    CodeData,
    CodeInterpreter,
    CodeInterpreterTool,
    data_to_result,
    offered_tool,
    without_fence,
)
from antiphon.core.hosted.hosted_tool import containers_in, files_in
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.stream.file_links import CodeFile
from antiphon.core.toolbox.tools import TOOLS, ToolResult
from antiphon.errors import InvalidRequest
from antiphon.sandbox.containers.container import Container
from antiphon.sandbox.containers.containers import Containers, Run
from antiphon.tools.code_interpreter.containers import (
    check_here,
    chosen_container,
    known_files,
    named_container,
    opened_container,
    or_refusal,
)
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse

NO_CODE = "The call needs `code`: the Python code to run."
# Bytes of all images of one call in its outputs. All of them are files of the container, too.
MOST_IMAGE_BYTES = 8 * 1024 * 1024


class CodeInterpreterRunner(CodeInterpreter, ToolRunner):
    # A run has its own, and may have to wait for the one before it.
    has_own_timeouts = True

    def __init__(self, containers: Containers) -> None:
        super().__init__(most_memory=containers.limits.memory)
        self._containers = containers

    # ---- before the exchange -----------------------------------------------------------------------------------------

    async def container_for(
        self, request: CreateResponse, history: Sequence[Item], owner: str, other: str | None
    ) -> str | None:
        """The id of the container that calls will run in. `other`: that of another tool of the request. Raises
        InvalidRequest."""
        offered = offered_tool(request.tools or ())
        if offered is None:
            return None
        at, tool = offered
        where = f"{TOOLS}[{at}]"
        await check_here(self._containers, where)
        await self._containers.check_uploads(owner, tool.uploads or (), f"{where}.uploads")
        if isinstance(tool.container, AutoContainer):
            await self._containers.check_uploads(owner, tool.container.file_ids or (), f"{where}.container.file_ids")
            return chosen_container(self._containers, request, history, owner, other)
        return named_container(self._containers, tool.container, owner, f"{where}.container")

    def files_of(self, container: str, owner: str) -> list[CodeFile]:
        return known_files(self._containers, container, owner)

    # ---- a call ------------------------------------------------------------------------------------------------------

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        return await or_refusal(self._run(call, context))

    async def _run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        code = without_fence(code_of(call))
        if not code.strip():
            return ToolResult(NO_CODE, failed=True)
        tool = _tool(context)
        auto = tool.container if isinstance(tool.container, AutoContainer) else AutoContainer("auto")
        container = await opened_container(self._containers, context.containers[KIND], context.owner, auto.memory_limit)
        await self._containers.bring(container, context.owner, _uploads(context))
        ran = await self._containers.run(container, code)
        return data_to_result(await asyncio.to_thread(_to_data, container, ran), failed=ran.result.timed_out)


def _uploads(context: ToolContext) -> list[str]:
    """The files of the tool, and those that the request's messages bring."""
    tool = _tool(context)
    named = tool.container.file_ids or [] if isinstance(tool.container, AutoContainer) else []
    return list(dict.fromkeys([*named, *(tool.uploads or ()), *files_in(request_to_items(context.request))]))


def _tool(context: ToolContext) -> CodeInterpreterTool:
    offered = offered_tool(context.request.tools or ())
    return CodeInterpreterTool(AutoContainer("auto")) if offered is None else offered[1]


def code_of(call: ToolCall) -> str:
    code: str = msgspec.json.decode(call.arguments)["code"]
    return code


def _to_data(container: Container, ran: Run) -> CodeData:
    room, images = MOST_IMAGE_BYTES, []
    for image in ran.result.images:
        room -= len(image)
        if room >= 0:
            images.append(f"data:image/png;base64,{base64.b64encode(image).decode()}")
    return CodeData(
        container.id,
        ran.result.logs,
        images,
        [CodeFile(file.id, file.name) for file in ran.files],
        [file.name for file in ran.written],
        ran.result.failed,
        datetime.fromtimestamp(int(container.expires_at), UTC).isoformat().replace("+00:00", "Z"),
    )


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
