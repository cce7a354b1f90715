"""Large pieces of an engine's answer are read in a thread: the same events, and nobody else waits for them."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from support.engine import CUT, DONE, USAGE, MockEngine, Writer, call, chunk, text
from support.gateway import GatewayUnderTest

from antiphon.core.items.answer_reader import AnswerReader
from antiphon.core.stream.chat_stream import ChatStream
from antiphon.errors import ApiError
from antiphon.gateway.limits.threads import LARGE_PIECE
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.outbox import EngineFlow
from antiphon.gateway.runs.run import ResponseRun

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}
LARGE_TEXT = "a < b, {c} and [d]\n" * (LARGE_PIECE // 10)
END = chunk(finish="stop") + USAGE + DONE


def document(content: str) -> bytes:
    """The answer of an engine that does not stream."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return msgspec.json.encode({"object": "chat.completion", "choices": [choice]})


def in_small_frames(content: str) -> Callable[[Writer], Any]:
    async def write_all(write: Writer) -> None:
        for at in range(0, len(content), 1000):
            await write(chunk({"content": content[at : at + 1000]}))
        await write(END)

    return write_all


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


class Threads:
    """In which kinds of threads answers are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str, of: type = ChatStream) -> None:
        self.seen: list[str] = []
        for name in names:
            monkeypatch.setattr(of, name, self._watched(getattr(of, name)))

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            self.seen.append(threading.current_thread().name.partition("_")[0])
            return function(*arguments)

        return watched


@pytest.mark.parametrize("streams", [True, False])
async def test_a_large_frame_is_read_beside_the_event_loop(
    streams: bool, gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch, "read_on")
    engine.will(text(LARGE_TEXT, "the end"))
    fields: dict[str, Any] = {"tools": [FUNCTION]}
    response = (await gateway.stream(**fields))[-1]["response"] if streams else await gateway.create(**fields)
    assert text_of(response) == LARGE_TEXT + "the end"
    assert "large-request" in threads.seen


@pytest.mark.parametrize("answer", [document(LARGE_TEXT), in_small_frames(LARGE_TEXT)], ids=["a document", "small frames"])
async def test_the_end_of_an_answer_that_was_buffered_is_read_beside_the_event_loop(
    answer: Any, gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch, "read_on")
    engine.will(answer)
    response = await gateway.create(tools=[FUNCTION])
    assert text_of(response) == LARGE_TEXT
    assert "large-request" in threads.seen


async def test_the_end_of_a_long_call_in_the_text_is_read_beside_the_event_loop(
    gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch, "read_on")
    arguments = '{"a": "' + "word " * (LARGE_PIECE // 4) + '"}'
    engine.will(in_small_frames(f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'))
    response = (await gateway.stream(tools=[FUNCTION]))[-1]["response"]
    assert [item["arguments"] for item in response["output"]] == [arguments]
    assert "large-request" in threads.seen
    # Nearly all of its pieces are read in place.
    assert len(threads.seen) < 10


async def test_a_small_answer_is_read_in_place(
    gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch, "read_on", "close")
    engine.will(text("Hello", " world"), text("Hello", " world"))
    await gateway.create(tools=[FUNCTION])
    await gateway.stream(tools=[FUNCTION])
    assert set(threads.seen) == {"MainThread"}


# ---- while a check runs ----------------------------------------------------------------------------------------------

STRICT = FUNCTION | {
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
# The first call is checked when the second one begins.
CALLS = call("f", '{"city": "Rome"}') + call("f", '{"city": "Oslo"}', id="call_2", index=1)


class HeldChecks:
    """Checks that do not end before they are `released`, once the engine `answers`: the request is checked too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = False
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        run = Checker.run

        async def held(checker: Checker, *arguments: Any, **options: Any) -> Any:
            if self.answers:
                self.begun.set()
                await self.released.wait()
            return await run(checker, *arguments, **options)

        monkeypatch.setattr(Checker, "run", held)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> HeldChecks:
    return HeldChecks(monkeypatch)


async def test_a_large_piece_that_comes_during_a_check_is_read_beside_the_event_loop_after_it(
    checks: HeldChecks, gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, paused, pause = Threads(monkeypatch, "read_on", of=AnswerReader), asyncio.Event(), EngineFlow.pause

    def seen_pause(flow: EngineFlow) -> None:
        pause(flow)
        paused.set()

    async def go_on(write: Writer) -> None:
        checks.answers = True
        await write(CALLS)
        await checks.begun.wait()
        await write(chunk({"content": LARGE_TEXT}))
        await paused.wait()
        checks.released.set()
        await write(END)

    monkeypatch.setattr(EngineFlow, "pause", seen_pause)
    engine.will(go_on)
    response = (await gateway.stream(tools=[STRICT]))[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["function_call", "function_call", "message"]
    assert text_of(response) == LARGE_TEXT
    assert set(threads.seen) == {"large-request"}


async def test_a_response_whose_large_piece_waits_for_a_check_can_be_cancelled(
    checks: HeldChecks, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async def go_on(write: Writer) -> None:
        checks.answers = True
        await write(CALLS)
        await checks.begun.wait()
        await write(chunk({"content": LARGE_TEXT}))
        await asyncio.Event().wait()

    engine.will(go_on)
    created = await gateway.create(background=True, tools=[STRICT])
    await asyncio.wait_for(checks.begun.wait(), 30)
    status, cancelled = await gateway.post({}, f"/v1/responses/{created['id']}/cancel")
    assert (status, cancelled["status"]) == (200, "cancelled")
    await asyncio.wait_for(engine.cancelled.wait(), 30)


# ---- while a thread reads ----------------------------------------------------------------------------------------------


class Gate:
    """Keeps the threads that read from beginning, until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.reached = asyncio.Event()

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(self.reached.set)
        assert self._open.wait(30)


@pytest.fixture
async def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    gate = Gate()
    read_on = AnswerReader.read_on

    def gated(answer: AnswerReader) -> Any:
        gate.wait()
        return read_on(answer)

    monkeypatch.setattr(AnswerReader, "read_on", gated)
    yield gate
    gate.open()


async def test_what_comes_while_a_thread_reads_waits_for_its_turn(
    gate: Gate, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    words = [f"word{at} " for at in range(50)]

    async def go_on(write: Writer) -> None:
        await write(chunk({"content": LARGE_TEXT}))
        await gate.reached.wait()
        for word in words:
            await write(chunk({"content": word}))
        await write(chunk({"content": LARGE_TEXT}) + END)
        gate.open()

    engine.will(go_on)
    response = (await gateway.stream(tools=[FUNCTION]))[-1]["response"]
    assert text_of(response) == LARGE_TEXT + "".join(words) + LARGE_TEXT


async def test_the_pieces_of_one_read_of_the_socket_are_read_in_order(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """They come before the thread has begun."""
    texts = [f"{at} {LARGE_TEXT}" for at in range(20)]
    engine.will(text(*texts), in_small_frames("".join(texts)))
    for _ in range(2):
        response = (await gateway.stream(tools=[FUNCTION]))[-1]["response"]
        assert text_of(response) == "".join(texts)


async def test_an_engine_that_is_lost_while_a_thread_reads_fails_the_response_after_it(
    gate: Gate, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async def be_lost(write: Writer) -> None:
        await write(chunk({"content": LARGE_TEXT}))
        await gate.reached.wait()
        await write(CUT)
        gate.open()

    engine.will(be_lost)
    last = (await gateway.stream(tools=[FUNCTION]))[-1]
    assert last["type"] == "response.failed"
    assert text_of(last["response"]) == LARGE_TEXT


async def test_a_response_that_is_cancelled_while_a_thread_reads_ends_after_it(
    gate: Gate, gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    abort = ResponseRun.abort

    def abort_and_open(run: ResponseRun, error: ApiError) -> None:
        abort(run, error)
        gate.open()

    async def stay_open(write: Writer) -> None:
        await write(chunk({"content": LARGE_TEXT}))
        await asyncio.Event().wait()

    monkeypatch.setattr(ResponseRun, "abort", abort_and_open)
    engine.will(stay_open)
    created = await gateway.create(background=True)
    await asyncio.wait_for(gate.reached.wait(), 30)
    status, cancelled = await gateway.post({}, f"/v1/responses/{created['id']}/cancel")
    assert (status, cancelled["status"]) == (200, "cancelled")
    await asyncio.wait_for(engine.cancelled.wait(), 30)


async def test_a_client_that_leaves_while_a_thread_reads_ends_the_engines_work(
    gate: Gate, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async def stay_open(write: Writer) -> None:
        await write(chunk({"content": LARGE_TEXT}))
        await asyncio.Event().wait()

    engine.will(stay_open)
    body = {"model": "mock", "input": "Hi", "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        assert answered.status == 200
        await asyncio.wait_for(gate.reached.wait(), 30)
    gate.open()
    await asyncio.wait_for(engine.cancelled.wait(), 30)
