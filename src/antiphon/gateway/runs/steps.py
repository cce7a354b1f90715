"""The steps of a run: what the exchange wants next is done, until an engine answers or the response is at its end. What
leads to the answer can be ended from anywhere."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, CheckWork, StoredFileWork, UrlWork
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, AwaitProbe, Check, Compact, Count, Done, Estimate, ListTools, RunTools, ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.engines.replies import Reply
from antiphon.engines.token_counts import count_prompt, estimate_usage
from antiphon.errors import ApiError
from antiphon.files.file_inputs import FileInputs
from antiphon.gateway.limits.threads import is_large
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.engine_side import EngineSide
from antiphon.gateway.runs.outbox import ExchangeCalls, NoSink, Outbox, Sink
from antiphon.gateway.runs.timers import Deadlines, EngineWatches, Timeouts
from antiphon.gateway.runs.tool_calls import ToolCalls, list_servers
from antiphon.gateway.state.recorder import NoRecorder, ResponseRecorder
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.tools.url_files import UrlFiles
from antiphon.transport.interfaces import WriteBatch

# ---- Work that others can end, without a task of its own -------------------------------------------------------------

T = TypeVar("T")


class Interruptible(Struct, eq=False):
    """`run()` it in the task of the caller; `interrupt()` ends it, and only it, from anywhere.

    A task for it, and the wait for that, take 7 µs; this takes 0.7. As `asyncio.timeout` does, an interruption cancels the
    caller's task and takes that back where the work ends.
    """

    _running: asyncio.Task[Any] | None = None
    _interrupted: bool = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result. None: it was interrupted."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before, result = task.cancelling(), None
        self._running, self._interrupted = task, False
        try:
            try:
                result = await work
            finally:
                if self._interrupted:
                    # Work that interrupts itself, and does not wait any more, would leave the cancellation to its caller.
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Others may have cancelled the task, too.
            if not self._interrupted or task.cancelling() > cancelled_before + 1:
                raise
        finally:
            self._running = None
            if self._interrupted:
                task.uncancel()
        return result

    def interrupt(self) -> None:
        """Nothing happens if it does not run."""
        if self._running is not None and not self._interrupted:
            self._interrupted = True
            self._running.cancel()


async def done_within(task: asyncio.Task[Any], seconds: float) -> None:
    """Waits until the task is done, for so long at most, and leaves it running. `asyncio.wait` does the same for several tasks,
    by three times as many calls."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = loop.call_later(seconds, wake)
    task.add_done_callback(wake)
    try:
        await woken
    finally:
        timer.cancel()
        task.remove_done_callback(wake)


# ---- The next answer -------------------------------------------------------------------------------------------------

# Takes the steps up to an answer. None: there is none to come.
Open = Callable[[], Coroutine[Any, Any, Reply | None]]


class Opening(Interruptible):
    """`run()` it in place, or `start()` it where the response may have to begin before there is an answer. Then ask for the
    `next()` one, until there is none."""

    task: asyncio.Task[Reply | None] | None = None
    # The answer that came before the response began.
    reply: Reply | None = None

    async def start(self, open_answer: Open, patience: float) -> None:
        """Waits for the answer for so many seconds at most."""
        self.task = asyncio.create_task(open_answer())
        await done_within(self.task, patience)

    async def next(self, open_answer: Open) -> Reply | None:
        """None: there is none to come, or it was interrupted. The usage may still have to be estimated."""
        reply, self.reply = self.reply, None
        if reply is not None:
            return reply
        if (task := self.task) is None:
            return await self.run(open_answer())
        try:
            reply = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not task.cancelled() or (current is not None and current.cancelling()):
                raise
        self.task = None
        return reply

    def interrupt(self) -> None:
        super().interrupt()
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """Nobody is going to read the answer."""
        task, reply = self.task, self.reply
        if task is not None and not task.cancel() and not task.cancelled() and task.exception() is None:
            reply = task.result()
        if reply is not None:
            reply.close()

    async def wait(self) -> None:
        """Calls that were running have been stopped, and may still be about to end."""
        if self.task is not None:
            await asyncio.wait({self.task})


TOOL_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Equipment:
    """What every run of a gateway uses."""

    timeouts: Timeouts
    batch: WriteBatch
    checker: Checker
    tools: Mapping[str, ToolRunner]
    # Seconds that one call of a tool may take.
    tool_timeout: float = TOOL_TIMEOUT
    # The uploaded files that requests name.
    files: FileInputs | None = None
    # What is at the addresses that they name; None: nothing is fetched.
    urls: UrlFiles | None = None
    deadlines: Deadlines = field(init=False)
    watches: EngineWatches = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "deadlines", Deadlines(self.timeouts.total))
        object.__setattr__(self, "watches", EngineWatches(self.timeouts))

    async def run_check(self, work: CheckWork, owner: str, *, patient: bool = False) -> CheckOutcome:
        """Never raises for what the work does. Raises RateLimited if too much of its owner waits, unless it is patient."""
        if isinstance(work, StoredFileWork) and self.files is not None:
            return await self.files.outcome_of(work, owner, patient=patient)
        if isinstance(work, UrlWork) and self.urls is not None:
            return await self.urls.outcome_of(work, owner, patient=patient)
        return await self.checker.run(work, owner, patient=patient)


class PartialRun(Protocol):
    """The run of an exchange that is a part of another one."""

    @property
    def calls(self) -> ExchangeCalls: ...

    async def run(self, sink: Sink) -> ApiError | None: ...
    def abort(self, error: ApiError) -> None: ...
    async def leave(self) -> None: ...


class Steps(Struct, eq=False):
    """`open()` takes those up to the engine's next answer. `abort()` ends whichever is being taken."""

    _exchange: Exchange
    calls: ExchangeCalls
    engine: EngineSide
    outbox: Outbox
    _recorder: ResponseRecorder | NoRecorder
    equipment: Equipment
    # Makes the run of an exchange that is a part of this one.
    _make_part: Callable[[Exchange, "Steps"], PartialRun]
    opening: Opening = msgspec.field(default_factory=Opening)
    # The run that compacts the history, while it does.
    _part: PartialRun | None = None
    # Once it calls a tool.
    tools: ToolCalls | None = None

    async def open(self) -> Reply | None:
        """The engine's next answer; None: there is none to come, or the response has to begin first."""
        exchange, outbox = self._exchange, self.outbox
        while True:
            match step := exchange.step:
                case Ask():
                    try:
                        return await self.engine.ask(step, outbox.observers)
                    except ApiError as error:
                        await self.report(partial(exchange.refused, error))
                case AwaitProbe():
                    await self._await_probe(step)
                case Check():
                    await self._check_once(step)
                case ListTools(has_items=True) | RunTools() | Compact() if not outbox.begun:
                    # It has items to show, and may take as long as an answer.
                    return None
                case ListTools():
                    await self._list_tools(step)
                case RunTools():
                    await self._run_tools(step)
                case Estimate():
                    await self._estimate(step)
                case Count():
                    tokens = await count_prompt(self.engine.engines[step.engine], step.chat)
                    await self.report(partial(exchange.counted, tokens))
                case Compact():
                    await self._compact()
                case Done():
                    return None
            outbox.flush()

    async def report(self, call: Callable[[], list[AnyEvent]], *, large: bool = False) -> None:
        """Reports something to the exchange that may make it convert its request anew, or that is `large` itself."""
        calls = self.calls
        # A check that runs may report its outcome at any time. Until then there is nothing to convert.
        if (large or calls.is_large) and self.engine.checks.running is None:
            self.outbox.add(await calls.make(call, in_thread=True))
        else:
            self.outbox.unsent += call()
        if calls.late_abort is not None:
            self.abort_late()

    def abort(self, error: ApiError) -> None:
        """Ends the response with this error, and gives the engine up."""
        calls = self.calls
        calls.aborted = calls.aborted or error
        self.engine.body.give_up()
        if self._part is not None and self._part.calls.in_thread:
            # Aborting this exchange would call that one too.
            self._part.abort(error)
            calls.late_abort = calls.aborted
        elif calls.in_thread:
            calls.late_abort = calls.aborted
        else:
            self.outbox.add(self._exchange.abort(error))
            self.engine.checks.cancel()
            self.opening.interrupt()

    def abort_late(self) -> None:
        """The exchange may be called again."""
        error, self.calls.late_abort = self.calls.late_abort, None
        if error is not None:
            self.abort(error)

    # ---- one of them -------------------------------------------------------------------------------------------------

    async def _await_probe(self, step: AwaitProbe) -> None:
        engine, conversation = self.engine.engines[step.engine], self.engine.conversation
        if (probing := engine.when_offered_tools(engine, step.model)) is not None:
            await probing
        await self.report(partial(self._exchange.probed, engine.knowledge))
        if conversation is not None and self._exchange.keeps_words:
            engine.knowledge.forms.begin_in_words(step.model, conversation)

    async def _check_once(self, step: Check) -> None:
        checks = self.engine.checks
        if checks.running is not None:
            checking = checks.running
            await asyncio.wait({checking})
            checking.result()
        else:
            outcome = await checks.outcome_of(step.work)
            self.calls.is_large = self.calls.is_large or is_large(outcome)
            await self.report(partial(self._exchange.checked, outcome))

    async def _estimate(self, step: Estimate) -> None:
        engines = self.engine.engines
        usages = [await estimate_usage(engines[each.engine], each.chat, each.written) for each in step.answers]
        self.outbox.add(self._exchange.estimated(usages))

    async def _list_tools(self, step: ListTools) -> None:
        await self.engine.leave()
        context = self._tool_calls().context
        for label, listing in (await list_servers(step.servers, self.equipment.tools, context)).items():
            await self.report(partial(self._exchange.listed, label, listing))

    async def _run_tools(self, step: RunTools) -> None:
        async def report(call: ToolCall, result: ToolResult) -> None:
            await self.report(partial(self._exchange.tool_result, call.id, result))
            self.outbox.flush()

        await self.engine.leave()
        await self._tool_calls().run(step.calls, report)

    def _tool_calls(self) -> ToolCalls:
        if self.tools is None:
            exchange, equipment, recorder = self._exchange, self.equipment, self._recorder
            context = ToolContext(
                recorder.owner if isinstance(recorder, ResponseRecorder) else "",
                exchange.response.id,
                exchange.request,
                server_of=exchange.server_of,
                containers=exchange.containers,
            )
            observers = self.outbox.observers
            self.tools = ToolCalls(equipment.tools, context, recorder, observers, timeout=equipment.tool_timeout)
        return self.tools

    async def _compact(self) -> None:
        """Runs the exchange that compacts the history. The client sees nothing of it but signs of life."""
        compaction = self._exchange.compaction
        assert compaction is not None
        part = self._part = self._make_part(compaction, self)
        try:
            await part.run(NoSink())
        finally:
            self._part = None
            part.calls.aborted = part.calls.aborted or self.calls.aborted
            await part.leave()
        self.abort_late()
        if self.calls.aborted is None:
            await self.report(self._exchange.compacted)
