"""Calls of tools that the gateway runs."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from antiphon.core.exchange import Exchange
from antiphon.core.steps import ToolCall
from antiphon.core.tools import ToolResult
from antiphon.gateway.observers import RunObservers
from antiphon.gateway.outbox import Outbox
from antiphon.logs import log
from antiphon.tools.runner import ToolContext, ToolRunner


async def run_calls(
    calls: Sequence[ToolCall],
    tools: Mapping[str, ToolRunner],
    context: ToolContext,
    exchange: Exchange,
    outbox: Outbox,
    observers: RunObservers,
) -> None:
    """All at once; each result is shown as soon as those before it are."""

    async def run(call: ToolCall) -> None:
        result = await observers.watch_tool(call, _result_of(call, tools, context))
        outbox.add(exchange.tool_result(call.id, result))
        outbox.flush()

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(run(call))


async def _result_of(call: ToolCall, tools: Mapping[str, ToolRunner], context: ToolContext) -> ToolResult:
    try:
        return await tools[call.kind].run(call, context)
    except Exception as failed:
        # A tool that fails does not fail the response: the model gets the error, and continues.
        log("tool_failed", level=logging.WARNING, exc_info=failed, kind=call.kind, response_id=context.response_id)
        return ToolResult(f"The tool failed: {failed}", failed=True)
