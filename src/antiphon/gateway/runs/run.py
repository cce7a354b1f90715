"""One response as it runs: an exchange, and the I/O around it. And all that run now, and how they end when the gateway does.

The exchange decides; a run opens, pushes, pauses, watches and persists. The engine's bytes are pushed through to the sink in
one go, without a task that wakes for each of them. It has three parts: the engine's side (`engine_side.py`), the client's
(`outbox.py`), and the steps between them (`steps.py`).
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Done, Step
from antiphon.core.protocols.client_protocol import Channel
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError, EngineError, EngineStalled, ShuttingDown
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.places import Place
from antiphon.gateway.runs.engine_side import AnswerChecks, BodyReader, EngineSide
from antiphon.gateway.runs.observers import Arrival, Observer, RunObservers
from antiphon.gateway.runs.outbox import EncodedSink, ExchangeCalls, NoSink, Outbox, Sink
from antiphon.gateway.runs.steps import Equipment, Steps
from antiphon.gateway.runs.timers import EngineWatch
from antiphon.gateway.runs.tool_calls import ToolCalls
from antiphon.gateway.state.recorder import NoRecorder, ResponseRecorder
from antiphon.logs import log
from antiphon.wire.chat import PromptProgress
from antiphon.wire.responses import Response

BUG = "The gateway failed. This is a bug; the log has its trace."


class ResponseRun:
    """`connect()`, then `run()`, and `close()` in any case."""

    __slots__ = (
        "__weakref__",
        "_end_by",
        "_engine",
        "_equipment",
        "_exchange",
        "_outbox",
        "_steps",
        "arrived",
        "calls",
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
        seat: EngineSeat,
        observers: Sequence[Observer] = (),
        large: bool = False,
        arrival: Arrival | None = None,
        sent_key: str | None = None,
        conversation: str | None = None,
        is_part: bool = False,
    ) -> None:
        """`seat`: its place at an engine, which it takes when it asks one. `large`: the request is converted in a thread.
        `arrival`: of its request; without one, it is a part of another request, which comes now. `sent_key`,
        `conversation`, `is_part`: see `EngineSide`."""
        self._exchange = exchange
        self.recorder = recorder
        self._equipment = equipment
        self.channel: Channel = arrival.channel if arrival is not None else "http"
        # By the loop's clock: when its request came, and when it has to end.
        self.arrived = arrival.at if arrival is not None else asyncio.get_running_loop().time()
        self._end_by: float | None = None
        # Its place among the responses of its owner, if it was given one.
        self.place: Place | None = None
        calls = self.calls = ExchangeCalls(exchange, is_large=large)
        outbox = self._outbox = Outbox(RunObservers(observers), calls, equipment.batch)
        checks = AnswerChecks(exchange, outbox, partial(_run_check, equipment, seat))
        body = BodyReader(exchange.answer, calls, checks, outbox)
        watch = EngineWatch(equipment.watches)
        engine = self._engine = EngineSide(
            engines, seat, body, checks, watch, sent_key=sent_key, conversation=conversation, is_part=is_part
        )
        self._steps = Steps(exchange, calls, engine, outbox, recorder, equipment, _partial_run)
        outbox.observers.notify("request", exchange.response.id, exchange.request)

    # ---- what is known of it -----------------------------------------------------------------------------------------

    @property
    def streams(self) -> bool:
        return self._exchange.streams

    @property
    def is_large(self) -> bool:
        """What takes as long as its items are many is done in a thread."""
        return self.calls.is_large

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
        return self._engine.engines[self._exchange.engine]

    @property
    def notices(self) -> list[str]:
        exchange = self._exchange
        if isinstance(exchange.step, Ask) and not self._outbox.begun:
            # No answer has changed anything since the response got those that there are.
            return exchange.response.antiphon_notices or []
        return exchange.notices

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
        return self._outbox.observers.first_output

    @property
    def progress(self) -> PromptProgress | None:
        """How far its engine has read the prompt, if it reports that."""
        return self._outbox.observers.progress

    @property
    def waits(self) -> bool:
        """Its engine is busy."""
        return self._engine.seat.waits

    # ---- from the request to the terminal event ----------------------------------------------------------------------

    async def connect(self, patience: float | None = None) -> None:
        """Asks the engine, and waits for its answer to begin, at most `patience` seconds. Raises what it refuses.

        After that the response can be run: an engine that is still silent may be reading a long prompt.
        """
        self._end_by = self._equipment.deadlines.start(self)
        opening = self._steps.opening
        if patience is None:
            opening.reply = await opening.run(self._steps.open())
        else:
            await opening.start(self._steps.open, patience)
        if self.calls.aborted is not None:
            raise self.calls.aborted
        if opening.task is not None and not opening.task.done():
            return
        if opening.task is not None and (bug := opening.task.exception()) is not None:
            raise bug
        if (error := self._exchange.error) is not None and not (self.streams and error.streams):
            raise error

    async def run(self, sink: Sink) -> ApiError | None:
        """Writes every event, to the terminal one. Never raises for what the engine does. Returns the error with which the
        response has failed, if it has."""
        self._outbox.begin(sink, self._exchange.start())
        watch = self._engine.watch
        watch.start(self)
        try:
            await self._drive()
        except ApiError as error:
            self.abort(error)
        except Exception as bug:
            # The client has been promised a terminal event, and gets it.
            log("bug", level=logging.ERROR, exc_info=bug, response_id=self.response.id)
            self.abort(EngineError(BUG, code="internal_error"))
        finally:
            watch.stop()
        # The engine has nothing more to do, however long the rest takes.
        if not self._engine.is_part:
            self._engine.seat.leave()
        return await self._end()

    async def _drive(self) -> None:
        """Takes every step of the exchange, until it is done."""
        exchange, steps, calls = self._exchange, self._steps, self.calls
        while not isinstance(exchange.step, Done):
            reply = await steps.opening.next(steps.open)
            if reply is None:
                continue
            if calls.aborted is not None:
                # It came too late.
                reply.close()
                continue
            engine = self._engine
            engine.watch.reads_before_answer = engine.body.reads
            error = await engine.body.read(reply)
            self._outbox.observers.answered(calls.aborted or error)
            if calls.late_abort is not None:
                steps.abort_late()
            if calls.aborted is None:
                await steps.report(partial(exchange.finish, error), large=exchange.answer.has_large_end)

    async def _end(self) -> ApiError | None:
        """The response is stored before its terminal event is sent: a client that has seen it can continue it at once."""
        exchange, outbox, calls = self._exchange, self._outbox, self.calls
        unsent, outbox.unsent = outbox.unsent, []
        last = [*unsent, *(await calls.make(exchange.end, in_thread=True) if calls.is_large else exchange.end())]
        try:
            await self.recorder.record(exchange.stored_response, last)
        except ApiError as error:
            last = [*unsent, *exchange.end(error)]
        outbox.observers.see(last)
        is_behind = outbox.sink.write(last, last=True)
        failed = exchange.error
        outbox.observers.end(exchange.response, calls.aborted or failed)
        # A journal has to be written, and a client that does not keep up to read.
        if is_behind or not isinstance(outbox.sink, EncodedSink | NoSink):
            end = self._end_by
            await outbox.drain(None if end is None else end + self._equipment.timeouts.heartbeat, exchange.response.id)
        return failed

    def abort(self, error: ApiError) -> None:
        """Ends the response with this error, and gives the engine up."""
        self._steps.abort(error)

    def close(self) -> Coroutine[Any, Any, None] | None:
        """Leaves nothing running. What it returns is still to be awaited: the connection is kept if its body ends soon, and
        tools leave what they have opened."""
        engine, outbox = self._engine, self._outbox
        if outbox.observers.listening:
            self.recorder.given_up(self.response.model, self.reads)
            outbox.observers.drop(self.calls.aborted or self.error)
        if self._end_by is not None:
            self._equipment.deadlines.cancel(self)
        if engine.checks.running is not None:
            engine.checks.cancel()
        outbox.close()
        opening = self._steps.opening
        if opening.task is not None or opening.reply is not None:
            opening.close()
        leaving = engine.body.close()
        return leaving if self._steps.tools is None else self._leave_tools(self._steps.tools, leaving)

    async def _leave_tools(self, tools: ToolCalls, leaving: Coroutine[Any, Any, None] | None) -> None:
        await self._steps.opening.wait()
        await tools.close()
        if leaving is not None:
            await leaving

    async def leave(self) -> None:
        """Leaves nothing running."""
        if (leaving := self.close()) is not None:
            await leaving

    def leave_places(self) -> None:
        """Others may run."""
        self._engine.seat.leave()
        if self.place is not None:
            self.place.leave()

    # ---- what the watch sees -----------------------------------------------------------------------------------------

    @property
    def reads(self) -> int:
        return self._engine.body.reads

    @property
    def is_asking(self) -> bool:
        return isinstance(self._exchange.step, Ask) and not self._engine.seat.waits

    @property
    def is_paused(self) -> bool:
        return self._outbox.flow.is_paused

    def when_looked(self) -> None:
        self.calls.join_pieces()

    def when_quiet(self) -> None:
        # A journal keeps every event; its followers get signs of life by other means.
        if self.streams and not self.in_background:
            self._outbox.add(self.calls.heartbeat())
            self._outbox.flush()

    def when_stalled(self) -> None:
        error = EngineStalled("The engine said nothing for too long.", retry_after=1)
        if not self._exchange.may_give_way:
            self.abort(error)
        elif not self._engine.body.break_off(error):
            # It is still being asked. What asks it has the same patience, and lets another one be asked.
            self._engine.watch.restart()


async def _run_check(equipment: Equipment, seat: EngineSeat, work: CheckWork) -> CheckOutcome:
    return await equipment.run_check(work, seat.owner, patient=seat.patient)


def _partial_run(exchange: Exchange, whole: Steps) -> ResponseRun:
    engine = whole.engine
    return ResponseRun(
        exchange,
        engine.engines,
        NoRecorder(),
        whole.equipment,
        engine.seat,
        observers=whole.outbox.observers.engine_only,
        large=whole.calls.is_large,
        sent_key=engine.sent_key,
        is_part=True,
    )


class RunsInFlight:
    def __init__(self) -> None:
        self._runs: set[ResponseRun] = set()
        self._closing: set[asyncio.Task[None]] = set()
        # Made by the one that waits until nothing runs: mostly nobody does.
        self._idle: asyncio.Event | None = None

    def add(self, run: ResponseRun) -> None:
        self._runs.add(run)
        run.recorder.keep_lock()

    def remove(self, run: ResponseRun) -> None:
        """It has ended: nothing of it is left behind."""
        self._runs.discard(run)
        if self._idle is not None and not self._runs:
            self._idle.set()
        run.leave_places()
        if (closing := run.close()) is not None:
            # In a task of its own: a client that closes right after its last event cancels what is awaited here.
            task = asyncio.create_task(closing)
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    @property
    def runs(self) -> list[ResponseRun]:
        return list(self._runs)

    @property
    def count(self) -> int:
        return len(self._runs)

    def is_busy(self, engine: Engine) -> bool:
        return any(run.engine is engine for run in self._runs)

    async def drain(self, within: float) -> None:
        """Lets runs finish for so many seconds, and ends the others with a proper terminal event."""
        if self._runs:
            if self._idle is None or self._idle.is_set():
                self._idle = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._idle.wait()
        for run in self._runs:
            # Another gateway may take a background response over.
            if not run.in_background:
                run.abort(ShuttingDown())
        if self._closing:
            await asyncio.wait(self._closing)


class Running(Struct, eq=False):
    """`async with` it while the response runs. A class, because a generator takes four times as long."""

    _in_flight: RunsInFlight
    _run: ResponseRun

    async def __aenter__(self) -> None:
        self._in_flight.add(self._run)

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._run.recorder.unlock()
        finally:
            self._in_flight.remove(self._run)
