"""Runs the calls of `code_interpreter`: Python in a container."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.containers.container import Container
from antiphon.containers.containers import Containers, Run
from antiphon.core.code_interpreter import (
    AutoContainer,
    CodeInterpreter,
    CodeInterpreterTool,
    containers_in,
    files_in,
    offered_tool,
)
from antiphon.core.code_interpreter_calls import KIND, without_fence
from antiphon.core.code_results import CodeData, CodeFile, data_to_result
from antiphon.core.request_fields import request_to_items
from antiphon.core.steps import ToolCall
from antiphon.core.tools import TOOLS, ToolResult
from antiphon.errors import InvalidRequest, quoted
from antiphon.tools.runner import ToolContext
from antiphon.wire.responses import CreateResponse

Item = dict[str, Any]

NO_CODE = "The call needs `code`: the Python code to run."
NOT_HERE = "Invalid `{where}`: code cannot be run here. {reason}"
# The first words are OpenAI's. Whether there was such a container, and whose, is not said.
EXPIRED = (
    "Container is expired. `{where}` names {id}, which is not here any more. Create another container, or send "
    '{{"type": "auto"}}.'
)
# Bytes of all images of one call in its outputs. All of them are files of the container, too.
MOST_IMAGE_BYTES = 8 * 1024 * 1024


class CodeInterpreterRunner(CodeInterpreter):
    """Follows `ToolRunner`."""

    # A run has its own, and may have to wait for the one before it.
    has_own_timeouts = True

    def __init__(self, containers: Containers) -> None:
        super().__init__(most_memory=containers.limits.memory)
        self._containers = containers

    # ---- before the exchange -----------------------------------------------------------------------------------------

    async def container_for(self, request: CreateResponse, history: Sequence[Item], owner: str) -> str | None:
        """The id of the container that calls will run in. One that is made by itself is only made when code is run. Raises
        InvalidRequest."""
        offered = offered_tool(request.tools or ())
        if offered is None:
            return None
        at, tool = offered
        await self._check(f"{TOOLS}[{at}]")
        if isinstance(tool.container, AutoContainer):
            await self._containers.check_uploads(owner, tool.container.file_ids or (), f"{TOOLS}[{at}].container.file_ids")
            known = containers_in([*history, *request_to_items(request)])
            return next((id for id in known if self._containers.get(owner, id) is not None), self._containers.new_id("cntr"))
        if self._containers.get(owner, tool.container) is None:
            where = f"{TOOLS}[{at}].container"
            message = EXPIRED.format(where=where, id=quoted(tool.container))
            raise InvalidRequest(message, param=where, code="container_expired")
        return tool.container

    async def _check(self, where: str) -> None:
        if (reason := await self._containers.complaint()) is not None:
            raise InvalidRequest(NOT_HERE.format(where=where, reason=reason), param=where, code="unsupported_tool")

    # ---- a call ------------------------------------------------------------------------------------------------------

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        code = without_fence(_code(call))
        if not code.strip():
            return ToolResult(NO_CODE, failed=True)
        container = await self._container(context)
        await self._containers.copy(
            container, await self._containers.check_uploads(context.owner, _uploads(context), "file_ids")
        )
        ran = await self._containers.run(container, code)
        return data_to_result(await asyncio.to_thread(_to_data, container, ran), failed=ran.result.timed_out)

    async def _container(self, context: ToolContext) -> Container:
        id, tool = context.containers[KIND], _tool(context)
        if (there := self._containers.get(context.owner, id)) is not None:
            return there
        auto = tool.container if isinstance(tool.container, AutoContainer) else AutoContainer("auto")
        return await self._containers.create(context.owner, "auto", id=id, memory_limit=auto.memory_limit or "1g", is_auto=True)


def _uploads(context: ToolContext) -> list[str]:
    """The files of the tool, and those that the request's messages bring."""
    tool = _tool(context)
    named = tool.container.file_ids or [] if isinstance(tool.container, AutoContainer) else []
    return list(dict.fromkeys([*named, *files_in(request_to_items(context.request))]))


def _tool(context: ToolContext) -> CodeInterpreterTool:
    offered = offered_tool(context.request.tools or ())
    return CodeInterpreterTool(AutoContainer("auto")) if offered is None else offered[1]


def _code(call: ToolCall) -> str:
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
    )
