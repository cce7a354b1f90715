"""The engine's side of a run: its place at an engine, what it asks there, the watch over the answer, and its body, whose bytes
go to the exchange, and the events to the client, without a task that wakes for each piece."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask
from antiphon.core.items.answer_reader import AnswerReader
from antiphon.engines.affinity import NO_ROUTING, routing_headers
from antiphon.engines.replies import Reply
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.threads import LARGE_PIECE, Backlog
from antiphon.gateway.runs.observers import RunObservers
from antiphon.gateway.runs.outbox import ExchangeCalls, Outbox
from antiphon.gateway.runs.timers import EngineWatch

# ---- The checks of one response, before its engine is asked and while that answers -----------------------------------


class AnswerChecks(Struct, eq=False):
    """An answer is checked while the engine sends more of it, which waits in the exchange."""

    _exchange: Exchange
    _outbox: Outbox
    outcome_of: Callable[[CheckWork], Awaitable[CheckOutcome]]
    # An answer is checked. The outcome is reported to the exchange at any time.
    running: asyncio.Task[None] | None = None

    def start(self, read: asyncio.Future[None]) -> None:
        """`read`: gets its result when the exchange wants no more of the engine's body."""
        self.running = self.running or asyncio.create_task(self._run(read))

    async def wait(self) -> None:
        """Until none runs. What went wrong is raised by others."""
        if self.running is not None:
            await asyncio.wait({self.running})

    def cancel(self) -> None:
        if self.running is not None:
            self.running.cancel()

    async def _run(self, read: asyncio.Future[None]) -> None:
        exchange, outbox = self._exchange, self._outbox
        try:
            while (work := exchange.check) is not None:
                outcome = await self.outcome_of(work)
                outbox.add(exchange.checked(outcome))
                outbox.flush()
            if not exchange.reading and not read.done():
                read.set_result(None)
        except Exception as bug:
            if read.done():
                raise
            read.set_exception(bug)
        finally:
            self.running = None


# ---- The body --------------------------------------------------------------------------------------------------------


class BodyReader:
    """`read()` one reply after another; `leave()` each of them, and `close()` in any case."""

    __slots__ = (
        "_answer",
        "_answer_ended",
        "_calls",
        "_checks",
        "_given_up",
        "_is_open",
        "_outbox",
        "_read",
        "_reader",
        "_reading_aside",
        "reads",
        "reply",
    )

    def __init__(self, answer: AnswerReader, calls: ExchangeCalls, checks: AnswerChecks, outbox: Outbox) -> None:
        answer.read_at_once(LARGE_PIECE)
        self._reader = answer
        # A backlog, while a thread reads.
        self._answer: AnswerReader | Backlog = answer
        self._calls = calls
        self._checks = checks
        self._outbox = outbox
        self.reply: Reply | None = None
        # More is wanted. It says what the future says, and is at hand.
        self._is_open = True
        # Done when no more is wanted. None: no answer has been read yet.
        self._read: asyncio.Future[None] | None = None
        self._reading_aside: asyncio.Task[None] | None = None
        self._answer_ended = False
        self._given_up = False
        # How many pieces the engines have sent.
        self.reads = 0

    async def read(self, reply: Reply) -> ApiError | None:
        """Lets the engine's bytes through until the exchange wants no more. Returns the error that ended them."""
        self.reply = reply
        read = self._read = asyncio.get_running_loop().create_future()
        self._is_open = True
        self._answer_ended = False
        error: ApiError | None = None
        reply.push(self)
        # Not before: what has arrived is taken without a pause.
        self._outbox.flow.begin(reply)
        try:
            await read
        except ApiError as broken:
            error = broken
        finally:
            self._is_open = False
        if self._reading_aside is not None:
            await self._reading_aside
        self._answer_ended = self._reader.ended
        return error

    # ---- what the transport calls ------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """One piece of the engine's body, straight from the socket."""
        if not self._is_open:
            return
        self.reads += 1
        answer, outbox = self._answer, self._outbox
        if outbox.receivers:
            for show in outbox.receivers:
                try:
                    show(data)
                except Exception as bug:
                    outbox.observers.failed(show, bug)
        try:
            continuation = answer.continuation
            if continuation is not None and (event := continuation.take(data)) is not None:
                # What most pieces are: a delta, and nothing else has changed.
                outbox.unsent.append(event)
                batch = outbox.batch
                if not batch.writers:
                    batch.begin()
                batch.writers.append(outbox)
                return
            events = answer.receive_other(data)
        except Exception as error:
            # Nothing may be raised into the parser; the run itself reports what went wrong.
            self._stop(error)
            return
        if outbox.observers.first_output is None:
            self._look_at_progress(outbox.observers, is_all=not events)
        outbox.unsent = outbox.unsent + events if outbox.unsent else events
        if not answer.needs_caller:
            outbox.batch.add(outbox)
        else:
            self._attend_to(answer)

    def _look_at_progress(self, observers: RunObservers, *, is_all: bool) -> None:
        """`is_all`: the engine has sent nothing else."""
        progress = self._reader.progress
        if progress is not None and progress is not observers.progress:
            # The client gets nothing of it: its silence goes on.
            self.reads -= is_all
            observers.read_prompt(progress)

    def ended(self, error: BaseException | None) -> None:
        if self._is_open:
            self._stop(self.reply.error(error) if error is not None and self.reply is not None else None)

    def _stop(self, error: Exception | None = None) -> None:
        """No more is wanted."""
        self._is_open = False
        read = self._read
        # It is done already where something else was the end.
        if read is not None and not read.done():
            if error is None:
                read.set_result(None)
            else:
                read.set_exception(error)

    # ---- what the reader of the answer needs -------------------------------------------------------------------------

    def _attend_to(self, answer: AnswerReader | Backlog) -> None:
        """Does what the reader of the answer needs its caller for."""
        if not answer.reading:
            self._stop()
            return
        self._outbox.batch.add(self._outbox)
        if answer.is_behind:
            # At once: more may come before the task begins.
            backlog = self._answer = Backlog()
            self._reading_aside = asyncio.create_task(self._read_aside(backlog))
        elif self._read is not None:
            self._checks.start(self._read)

    async def _read_aside(self, backlog: Backlog) -> None:
        """Reads a large piece in a thread, after the check that runs. What comes meanwhile waits for that."""
        answer = self._reader
        self._outbox.flow.pause()
        try:
            # A check that runs reports its outcome on the event loop. None begins while this reads.
            await self._checks.wait()
            while answer.is_behind and answer.reading and not self._given_up:
                self._outbox.add(await self._calls.make(answer.read_on, in_thread=True))
                for piece in () if self._given_up else backlog.take():
                    self._outbox.add(answer.receive(piece))
        except Exception as bug:
            if self._read is None or self._read.done():
                raise
            self._stop(bug)
        finally:
            self._answer, self._reading_aside = answer, None
            self._outbox.flow.resume()
        self._outbox.batch.add(self._outbox)
        if answer.needs_caller and not self._given_up:
            self._attend_to(answer)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Ends the engine's work at once. A thread that reads is waited for."""
        self._given_up = True
        if self.reply is not None:
            self.reply.close()
        self._stop()

    def break_off(self, error: ApiError) -> bool:
        """Ends this answer with an error, as if the engine had sent it. False: none is being read."""
        read = self._read
        if self.reply is None or read is None or read.done():
            return False
        read.set_exception(error)
        return True

    def leave(self) -> Coroutine[Any, Any, None] | None:
        """Gives the engine's connection back, or closes it. What it returns is still to be awaited."""
        reply, self.reply = self.reply, None
        if reply is None:
            return None
        self._outbox.flow.end()
        if not self._answer_ended:
            reply.close()
            return None
        return None if reply.release() else reply.finish()

    def close(self) -> Coroutine[Any, Any, None] | None:
        """Leaves nothing running. What it returns is still to be awaited: the connection is kept if its body ends soon."""
        self._is_open = False
        if self._read is not None:
            self._read.cancel()
        if self._reading_aside is not None:
            self._reading_aside.cancel()
        return self.leave()


class EngineSide(Struct, eq=False):
    engines: Sequence[Engine]
    seat: EngineSeat
    body: BodyReader
    checks: AnswerChecks
    watch: EngineWatch
    # By which a router in front of several engines knows the conversation.
    sent_key: str | None
    # By which it is known whether its tools stay in words; None: they cannot come to be.
    conversation: str | None
    # The seat is that of another run, and stays with it.
    is_part: bool

    async def ask(self, step: Ask, observers: RunObservers) -> Reply:
        """Raises what the engine refuses."""
        if self.body.reply is not None and (leaving := self.body.leave()) is not None:
            await leaving
        engine = self.engines[step.engine]
        await self.seat.take(engine, self.engines[step.engine + 1 :])
        observers.ask(step.reason, step.chat, engine.root)
        if step.reason == "next_engine":
            self.watch.restart()
        try:
            return await engine.open_chat(step.chat, NO_ROUTING if self.sent_key is None else routing_headers(self.sent_key))
        except ApiError as error:
            observers.answered(error)
            raise

    async def leave(self) -> None:
        """Until it is asked again: others may ask it while tools run."""
        if (leaving := self.body.leave()) is not None:
            await leaving
        if not self.is_part:
            self.seat.pause()
