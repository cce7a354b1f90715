"""A run: who may pause its engine, and what an abort does at awkward moments. The engine is scripted: its answer is at hand."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import structs
from support.engine import DONE, USAGE, call, chunk
from support.exchanges import REQUEST, make_environment

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.items.answer_reader import AnswerReader
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.errors import ApiError, EngineError, OutOfTime
from antiphon.gateway.limits.threads import LARGE_PIECE
from antiphon.gateway.runs.observers import Observer
from antiphon.gateway.runs.run import ResponseRun
from antiphon.gateway.runs.steps import Equipment
from antiphon.gateway.runs.timers import Timeouts
from antiphon.gateway.state.recorder import NoRecorder
from antiphon.transport.interfaces import Receiver, WriteBatch
from antiphon.wire.responses import Response

LARGE = chunk({"content": "a < b, {c}\n" * (LARGE_PIECE // 5)})
END = chunk(finish="stop") + USAGE + DONE
PATIENT = Timeouts(100.0, 100.0, 100.0)


class ScriptedReply:
    def __init__(self) -> None:
        self.receiver: asyncio.Future[Receiver] = asyncio.get_running_loop().create_future()
        self.is_paused = False
        self.is_closed = False

    def push(self, receiver: Receiver) -> None:
        self.receiver.set_result(receiver)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def release(self) -> bool:
        return True


class ScriptedEngine:
    root = "http://engine"

    def __init__(self) -> None:
        self.replies = [ScriptedReply(), ScriptedReply()]
        self.asked = 0
        self.when_asked: Callable[[], object] = lambda: None
        # The replies come at once.
        self.answers = True

    async def open_chat(self, chat: object, headers: object) -> ScriptedReply:
        self.asked += 1
        if not self.answers:
            await asyncio.Event().wait()
        self.when_asked()
        return self.replies[self.asked - 1]


class FreeSeat:
    owner = "somebody"
    patient = False
    waits = False

    async def take(self, engine: object, others: Sequence[object] = ()) -> None: ...
    def pause(self) -> None: ...

    def leave(self) -> None: ...


class SlowClient:
    """Does not read, until it is told to."""

    def __init__(self) -> None:
        self.written: list[AnyEvent] = []
        self.is_full = True
        self.reads = asyncio.Event()

    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        self.written += events
        return self.is_full

    async def drain(self) -> None:
        await self.reads.wait()


class Notebook(Observer):
    def __init__(self) -> None:
        self.calls: list[object] = []

    def asks(self, reason: str) -> None:
        self.calls.append(reason)

    def answered(self, error: ApiError | None) -> None:
        self.calls.append(error)

    def ended(self, response: Response) -> None:
        self.calls.append(response.status)

    def dropped(self, error: ApiError | None) -> None:
        self.calls.append(("dropped", error))


class Running:
    """A run that has been begun."""

    def __init__(self, timeouts: Timeouts = PATIENT, **fields: Any) -> None:
        self.engine = ScriptedEngine()
        self.client = SlowClient()
        self.notebook = Notebook()
        exchange = Exchange(structs.replace(REQUEST, stream=True, **fields), [EngineKnowledge(PLAIN)], make_environment())
        equipment: Any = Equipment(timeouts, WriteBatch(), None, {})  # type: ignore[arg-type]
        engines: Any = [self.engine]
        seat: Any = FreeSeat()
        self.run = ResponseRun(exchange, engines, NoRecorder(), equipment, seat, observers=[self.notebook])
        self.task: asyncio.Task[ApiError | None] | None = None

    def begin(self) -> None:
        self.task = asyncio.create_task(self.run.run(self.client))

    async def receiver(self, answer: int = 0) -> Receiver:
        return await asyncio.wait_for(asyncio.shield(self.engine.replies[answer].receiver), 30)

    async def end(self) -> None:
        self.client.reads.set()
        assert self.task is not None
        await asyncio.wait_for(self.task, 30)


@pytest.fixture
async def gate(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[asyncio.Event, threading.Event]]:
    """Set by a thread that begins to read; and what it waits for."""
    loop, reached, opened = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    read_on = AnswerReader.read_on

    def gated(answer: AnswerReader) -> Any:
        if threading.current_thread() is not threading.main_thread():
            loop.call_soon_threadsafe(reached.set)
            assert opened.wait(30)
        return read_on(answer)

    monkeypatch.setattr(AnswerReader, "read_on", gated)
    yield reached, opened
    opened.set()


@pytest.fixture
def late() -> OutOfTime:
    """One for each test: an error that was raised keeps its run in memory."""
    return OutOfTime("It took too long.")


async def turns(count: int = 5) -> None:
    """Lets everything run that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


# ---- who pauses the engine -------------------------------------------------------------------------------------------


async def test_an_engine_stays_paused_for_the_thread_that_reads_when_its_client_has_read(gate: Any) -> None:
    reached, opened = gate
    running = Running()
    running.begin()
    receiver, reply = await running.receiver(), running.engine.replies[0]
    receiver.receive(chunk({"content": "Hello"}))
    await turns()
    assert reply.is_paused
    receiver.receive(LARGE)
    await asyncio.wait_for(reached.wait(), 30)
    running.client.is_full = False
    running.client.reads.set()
    await turns()
    assert reply.is_paused, "a thread still reads"
    opened.set()
    receiver.receive(END)
    await running.end()
    assert not reply.is_paused


async def test_an_engine_stays_paused_for_its_client_when_the_thread_has_read(gate: Any) -> None:
    _, opened = gate
    opened.set()
    running = Running()
    running.begin()
    receiver, reply = await running.receiver(), running.engine.replies[0]
    receiver.receive(LARGE)
    while len(running.client.written) < 5:
        await asyncio.sleep(0)
    await turns()
    assert reply.is_paused
    running.client.reads.set()
    await turns()
    assert not reply.is_paused
    receiver.receive(END)
    await running.end()


async def test_a_client_that_does_not_read_pauses_the_next_answer_too() -> None:
    add = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": False}
    running = Running(tools=[add], tool_choice="required")
    running.begin()
    receiver = await running.receiver()
    receiver.receive(chunk({"content": "Sorry."}))
    await turns()
    receiver.receive(END)
    second = await running.receiver(1)
    await turns()
    assert running.engine.replies[1].is_paused
    running.client.reads.set()
    await turns()
    assert not running.engine.replies[1].is_paused
    second.receive(call("add", "{}") + chunk(finish="tool_calls") + USAGE + DONE)
    await running.end()
    assert running.run.error is None


async def test_an_engine_that_is_paused_for_a_thread_is_not_given_up(gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, opened = gate
    running = Running(Timeouts(heartbeat=0.01, first_byte=100.0, idle=0.02))
    running.client.is_full = False
    running.begin()
    receiver = await running.receiver()
    receiver.receive(LARGE)
    await asyncio.wait_for(reached.wait(), 30)
    for _ in range(10):
        # Longer than an engine may be silent.
        looked = asyncio.Event()
        monkeypatch.setattr(ResponseRun, "when_looked", lambda _, looked=looked: looked.set())
        await asyncio.wait_for(looked.wait(), 30)
    opened.set()
    receiver.receive(END)
    await running.end()
    assert running.run.error is None


# ---- an abort --------------------------------------------------------------------------------------------------------


async def test_an_answer_that_begins_as_the_response_is_aborted_is_not_read(late: OutOfTime) -> None:
    running = Running()
    # The answer is there, and the run has not seen it yet.
    running.engine.when_asked = partial(running.run.abort, late)
    running.begin()
    await running.end()
    assert running.run.error is late
    assert running.engine.replies[0].is_closed
    assert not running.engine.replies[0].receiver.done()


async def test_an_abort_while_a_thread_reads_ends_the_response_after_it(gate: Any, late: OutOfTime) -> None:
    reached, opened = gate
    running = Running()
    running.client.is_full = False
    running.begin()
    receiver = await running.receiver()
    receiver.receive(LARGE)
    await asyncio.wait_for(reached.wait(), 30)
    running.run.abort(late)
    running.run.abort(EngineError("Another one."))
    assert running.engine.replies[0].is_closed
    receiver.receive(chunk({"content": "more"}))
    opened.set()
    await running.end()
    assert running.run.error is late
    numbers = [event.sequence_number for event in running.client.written]
    assert numbers == list(range(len(numbers)))
    assert running.notebook.calls == ["first", late, "failed"]


# ---- observers -------------------------------------------------------------------------------------------------------


async def test_observers_see_that_an_engine_was_given_up_before_it_answered(late: OutOfTime) -> None:
    running = Running()
    running.engine.answers = False
    running.begin()
    while not running.engine.asked:
        await asyncio.sleep(0)
    running.run.abort(late)
    await running.end()
    running.run.close()
    assert running.notebook.calls == ["first", late, "failed"]


async def test_observers_see_it_of_a_request_that_gets_no_response(late: OutOfTime) -> None:
    running = Running()
    running.engine.answers = False
    connecting = asyncio.create_task(running.run.connect())
    while not running.engine.asked:
        await asyncio.sleep(0)
    running.run.abort(late)
    with pytest.raises(OutOfTime):
        await connecting
    running.run.close()
    assert running.notebook.calls == ["first", late, ("dropped", late)]
