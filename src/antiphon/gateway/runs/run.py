"""One response as it runs: an exchange, and the I/O around it.

The exchange decides; a run opens, pushes, pauses, watches and persists. The engine's bytes are pushed through to the sink in
one go, without a task that wakes for each of them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import (
    Ask,
    AwaitProbe,
    Check,
    Compact,
    Count,
    Done,
    Estimate,
    ListTools,
    RunTools,
    Step,
    ToolCall,
)
from antiphon.core.protocols.client_protocol import Channel
from antiphon.core.toolbox.tools import ToolResult
from antiphon.engines.affinity import routing_headers
from antiphon.engines.token_counts import count_prompt, estimate_usage
from antiphon.engines.upstream import Engine, Reply
from antiphon.errors import ApiError, EngineError, EngineStalled
from antiphon.gateway.limits.admission import BorrowedSeat, QueuePlace, Seat
from antiphon.gateway.limits.threads import is_large
from antiphon.gateway.runs.body_reader import BodyReader
from antiphon.gateway.runs.checks import AnswerChecks
from antiphon.gateway.runs.equipment import Equipment
from antiphon.gateway.runs.exchange_calls import ExchangeCalls
from antiphon.gateway.runs.observers import Arrival, Observer, RunObservers
from antiphon.gateway.runs.outbox import EngineFlow, NoSink, Outbox, Sink
from antiphon.gateway.runs.tool_calls import ToolCalls, list_servers
from antiphon.gateway.runs.watch import EngineWatch
from antiphon.gateway.state.recorder import NoRecorder, ResponseRecorder
from antiphon.logs import log
from antiphon.tools.runner import ToolContext
from antiphon.wire.responses import Response

# ---- Work that others can end, without a task of its own -------------------------------------------------------------

T = TypeVar("T")


class Interruptible:
    """`run()` it in the task of the caller; `interrupt()` ends it, and only it, from anywhere.

    A task for it, and the wait for that, take 7 µs; this takes 0.7. As `asyncio.timeout` does, an interruption cancels the
    caller's task and takes that back where the work ends.
    """

    __slots__ = ("_interrupted", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result. None: it was interrupted."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before, result = task.cancelling(), None
        self._task, self._interrupted = task, False
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
            self._task = None
            if self._interrupted:
                task.uncancel()
        return result

    def interrupt(self) -> None:
        """Nothing happens if it does not run."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()


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


BUG = "The gateway failed. This is a bug; the log has its trace."


class ResponseRun:
    """`connect()`, then `run()`, and `close()` in any case."""

    __slots__ = (
        "__weakref__",
        "_aborted",
        "_begun",
        "_body",
        "_calls",
        "_checks",
        "_compacting",
        "_conversation",
        "_end_by",
        "_engines",
        "_equipment",
        "_exchange",
        "_large",
        "_late_abort",
        "_observers",
        "_opened",
        "_opening",
        "_outbox",
        "_seat",
        "_sent_key",
        "_steps",
        "_tools",
        "_watch",
        "arrived",
        "channel",
        "place",
        "recorder",
    )

    def __init__(
        self,
        exchange: Exchange,
        engines: Sequence[Engine],
        recorder: ResponseRecorder | NoRecorder,
        equipment: Equipment,
        seat: Seat,
        *,
        observers: Sequence[Observer] = (),
        large: bool = False,
        arrival: Arrival | None = None,
        sent_key: str | None = None,
        conversation: str | None = None,
    ) -> None:
        """`seat`: its place at an engine, which it takes when it asks one. `large`: the request is converted in a thread.
        `arrival`: of its request; without one, it is a part of another request, which comes now.
        `sent_key`: by which a router in front of several engines knows the conversation. `conversation`: by which it is known
        whether its tools stay in words; None: they cannot come to be."""
        self._exchange = exchange
        self._large = large
        self._engines = engines
        self._sent_key = sent_key
        self._conversation = conversation
        self.recorder = recorder
        self._equipment = equipment
        self._seat = seat
        self.channel: Channel = arrival.channel if arrival is not None else "http"
        # By the loop's clock: when its request came.
        self.arrived = arrival.at if arrival is not None else asyncio.get_running_loop().time()
        # The first events have been written.
        self._begun = False
        # The run that compacts the history, while it does.
        self._compacting: ResponseRun | None = None
        self._aborted: ApiError | None = None
        # An abort that waits until the exchange may be called again.
        self._late_abort: ApiError | None = None
        # What leads to the engine's next answer; a task, where the response may have to begin before that; the answer.
        self._steps = Interruptible()
        self._opening: asyncio.Task[Reply | None] | None = None
        self._opened: Reply | None = None
        self._watch = EngineWatch(equipment.watches)
        self._observers = RunObservers(observers)
        self._calls = ExchangeCalls(exchange)
        self._outbox = Outbox(self._observers, self._calls, EngineFlow())
        self._checks = AnswerChecks(exchange, self._outbox, equipment, seat)
        self._body = BodyReader(
            exchange.answer, self._calls, self._checks, self._outbox, self._observers, self._watch, equipment.batch
        )
        # Its place among the responses of its owner, if it was given one.
        self.place: QueuePlace | None = None
        # Once it calls a tool.
        self._tools: ToolCalls | None = None
        # By the loop's clock: when it has to end.
        self._end_by: float | None = None
        self._observers.begin(exchange.response.id, exchange.request)

    # ---- what is known of it -----------------------------------------------------------------------------------------

    @property
    def streams(self) -> bool:
        return self._exchange.streams

    @property
    def is_large(self) -> bool:
        """What takes as long as its items are many is done in a thread."""
        return self._large

    @property
    def in_background(self) -> bool:
        return self.response.background

    @property
    def response(self) -> Response:
        return self._exchange.response

    @property
    def items(self) -> Sequence[dict[str, Any]]:
        """The items that it answers to, and the history before them."""
        return self._exchange.items

    @property
    def error(self) -> ApiError | None:
        return self._exchange.error

    @property
    def engine(self) -> Engine:
        return self._engines[self._exchange.engine]

    @property
    def notices(self) -> list[str]:
        return self._exchange.notices

    @property
    def owner(self) -> str | None:
        """None: it is a part of another request."""
        return self.recorder.owner if isinstance(self.recorder, ResponseRecorder) else None

    @property
    def step(self) -> Step:
        return self._exchange.step

    @property
    def first_output(self) -> float | None:
        """When there was the first of its output, by the loop's clock."""
        return self._observers.first_output

    @property
    def waits(self) -> bool:
        """Its engine is busy."""
        return self._seat.waits

    # ---- from the request to the terminal event ----------------------------------------------------------------------

    async def connect(self, patience: float | None = None) -> None:
        """Asks the engine, and waits for its answer to begin, at most `patience` seconds. Raises what it refuses.

        After that the response can be run: an engine that is still silent may be reading a long prompt.
        """
        self._end_by = self._equipment.deadlines.start(self)
        if patience is None:
            self._opened = await self._steps.run(self._open())
        else:
            self._opening = asyncio.create_task(self._open())
            await done_within(self._opening, patience)
        if self._aborted is not None:
            raise self._aborted
        if self._opening is not None and not self._opening.done():
            return
        if self._opening is not None and (bug := self._opening.exception()) is not None:
            raise bug
        if (error := self.error) is not None and not (self.streams and error.streams):
            raise error

    async def run(self, sink: Sink) -> None:
        """Writes every event, to the terminal one. Never raises for what the engine does."""
        self._outbox.sink = sink
        self._outbox.add(self._exchange.start())
        self._begun = True
        self._outbox.flush()
        self._watch.start(self)
        try:
            await self._drive()
        except ApiError as error:
            self.abort(error)
        except Exception as bug:
            # The client has been promised a terminal event, and gets it.
            log("bug", level=logging.ERROR, exc_info=bug, response_id=self.response.id)
            self.abort(EngineError(BUG, code="internal_error"))
        finally:
            self._watch.stop()
        # The engine has nothing more to do, however long the rest takes.
        self._seat.leave()
        await self._end()

    async def _drive(self) -> None:
        """Takes every step of the exchange, until it is done."""
        while not isinstance(self._exchange.step, Done):
            reply, self._opened = self._opened, None
            if reply is None:
                reply = await self._next_answer()
            if reply is None:
                continue
            if self._aborted is not None:
                # It came too late.
                reply.close()
                continue
            error = await self._body.read(reply)
            self._observers.answered(self._aborted or error)
            if self._late_abort is not None:
                self._abort_late()
            if self._aborted is None:
                await self._report(partial(self._exchange.finish, error), large=self._exchange.answer.has_large_end)

    async def _next_answer(self) -> Reply | None:
        """None: there is none to come, or it was aborted. The usage may still have to be estimated."""
        if (opening := self._opening) is None:
            return await self._steps.run(self._open())
        reply = None
        try:
            reply = await opening
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._aborted is None or (task is not None and task.cancelling()):
                raise
        self._opening = None
        return reply

    async def _end(self) -> None:
        """The response is stored before its terminal event is sent: a client that has seen it can continue it at once."""
        exchange, outbox = self._exchange, self._outbox
        unsent = outbox.take()
        last = [*unsent, *(await self._calls.make(exchange.end, in_thread=True) if self._large else exchange.end())]
        try:
            await self.recorder.record(exchange.stored_response, last)
        except ApiError as error:
            last = [*unsent, *exchange.end(error)]
        outbox.write_last(last)
        self._observers.end(exchange.response, self._aborted or exchange.error)
        if not isinstance(outbox.sink, NoSink):
            await self._drain()

    async def _drain(self) -> None:
        """A client that does not read gets no more time than others. Raises ConnectionResetError: it has to be left."""
        end = self._end_by
        try:
            async with asyncio.timeout_at(end + self._equipment.timeouts.heartbeat if end is not None else None):
                await self._outbox.sink.drain()
        except TimeoutError:
            raise ConnectionResetError(f"The client did not read the end of {self.response.id}.") from None

    def abort(self, error: ApiError) -> None:
        """Ends the response with this error, and gives the engine up."""
        self._aborted = self._aborted or error
        self._body.give_up()
        compacting = self._compacting
        if compacting is not None and compacting._calls.in_thread:
            # Aborting this exchange would call that one too.
            compacting.abort(error)
            self._late_abort = self._aborted
        elif self._calls.in_thread:
            self._late_abort = self._aborted
        else:
            self._outbox.add(self._exchange.abort(error))
            self._checks.cancel()
            self._steps.interrupt()
            if self._opening is not None:
                self._opening.cancel()

    def _abort_late(self) -> None:
        """The exchange may be called again."""
        error, self._late_abort = self._late_abort, None
        if error is not None:
            self.abort(error)

    def close(self) -> Coroutine[Any, Any, None] | None:
        """Leaves nothing running. What it returns is still to be awaited: the connection is kept if its body ends soon, and
        tools leave what they have opened."""
        if self._observers.listening:
            self._observers.drop(self._aborted or self.error)
        if self._end_by is not None:
            self._equipment.deadlines.cancel(self)
        self._checks.cancel()
        self._outbox.close()
        opening, opened = self._opening, self._opened
        if opening is not None and not opening.cancel() and not opening.cancelled() and opening.exception() is None:
            opened = opening.result()
        if opened is not None:
            # Nobody is going to read it.
            opened.close()
        leaving = self._body.close()
        return leaving if self._tools is None else self._leave_tools(self._tools, leaving)

    async def _leave_tools(self, tools: ToolCalls, leaving: Coroutine[Any, Any, None] | None) -> None:
        if self._opening is not None:
            # Calls that were running have been stopped, and may still be about to end.
            await asyncio.wait({self._opening})
        await tools.close()
        if leaving is not None:
            await leaving

    def leave_places(self) -> None:
        """Others may run."""
        self._seat.leave()
        if self.place is not None:
            self.place.leave()

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def _open(self) -> Reply | None:
        """Takes the steps up to the engine's next answer; None: there is none to come, or the response has to begin first."""
        while True:
            match step := self._exchange.step:
                case Ask():
                    if (reply := await self._ask(step)) is not None:
                        return reply
                case AwaitProbe():
                    await self._await_probe(step)
                case Check():
                    await self._check_once(step)
                case ListTools(has_items=True) | RunTools() if not self._begun:
                    # It has items to show.
                    return None
                case ListTools():
                    await self._list_tools(step)
                case RunTools():
                    await self._run_tools(step)
                case Estimate():
                    usages = [await estimate_usage(self._engines[a.engine], a.chat, a.written) for a in step.answers]
                    self._outbox.add(self._exchange.estimated(usages))
                case Count():
                    tokens = await count_prompt(self._engines[step.engine], step.chat)
                    await self._report(partial(self._exchange.counted, tokens))
                case Compact() if not self._begun:
                    # It takes as long as an answer, and has an item to show.
                    return None
                case Compact():
                    await self._compact()
                case Done():
                    return None
            self._outbox.flush()

    async def _report(self, call: Callable[[], list[AnyEvent]], *, large: bool = False) -> None:
        """Reports something to the exchange that may make it convert its request anew, or that is `large` itself."""
        # A check that runs may report its outcome at any time. Until then there is nothing to convert.
        if (large or self._large) and self._checks.running is None:
            self._outbox.add(await self._calls.make(call, in_thread=True))
        else:
            self._outbox.add(call())
        if self._late_abort is not None:
            self._abort_late()

    async def _await_probe(self, step: AwaitProbe) -> None:
        engine = self._engines[step.engine]
        if (probing := engine.when_offered_tools(engine, step.model)) is not None:
            await probing
        await self._report(partial(self._exchange.probed, engine.knowledge))
        if self._conversation is not None and self._exchange.keeps_words:
            engine.knowledge.forms.begin_in_words(step.model, self._conversation)

    async def _list_tools(self, step: ListTools) -> None:
        await self._leave_engine()
        for label, listing in (await list_servers(step.servers, self._equipment.tools, self._tool_context())).items():
            await self._report(partial(self._exchange.listed, label, listing))

    async def _run_tools(self, step: RunTools) -> None:
        async def report(call: ToolCall, result: ToolResult) -> None:
            await self._report(partial(self._exchange.tool_result, call.id, result))
            self._outbox.flush()

        await self._leave_engine()
        await self._tool_calls().run(step.calls, report)

    async def _leave_engine(self) -> None:
        """Until it is asked again: others may ask it while tools run."""
        if (leaving := self._body.leave()) is not None:
            await leaving
        self._seat.pause()

    def _tool_calls(self) -> ToolCalls:
        if self._tools is None:
            exchange = self._exchange
            context = ToolContext(
                self.owner or "",
                self.response.id,
                exchange.request,
                server_of=exchange.server_of,
                containers=exchange.containers,
            )
            equipment = self._equipment
            self._tools = ToolCalls(equipment.tools, context, self.recorder, self._observers, timeout=equipment.tool_timeout)
        return self._tools

    def _tool_context(self) -> ToolContext:
        """What the tools that it uses have in common."""
        return self._tool_calls().context

    async def _ask(self, step: Ask) -> Reply | None:
        if (leaving := self._body.leave()) is not None:
            await leaving
        engine, asked = self._engines[step.engine], False
        try:
            await self._seat.take(engine, self._engines[step.engine + 1 :])
            self._observers.ask(step.reason, step.chat, engine.root)
            asked = True
            if step.reason == "next_engine" and self._begun:
                self._watch.restart(self)
            return await engine.open_chat(step.chat, routing_headers(self._sent_key))
        except ApiError as error:
            if asked:
                self._observers.answered(error)
            await self._report(partial(self._exchange.refused, error))
            return None

    async def _compact(self) -> None:
        """Runs the exchange that compacts the history. The client sees nothing of it but signs of life."""
        compaction = self._exchange.compaction
        assert compaction is not None
        self._compacting = run = ResponseRun(
            compaction,
            self._engines,
            NoRecorder(),
            self._equipment,
            BorrowedSeat(self._seat),
            observers=self._observers.engine_only,
            large=self._large,
            sent_key=self._sent_key,
        )
        try:
            await run.run(NoSink())
        finally:
            self._compacting = None
            run._aborted = run._aborted or self._aborted
            if (leaving := run.close()) is not None:
                await leaving
        self._abort_late()
        if self._aborted is None:
            await self._report(self._exchange.compacted)

    async def _check_once(self, step: Check) -> None:
        if (checking := self._checks.running) is not None:
            await asyncio.wait({checking})
            checking.result()
        else:
            outcome = await self._checks.outcome_of(step.work)
            self._large = self._large or is_large(outcome)
            await self._report(partial(self._exchange.checked, outcome))

    # ---- what the watch sees -----------------------------------------------------------------------------------------

    @property
    def reads(self) -> int:
        return self._body.reads

    @property
    def is_asking(self) -> bool:
        return isinstance(self._exchange.step, Ask) and not self._seat.waits

    @property
    def is_paused(self) -> bool:
        return self._outbox.flow.is_paused

    def when_looked(self) -> None:
        self._calls.join_pieces()

    def when_quiet(self) -> None:
        # A journal keeps every event; its followers get signs of life by other means.
        if self.streams and not self.in_background:
            self._outbox.add(self._calls.heartbeat())
            self._outbox.flush()

    def when_stalled(self) -> None:
        error = EngineStalled("The engine said nothing for too long.", retry_after=1)
        if not self._exchange.may_give_way:
            self.abort(error)
        elif not self._body.break_off(error):
            # It is still being asked. What asks it has the same patience, and lets another one be asked.
            self._watch.restart(self)
