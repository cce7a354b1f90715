"""An observer: it sees the client's request, each chat request, and every event."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.engine import CUT, MockEngine, Refusal, answer, call, chunk, text
from support.gateway import CHECKER, running_gateway
from support.toy_tool import DICE, Dice

from antiphon.app.parts import Extensions
from antiphon.core.events.plain_deltas import AnyEvent, expand
from antiphon.core.exchange.steps import AskReason, ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError, EngineError
from antiphon.gateway.runs.observers import Arrival, Observer, Receiver, RunObservers
from antiphon.tools.runner import ToolContext
from antiphon.wire.chat import ChatRequest
from antiphon.wire.events import Event, OutputTextDelta
from antiphon.wire.responses import CreateResponse, Response


class Notebook(Observer):
    """Writes everything down."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, CreateResponse]] = []
        self.chats: list[tuple[str, ChatRequest]] = []
        self.pieces: list[bytes] = []
        self.seen: list[Event] = []
        self.ends: list[Response | ApiError | None] = []
        # The calls beside those, in order.
        self.marks: list[object] = []

    def request(self, response_id: str, request: CreateResponse) -> None:
        self.requests.append((response_id, request))

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self.chats.append((engine, chat))

    def asks(self, reason: AskReason) -> None:
        self.marks.append(reason)

    def answered(self, error: ApiError | None) -> None:
        self.marks.append(error and type(error))

    def first_output(self) -> None:
        self.marks.append("output")

    def receiver(self) -> Receiver:
        return self.pieces.append

    def events(self, events: Sequence[AnyEvent]) -> None:
        self.seen += map(expand, events)

    def ended(self, response: Response) -> None:
        self.ends.append(response)

    def dropped(self, error: ApiError | None) -> None:
        self.ends.append(error)


async def test_an_observer_sees_the_request_the_chat_request_and_the_events(engine: MockEngine) -> None:
    engine.will(text("Hel", "lo"))
    notebook = Notebook()
    async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: notebook])) as gateway:
        events = await gateway.stream("Hi", instructions="Be kind.")
    ((response_id, request),) = notebook.requests
    assert (response_id, request.instructions) == (events[-1]["response"]["id"], "Be kind.")
    ((url, chat),) = notebook.chats
    assert url == engine.url
    assert [message.content for message in chat.messages] == ["Be kind.", "Hi"]
    assert [event.sequence_number for event in notebook.seen] == [event["sequence_number"] for event in events]
    assert [event.delta for event in notebook.seen if isinstance(event, OutputTextDelta)] == ["Hel", "lo"]


async def test_it_sees_an_answer_that_is_not_streamed_as_events_too(engine: MockEngine) -> None:
    notebook = Notebook()
    async with running_gateway(
        engine, extensions=Extensions(observers=[lambda arrival: None, lambda arrival: notebook])
    ) as gateway:
        await gateway.create("Hi")
    assert type(notebook.seen[-1]).__struct_config__.tag == "response.completed"


async def test_it_sees_the_engines_bytes_and_the_response_at_its_end(engine: MockEngine) -> None:
    engine.will(text("Hel", "lo"))
    notebook = Notebook()
    async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: notebook])) as gateway:
        events = await gateway.stream("Hi")
    assert b"".join(notebook.pieces).endswith(b"data: [DONE]\n\n")
    (response,) = notebook.ends
    assert isinstance(response, Response)
    assert (response.id, response.status) == (events[-1]["response"]["id"], "completed")


async def test_it_sees_a_request_that_is_refused(engine: MockEngine) -> None:
    arrivals: list[Arrival] = []
    notebook = Notebook()

    def make(arrival: Arrival) -> Observer:
        arrivals.append(arrival)
        return notebook

    async with running_gateway(engine, extensions=Extensions(observers=[make])) as gateway:
        status, _ = await gateway.post({"model": "mock", "input": 7})
    assert status == 400
    (arrival,) = arrivals
    assert (json.loads(arrival.body)["input"], arrival.channel) == (7, "http")
    (error,) = notebook.ends
    assert isinstance(error, ApiError)
    assert error.param == "input"
    assert not notebook.requests


async def test_it_sees_that_a_client_went_away(engine: MockEngine) -> None:
    gone = asyncio.Event()

    async def slow(write: Any) -> None:
        await write(text("Hello")[:200])
        await gone.wait()

    class Waiting(Notebook):
        def dropped(self, error: ApiError | None) -> None:
            super().dropped(error)
            gone.set()

    notebook = Waiting()
    engine.will(slow)
    async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: notebook])) as gateway:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(f"{gateway.url}/v1/responses", json=body) as answer:
            await answer.content.readuntil(b"response.in_progress")
            answer.close()
        await gone.wait()
    assert notebook.ends == [None]


async def test_it_sees_why_an_engine_is_asked_when_output_begins_and_when_each_answer_ends(engine: MockEngine) -> None:
    engine.will(text("Sorry."), answer(call("add", "{}"), finish="tool_calls"), Refusal(400, {"error": {"message": "no"}}))
    notebook = Notebook()
    add = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": False}
    async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: notebook])) as gateway:
        await gateway.create("Hi", tools=[add], tool_choice="required")
        # What is written may wait for the end of what was read.
        assert notebook.marks[:3] == ["first", None, "repair"]
        assert set(notebook.marks[3:]) == {"output", None}
        notebook.marks.clear()
        await gateway.post({"model": "mock", "input": "Hi"})
    first, error = notebook.marks
    assert first == "first"
    assert isinstance(error, type)
    assert issubclass(error, ApiError)


async def test_it_sees_that_an_answer_was_cut_off(engine: MockEngine) -> None:
    async def cut(write: Any) -> None:
        await write(chunk({"content": "half"}))
        await write(CUT)

    engine.will(cut)
    notebook = Notebook()
    async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: notebook])) as gateway:
        await gateway.stream("Hi")
    assert notebook.marks[0] == "first"
    (error,) = (mark for mark in notebook.marks if isinstance(mark, type))
    assert issubclass(error, EngineError)


async def test_who_does_not_override_a_call_for_every_delta_is_not_called(engine: MockEngine) -> None:
    class Marks(Observer):
        marks = 0

        def first_output(self) -> None:
            self.marks += 1

    marks = Marks()
    engine.will(text(*"Hello"))
    calls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Observer, "receiver", lambda self: calls.append("receiver"))
        patch.setattr(Observer, "events", lambda self, events: calls.append("events"))
        async with running_gateway(engine, extensions=Extensions(observers=[lambda arrival: marks])) as gateway:
            await gateway.stream("Hi")
    assert (marks.marks, calls) == (1, [])


def broken_at(name: str) -> Observer:
    def fail(*arguments: object) -> None:
        raise RuntimeError(name)

    broken: Observer = type("Broken", (Observer,), {name: fail})()
    return broken


CALLS = [name for name, method in vars(Observer).items() if callable(method) and not name.startswith("_")]


@pytest.mark.parametrize("at", CALLS)
async def test_an_observer_that_raises_does_no_harm(engine: MockEngine, at: str, caplog: pytest.LogCaptureFixture) -> None:
    notebook = Notebook()
    observers = [lambda arrival: broken_at(at), lambda arrival: notebook]
    report = chunk({"role": "assistant", "content": None}, prompt_progress={"total": 2, "processed": 1})
    engine.will(report + answer(call("roll", '{"sides": 6}'), finish="tool_calls"), text("A six."), text("Passed on"))
    extensions = Extensions(tools={"dice": Dice()}, checker=CHECKER, observers=observers)
    async with running_gateway(engine, extensions=extensions) as gateway:
        _, response = await gateway.post({"model": "mock", "input": "Roll", "tools": [DICE]})
        assert (response["status"], response["output"][0]["result"]) == ("completed", "6")
        assert (await gateway.post({"model": "mock", "input": 7}))[0] == 400
        passed = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        async with gateway.client.post(f"{gateway.url}/v1/chat/completions", json=passed) as answered:
            assert await answered.read() == text("Passed on")
    assert [type(end).__name__ for end in notebook.ends] == ["Response", "InvalidRequest"]
    assert "bug" in caplog.text


async def test_one_that_cannot_be_made_does_no_harm(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    def make(arrival: Arrival) -> Observer:
        raise RuntimeError

    async with running_gateway(engine, extensions=Extensions(observers=[make])) as gateway:
        assert (await gateway.create("Hi"))["status"] == "completed"
    assert "bug" in caplog.text


# ---- tools that the gateway runs -------------------------------------------------------------------------------------


class ToolBook(Observer):
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str | None]] = []

    def tool_started(self, call: ToolCall) -> None:
        self.lines.append(("started", call.name, None))

    def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
        self.lines.append(("ended", call.name, None if result is None else result.output))


async def test_it_sees_the_calls_of_tools_that_the_gateway_runs(engine: MockEngine) -> None:
    book = ToolBook()
    engine.will(answer(call("roll", '{"sides": 6}'), finish="tool_calls"), text("A six."))
    extensions = Extensions(tools={"dice": Dice()}, checker=CHECKER, observers=[lambda arrival: book])
    async with running_gateway(engine, extensions=extensions) as gateway:
        await gateway.post({"model": "mock", "input": "Roll", "tools": [DICE], "store": False})
    assert book.lines == [("started", "roll", None), ("ended", "roll", "6")]


async def test_it_sees_the_end_of_a_call_that_is_stopped(engine: MockEngine) -> None:
    """Once, and before the end of the response."""
    begun = asyncio.Event()
    marks: list[str] = []

    class Slow(Dice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

    class Marks(ToolBook):
        def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
            marks.append("stopped" if result is None else "ended")

        def dropped(self, error: ApiError | None) -> None:
            marks.append("dropped")

    engine.will(answer(call("roll", '{"sides": 6}'), finish="tool_calls"))
    extensions = Extensions(tools={"dice": Slow()}, checker=CHECKER, observers=[lambda arrival: Marks()])
    async with running_gateway(engine, extensions=extensions) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [DICE], "stream": True, "store": False}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body):
            await begun.wait()
        await gateway.gateway.in_flight.drain(30)
    assert marks == ["stopped", "dropped"]


async def test_a_call_that_still_runs_at_the_end_has_ended_for_observers() -> None:
    """A client may leave before the first event, while a call runs that it has approved."""

    class Marks(ToolBook):
        def dropped(self, error: ApiError | None) -> None:
            self.lines.append(("dropped", "", None))

    marks = Marks()
    observers = RunObservers([marks])
    running: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
    roll = ToolCall("c", "dice", "roll", None, "{}")
    watching = asyncio.create_task(observers.watch_tool(roll, lambda call: running))
    await asyncio.sleep(0)
    observers.drop(None)
    running.set_result(ToolResult("6"))
    assert (await watching).output == "6"
    assert marks.lines == [("started", "roll", None), ("ended", "roll", None), ("dropped", "", None)]


@pytest.mark.parametrize("wants", [False, True])
async def test_who_does_not_look_at_passed_requests_is_not_made_for_them(engine: MockEngine, wants: bool) -> None:
    seen: list[str] = []

    class Notes(Observer):
        def __init__(self, arrival: Arrival) -> None:
            seen.append(arrival.path)

        def ended(self, response: Response) -> None: ...

    class PassedNotes(Notes):
        def passed_on(self, model: str | None, engine: str, status: int) -> None:
            seen.append(str(status))

    async with running_gateway(engine, extensions=Extensions(observers=[PassedNotes if wants else Notes])) as gateway:
        engine.will(text("Hi"))
        body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as answer:
            await answer.read()
    assert seen == (["/v1/chat/completions", "200"] if wants else [])
