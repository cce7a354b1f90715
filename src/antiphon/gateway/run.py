"""One response as it runs: an exchange, and the I/O around it.

The exchange decides; a run opens, pushes, pauses, watches and persists. The engine's bytes are pushed through to the sink in
one go, without a task that wakes for each of them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from antiphon.core.answer_reader import AnswerReader
from antiphon.core.check_work import CheckOutcome, CheckWork
from antiphon.core.exchange import Exchange
from antiphon.core.fast_path import AnyEvent
from antiphon.core.steps import Ask, Check, Compact, Count, Done, Estimate, RunTools, Step, ToolCall
from antiphon.core.tools import ToolResult
from antiphon.engines.estimates import count_prompt, estimate_usage
from antiphon.engines.upstream import Engine, Reply
from antiphon.errors import ApiError, EngineError, EngineStalled
from antiphon.gateway.admission import BorrowedSeat, QueuePlace, Seat
from antiphon.gateway.checker import Checker
from antiphon.gateway.deadlines import Deadline
from antiphon.gateway.large_answers import LARGE_PIECE, Backlog
from antiphon.gateway.large_requests import run_aside
from antiphon.gateway.observers import Arrival, Channel, Observer, RunObservers
from antiphon.gateway.recorder import NoRecorder, ResponseRecorder
from antiphon.gateway.sinks import NoSink, Sink, WriteBatch
from antiphon.gateway.watch import EngineWatch, Timeouts
from antiphon.logs import log
from antiphon.tools.runner import ToolRunner
from antiphon.wire.responses import Response

BUG = "The gateway failed. This is a bug; the log has its trace."


@dataclass(frozen=True, slots=True)
class Equipment:
    """What every run of a gateway uses."""

    timeouts: Timeouts
    batch: WriteBatch
    checker: Checker
    tools: Mapping[str, ToolRunner]


class ResponseRun:
    """`connect()`, then `run()`, and `close()` in any case."""

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
    ) -> None:
        """`seat`: its place at an engine, which it takes when it asks one. `large`: the request is converted in a thread.
        `arrival`: of its request; without one, it is a part of another request, which comes now."""
        self._exchange = exchange
        self._large = large
        # The exchange is in use in a thread: nobody else may call it.
        self._is_aside = False
        # The run that compacts the history, while it does.
        self._compacting: ResponseRun | None = None
        # A backlog, while a thread reads.
        self._answer: AnswerReader | Backlog = exchange.answer
        exchange.answer.read_at_once(LARGE_PIECE)
        self._reading_aside: asyncio.Task[None] | None = None
        self._engines = engines
        self.recorder = recorder
        self._equipment = equipment
        self._observers = RunObservers(observers)
        # The same list: it is read for each piece.
        self._receivers = self._observers.receivers
        self._add_to_batch = equipment.batch.add
        self._loop = asyncio.get_running_loop()
        self.channel: Channel = arrival.channel if arrival is not None else "http"
        # By the loop's clock: when its request came.
        self.arrived = arrival.at if arrival is not None else self._loop.time()
        # The first events have been written.
        self._begun = False
        self._sink: Sink = NoSink()
        self._unsent: list[AnyEvent] = []
        self._aborted: ApiError | None = None
        # The engine's next answer, and the one that is being read.
        self._opening: asyncio.Task[Reply | None] | None = None
        self._reply: Reply | None = None
        self._read: asyncio.Future[None] = self._loop.create_future()
        self._checking: asyncio.Task[None] | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._watch = EngineWatch(equipment.timeouts)
        self._answer_ended = False
        self._seat = seat
        # Its place among the responses of its owner, if it was given one.
        self.place: QueuePlace | None = None
        self._deadline = Deadline(equipment.timeouts.total)
        self._observers.begin(exchange.response.id, exchange.request)

    # ---- what is known of it -----------------------------------------------------------------------------------------

    @property
    def streams(self) -> bool:
        return self._exchange.streams

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
        self._deadline.start(self.abort)
        self._opening = asyncio.create_task(self._open())
        await asyncio.wait({self._opening}, timeout=patience)
        if self._aborted is not None:
            raise self._aborted
        if self._opening.done() and (bug := self._opening.exception()) is not None:
            raise bug
        error = self.error if self._opening.done() else None
        if error is not None and not (self.streams and error.streams):
            raise error

    async def run(self, sink: Sink) -> None:
        """Writes every event, to the terminal one. Never raises for what the engine does."""
        self._sink = sink
        self._unsent += self._exchange.start()
        self._begun = True
        self.flush()
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
            self._opening = self._opening or asyncio.create_task(self._open())
            try:
                reply = await self._opening
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self._aborted is None or (task is not None and task.cancelling()):
                    raise
                # What was being opened is not wanted any more. The usage may still have to be estimated.
                reply = None
            self._opening = None
            if reply is not None:
                await self._receive_all(reply)

    async def _end(self) -> None:
        """The response is stored before its terminal event is sent: a client that has seen it can continue it at once."""
        last = [*self._unsent, *self._exchange.end()]
        try:
            await self.recorder.record(self.response, last)
        except ApiError as error:
            last = [*self._unsent, *self._exchange.end(error)]
        self._unsent = []
        self._observers.see(last)
        self._sink.write(last, last=True)
        self._observers.end(self.response)
        await self._drain()

    async def _drain(self) -> None:
        """A client that does not read gets no more time than others. Raises ConnectionResetError: it has to be left."""
        deadline = self._deadline.at
        try:
            async with asyncio.timeout_at(deadline + self._equipment.timeouts.heartbeat if deadline is not None else None):
                await self._sink.drain()
        except TimeoutError:
            raise ConnectionResetError(f"The client did not read the end of {self.response.id}.") from None

    def abort(self, error: ApiError) -> None:
        """Ends the response with this error, and gives the engine up."""
        self._aborted = self._aborted or error
        if self._is_aside:
            # As soon as the exchange may be called again.
            return
        if self._compacting is not None and self._compacting._is_aside:
            # Aborting this exchange would call that one too.
            self._compacting.abort(error)
            return
        self._unsent += self._exchange.abort(error)
        if self._checking is not None:
            self._checking.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._reply is not None:
            self._reply.close()
        if not self._read.done():
            self._read.set_result(None)

    def close(self) -> Coroutine[Any, Any, None] | None:
        """Leaves nothing running. What it returns is still to be awaited: the connection is kept if its body ends soon."""
        self._observers.drop(self._aborted or self.error)
        self._read.cancel()
        self._deadline.cancel()
        for task in (self._checking, self._resuming, self._reading_aside):
            if task is not None:
                task.cancel()
        opening = self._opening
        if opening is not None and not opening.cancel() and not opening.cancelled() and opening.exception() is None:
            self._reply = self._reply or opening.result()
        return self._leave()

    def leave_places(self) -> None:
        """Others may run."""
        self._seat.leave()
        if self.place is not None:
            self.place.leave()

    def _leave(self) -> Coroutine[Any, Any, None] | None:
        """Gives the engine's connection back, or closes it."""
        reply, self._reply = self._reply, None
        if reply is None:
            return None
        if not self._answer_ended:
            reply.close()
            return None
        return None if reply.release() else reply.finish()

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def _open(self) -> Reply | None:
        """Takes the steps up to the engine's next answer; None: there is none to come, or the response has to begin first."""
        while True:
            match step := self._exchange.step:
                case Ask():
                    if (reply := await self._ask(step)) is not None:
                        return reply
                case Check():
                    await self._check_once(step)
                case RunTools():
                    await self._run_tools(step)
                case Estimate():
                    usages = [await estimate_usage(self._engines[a.engine], a.chat, a.written) for a in step.answers]
                    self._unsent += self._exchange.estimated(usages)
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
            self.flush()

    async def _report(self, call: Callable[[], list[AnyEvent]], *, large: bool = False) -> None:
        """Reports something to the exchange that may make it convert its request anew, or that is `large` itself."""
        # A check that runs may report its outcome at any time. Until then there is nothing to convert.
        large = (large or self._large) and self._checking is None
        self._is_aside = large
        try:
            events = await run_aside(call, large=large)
        finally:
            self._is_aside = False
        self._unsent += events
        if large and self._aborted is not None:
            self.abort(self._aborted)

    async def _ask(self, step: Ask) -> Reply | None:
        if (leaving := self._leave()) is not None:
            await leaving
        engine, asked = self._engines[step.engine], False
        try:
            await self._seat.take(engine, self._engines[step.engine + 1 :])
            self._observers.ask(step.reason, step.chat, engine.root)
            asked = True
            return await engine.open_chat(step.chat)
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
        )
        try:
            await run.run(NoSink())
        finally:
            self._compacting = None
            if (leaving := run.close()) is not None:
                await leaving
        if self._aborted is not None:
            self.abort(self._aborted)
        else:
            await self._report(self._exchange.compacted)

    async def _check_once(self, step: Check) -> None:
        if (checking := self._checking) is not None:
            await asyncio.wait({checking})
            checking.result()
        else:
            outcome = await self._outcome_of(step.work)
            await self._report(partial(self._exchange.checked, outcome))

    async def _outcome_of(self, work: CheckWork) -> CheckOutcome:
        return await self._equipment.checker.run(work, self._seat.owner, patient=self._seat.patient)

    async def _run_tools(self, step: RunTools) -> None:
        """All at once; each result is shown as soon as those before it are."""

        async def run(call: ToolCall) -> None:
            result = await self._run_tool(call)
            self._unsent += self._exchange.tool_result(call.id, result)
            self.flush()

        async with asyncio.TaskGroup() as group:
            for call in step.calls:
                group.create_task(run(call))

    async def _run_tool(self, call: ToolCall) -> ToolResult:
        try:
            return await self._equipment.tools[call.kind].run(call)
        except Exception as failed:
            # A tool that fails does not fail the response: the model gets the error, and continues.
            log("tool_failed", level=logging.WARNING, exc_info=failed, kind=call.kind, response_id=self.response.id)
            return ToolResult(f"The tool failed: {failed}", failed=True)

    # ---- the engine's body -------------------------------------------------------------------------------------------

    async def _receive_all(self, reply: Reply) -> None:
        """Lets the engine's bytes through until the exchange wants no more."""
        self._reply = reply
        self._read = self._loop.create_future()
        self._watch.begin_answer()
        self._answer_ended = False
        error: ApiError | None = None
        reply.push(self)
        try:
            await self._read
        except ApiError as broken:
            error = broken
        if self._reading_aside is not None:
            await self._reading_aside
        self._answer_ended = self._exchange.answer_ended
        self._observers.answered(self._aborted or error)
        if self._aborted is None:
            await self._report(partial(self._exchange.finish, error), large=self._exchange.answer.has_large_end)

    def receive(self, data: bytes) -> None:
        """One piece of the engine's body, straight from the socket."""
        if self._read.done():
            return
        answer = self._answer
        self._watch.reads += 1
        for observer in self._receivers:
            observer.received(data)
        try:
            events = answer.receive(data)
        except Exception as error:
            # Nothing may be raised into the parser; the run itself reports what went wrong.
            self._read.set_exception(error)
            return
        self._unsent = self._unsent + events if self._unsent else events
        if not answer.needs_caller:
            self._add_to_batch(self)
        else:
            self._attend_to(answer)

    def _attend_to(self, answer: AnswerReader | Backlog) -> None:
        """Does what the reader of the answer needs its caller for."""
        if not answer.reading:
            if not self._read.done():
                self._read.set_result(None)
            return
        self._add_to_batch(self)
        if answer.is_behind:
            # At once: more may come before the task begins.
            backlog = self._answer = Backlog()
            self._reading_aside = asyncio.create_task(self._read_aside(backlog))
        else:
            self._checking = self._checking or asyncio.create_task(self._check())

    async def _read_aside(self, backlog: Backlog) -> None:
        """Reads a large piece in a thread. What comes meanwhile waits for that."""
        answer, reply = self._exchange.answer, self._reply
        if reply is not None:
            reply.pause()
        try:
            while answer.is_behind and answer.reading and self._aborted is None:
                await self._report(answer.read_on, large=True)
                for piece in backlog.take():
                    self._unsent += answer.receive(piece)
        except Exception as bug:
            if self._read.done():
                raise
            self._read.set_exception(bug)
        finally:
            self._answer, self._reading_aside = answer, None
            if reply is not None and self._resuming is None:
                reply.resume()
        self._add_to_batch(self)
        if answer.needs_caller:
            self._attend_to(answer)

    def ended(self, error: BaseException | None) -> None:
        if self._read.done():
            return
        if error is None or self._reply is None:
            self._read.set_result(None)
        else:
            self._read.set_exception(self._reply.error(error))

    async def _check(self) -> None:
        """Checks while the engine sends more, which waits in the exchange."""
        exchange = self._exchange
        try:
            while (work := exchange.check) is not None:
                # Not in one line: what was sent meanwhile would be added again.
                outcome = await self._outcome_of(work)
                self._unsent += exchange.checked(outcome)
                self.flush()
            if not exchange.reading and not self._read.done():
                self._read.set_result(None)
        except Exception as bug:
            if self._read.done():
                raise
            self._read.set_exception(bug)
        finally:
            self._checking = None

    # ---- the client --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes what there is, and pauses the engine if the client does not keep up."""
        events = self._unsent
        if not events:
            return
        self._unsent = []
        if self._observers.look:
            self._observers.see(events)
        if self._sink.write(events) and self._resuming is None and self._reply is not None:
            self._reply.pause()
            self._resuming = asyncio.create_task(self._resume(self._reply))

    async def _resume(self, reply: Reply) -> None:
        await self._sink.drain()
        self._resuming = None
        self.when_looked()
        reply.resume()

    # ---- what the watch sees -----------------------------------------------------------------------------------------

    @property
    def is_asking(self) -> bool:
        return isinstance(self._exchange.step, Ask) and not self._seat.waits

    @property
    def is_paused(self) -> bool:
        return self._resuming is not None

    def when_looked(self) -> None:
        if not self._is_aside:
            self._exchange.join_pieces()

    def when_quiet(self) -> None:
        # A journal keeps every event; its followers get signs of life by other means.
        if self.streams and not self.in_background and not self._is_aside:
            self._unsent += self._exchange.heartbeat()
            self.flush()

    def when_stalled(self) -> None:
        self.abort(EngineStalled("The engine said nothing for too long.", retry_after=1))
