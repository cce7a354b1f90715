"""Calls of tools that the gateway runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.mcp_servers import MCP, Listing, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import counted
from antiphon.gateway.runs.observers import RunObservers
from antiphon.gateway.state.recorder import NoRecorder, ResponseRecorder
from antiphon.logs import log
from antiphon.partial_json import canonical_arguments, object_arguments
from antiphon.tools.runner import ToolContext, ToolRunner

# ---- Calls that an earlier attempt at the same response had begun, and that must not be made a second time unnoticed ----
# A gateway that dies leaves a background response that another one begins again. Calls whose tool has an effect of its own
# may have had it already. The model is asked anew, and may word the same call in another way: so each earlier call stands
# against one call of its tool, and against every equal one.

MAY_HAVE_RUN = (
    "This call was not run. The work on this answer was interrupted before, when a call of the same tool had begun, with the "
    "arguments {arguments}. It may have run already. Find out whether it did, if you can, or say so in your answer."
)
NOTICE = "a call of {name} was not run: before the gateway was restarted such a call had begun, and it may have run already"


class EarlierCalls:
    def __init__(self, begun: Iterable[ToolCall] = ()) -> None:
        # Each once: one may have been noted twice.
        self._begun = list(dict.fromkeys(begun))
        # Those that no call of this attempt has stood for.
        self._unmatched = list(self._begun)

    def refusal_of(self, call: ToolCall) -> ToolResult | None:
        """What the model reads in place of a result; None: the call may be run."""
        tool = _tool(call)
        same = next((each for each in self._begun if _tool(each) == tool and _action(each) == _action(call)), None)
        found = same or next((each for each in self._unmatched if _tool(each) == tool), None)
        if found is None:
            return None
        if found in self._unmatched:
            self._unmatched.remove(found)
        words = MAY_HAVE_RUN.format(arguments=found.arguments)
        return ToolResult(words, failed=True, notice=NOTICE.format(name=call.name))


def _tool(call: ToolCall) -> tuple[str, str | None, str]:
    return call.kind, call.namespace, call.name


def _action(call: ToolCall) -> bytes:
    return canonical_arguments(object_arguments(call.arguments))


# Seconds that tools which were stopped may take to end. What takes longer is left to itself.
STOPPING_TIME = 5.0

TOO_SLOW = "The tool had no result after {time}, and was stopped."
FAILED = "The tool failed: {reason}"
STOPPED_ITSELF = "The tool failed: it was cancelled from within."
NOT_NOTED = "This call was not run: it could not be noted that it begins, and it must not be run twice."


class ToolCalls:
    """Of one response: `run()` those of one answer after another, then `close()`."""

    def __init__(
        self,
        tools: Mapping[str, ToolRunner],
        context: ToolContext,
        recorder: ResponseRecorder | NoRecorder,
        observers: RunObservers,
        *,
        timeout: float,
    ) -> None:
        """`timeout`: seconds that one call may take."""
        self._tools = tools
        self.context = context
        self._recorder = recorder
        self._observers = observers
        self._earlier = EarlierCalls(recorder.begun_calls)
        self._timeout = timeout
        self._running: set[asyncio.Task[ToolResult]] = set()

    async def run(self, calls: Sequence[ToolCall], report: Callable[[ToolCall, ToolResult], Awaitable[None]]) -> None:
        """All at once. Each result is reported as soon as it is there, one after another."""
        running = {asyncio.create_task(self._observers.watch_tool(call, self._result_of)): call for call in calls}
        self._running.update(running)
        try:
            waiting: Collection[asyncio.Task[ToolResult]] = running.keys()
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                # Several at once in the order of their calls.
                for task in [task for task in running if task in done]:
                    await report(running[task], task.result())
        finally:
            await self._stop()

    async def close(self) -> None:
        """Leaves what the tools have entered for this response, once none of them runs any more."""
        await self._stop()
        try:
            async with asyncio.timeout(STOPPING_TIME):
                await self.context.resources.aclose()
        except (Exception, BaseExceptionGroup) as failed:
            log("tool_not_closed", level=logging.WARNING, exc_info=failed, response_id=self.context.response_id)

    async def _stop(self) -> None:
        running = {task for task in self._running if not task.done()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=STOPPING_TIME)
        self._running.clear()

    async def _result_of(self, call: ToolCall) -> ToolResult:
        if not call.idempotent:
            if (refusal := self._earlier.refusal_of(call)) is not None:
                return refusal
            if not await self._recorder.begin_call(call):
                return ToolResult(NOT_NOTED, failed=True)
        runner = self._tools[call.kind]
        try:
            async with asyncio.timeout(None if runner.has_own_timeouts else self._timeout) as limit:
                return await runner.run(call, self.context)
        except (asyncio.CancelledError, BaseExceptionGroup) as stopped:
            if _is_cancelled():
                raise
            # Libraries that cancel their own work may let that through.
            words = STOPPED_ITSELF if isinstance(stopped, asyncio.CancelledError) else ""
            return self._failed(call, stopped, words)
        except Exception as failed:
            slow = TOO_SLOW.format(time=counted(self._timeout, "second")) if limit.expired() else ""
            return self._failed(call, failed, slow)

    def _failed(self, call: ToolCall, error: BaseException, words: str) -> ToolResult:
        """A tool that fails does not fail the response: the model gets the error, and continues."""
        log("tool_failed", level=logging.WARNING, exc_info=error, kind=call.kind, response_id=self.context.response_id)
        return ToolResult(words or FAILED.format(reason=str(error) or type(error).__name__), failed=True)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# ---- Lists of the tools of MCP servers -------------------------------------------------------------------------------


async def list_servers(
    servers: Sequence[McpServer], tools: Mapping[str, ToolRunner], context: ToolContext
) -> dict[str, Listing]:
    """All at once, by their labels."""
    runner = tools[MCP]
    async with asyncio.TaskGroup() as group:
        tasks = {server.label: group.create_task(_listing_of(server, runner, context)) for server in servers}
    return {label: task.result() for label, task in tasks.items()}


async def _listing_of(server: McpServer, runner: ToolRunner, context: ToolContext) -> Listing:
    try:
        return await runner.list_tools(server, context)
    except Exception as failed:
        log("listing_failed", level=logging.WARNING, exc_info=failed, label=server.label, response_id=context.response_id)
        return Listing(error=McpListError(f"Its tools could not be listed: {failed}"))
