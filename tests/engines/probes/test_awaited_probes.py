"""Requests with tools wait for the probe that shows whether the model sees them: every turn of a conversation has one form."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from support.background import Background
from support.engine import Answer, Body, MockEngine, Refusal, Writer
from support.gateway import GatewayUnderTest, running_gateway, started
from support.reading_model import Shape, counts_messages
from support.streams import parse

from antiphon.app.options import Intervals
from antiphon.core.exchange.steps import AwaitProbe
from antiphon.engines.probes.examiner import Examiner, ProbeTimes, ProbeWaiters
from antiphon.engines.probes.questions import FOR_CODE_WORD
from antiphon.engines.upstream import Engine
from antiphon.gateway.runs.status import running_status
from antiphon.transport import make_session

GATE: dict[str, Any] = {
    "type": "function",
    "name": "open_gate",
    "description": "Opens the gate. The gate code is 4711-b.",
    "parameters": {"type": "object", "properties": {"gate_code": {"type": "string"}}, "required": ["gate_code"]},
}
OPEN = "Open the gate with the gate code."
# So long that nothing in a test depends on it.
NEVER = 3600.0
# Nobody waits at all.
IMPATIENT = Intervals(probes=ProbeTimes(tools=0))


class Probed:
    """A gateway whose engine does not answer the probe of tools before it may."""

    def __init__(self, gateway: GatewayUnderTest, mock: MockEngine, asked: asyncio.Event, go_on: asyncio.Event) -> None:
        self.gateway = gateway
        self.mock = mock
        self.asked = asked
        self.go_on = go_on

    @property
    def sent(self) -> list[Body]:
        """What clients have asked the engine."""
        return [body for body in self.mock.requests if "gate" in str(body["messages"]) or "Hi" in str(body["messages"])]

    async def waiting(self, count: int) -> None:
        """Until so many responses wait for the probe."""
        while sum(isinstance(run.step, AwaitProbe) for run in self.gateway.gateway.in_flight.runs) != count:  # noqa: ASYNC110
            await asyncio.sleep(0)


def is_native(body: Body) -> bool:
    return "tools" in body and GATE["description"] not in str(body["messages"])


def is_in_words(body: Body) -> bool:
    return "tools" not in body and GATE["description"] in str(body["messages"])


@asynccontextmanager
async def probed_later(**settings: Any) -> AsyncIterator[Probed]:
    mock, asked, go_on = Shape().engine(counts_messages), asyncio.Event(), asyncio.Event()
    sound = mock.otherwise

    def answers(body: Body) -> Answer:
        async def waiting(write: Writer) -> None:
            asked.set()
            await go_on.wait()
            stream = sound(body)
            assert isinstance(stream, bytes)
            await write(stream)

        return waiting if body["messages"] == FOR_CODE_WORD else sound(body)

    mock.otherwise = answers
    async with started(mock), running_gateway(mock, probe=True, **settings) as gateway:
        try:
            yield Probed(gateway, mock, asked, go_on)
        finally:
            go_on.set()
            await gateway.probed()


# ---- waiting ---------------------------------------------------------------------------------------------------------


async def test_the_first_request_with_tools_has_the_form_of_the_later_ones() -> None:
    async with probed_later() as probed:
        await probed.asked.wait()
        first = asyncio.create_task(probed.gateway.create(OPEN, tools=[GATE]))
        await probed.waiting(1)
        assert probed.sent == []
        probed.go_on.set()
        assert (await first)["output"][0]["type"] == "function_call"
        await probed.gateway.create(OPEN, tools=[GATE])
    before, later = probed.sent
    assert is_native(before)
    assert before == later


async def test_a_request_without_tools_does_not_wait() -> None:
    async with probed_later() as probed:
        await probed.asked.wait()
        await probed.gateway.create("Hi")
        assert len(probed.sent) == 1
        assert not probed.go_on.is_set()


async def test_a_request_without_tools_waits_if_its_history_has_calls() -> None:
    called = {"type": "function_call", "call_id": "c", "name": "open_gate", "arguments": "{}"}
    history = [{"role": "user", "content": OPEN}, called, {"type": "function_call_output", "call_id": "c", "output": "Open."}]
    async with probed_later() as probed:
        await probed.asked.wait()
        response = asyncio.create_task(probed.gateway.create([*history, {"role": "user", "content": "Hi"}]))
        await probed.waiting(1)
        probed.go_on.set()
        await response
        assert [message["role"] for message in probed.sent[0]["messages"]] == ["user", "assistant", "tool", "user"]


async def test_all_wait_for_one_probe() -> None:
    async with probed_later() as probed:
        await probed.asked.wait()
        responses = [asyncio.create_task(probed.gateway.create(OPEN, tools=[GATE])) for _ in range(5)]
        await probed.waiting(5)
        probed.go_on.set()
        await asyncio.gather(*responses)
        assert sum(body["messages"] == FOR_CODE_WORD for body in probed.mock.requests) == 1
    assert [is_native(body) for body in probed.sent] == [True] * 5


async def test_a_probe_that_somebody_waits_for_does_not_wait_for_an_idle_engine() -> None:
    """The requests that wait make the engine seem busy, and so do others."""
    mock = Shape().engine(counts_messages)
    examiner = Examiner(lambda engine: True, times=ProbeTimes(idle_check=NEVER, longest_wait=NEVER, tools=NEVER))
    async with started(mock), make_session() as session:
        engine = Engine(mock.url, session)
        examiner.examine(engine)
        await engine.identify()
        for _ in range(20):
            await asyncio.sleep(0)
        assert mock.requests == []
        waiting = examiner.offered_tools(engine, "mock")
        assert waiting is not None
        await waiting
        assert not engine.knowledge.assumes("mock")
        assert engine.knowledge.dialect_for("mock").shows_tools
        await examiner.close()


async def test_a_stream_begins_after_one_heartbeat_and_shows_signs_of_life_while_it_waits() -> None:
    async with probed_later(heartbeat=0.01) as probed:
        await probed.asked.wait()
        body = msgspec.json.encode({"model": "mock", "input": OPEN, "tools": [GATE], "stream": True})
        async with probed.gateway.client.post(probed.gateway.url + "/v1/responses", data=body) as answer:
            received = b""
            while received.count(b"event: response.in_progress") < 3:
                received += await answer.content.readany()
            assert probed.sent == []
            probed.go_on.set()
            received += await answer.read()
        events = parse(received)
    assert events[0]["type"] == "response.created"
    assert events[-1]["response"]["output"][0]["type"] == "function_call"
    assert is_native(probed.sent[0])


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_and_keeps_nobody_from_waiting() -> None:
    async with probed_later() as probed:
        await probed.asked.wait()
        leaving = asyncio.create_task(probed.gateway.create(OPEN, tools=[GATE]))
        staying = asyncio.create_task(probed.gateway.create("Hi, " + OPEN, tools=[GATE]))
        await probed.waiting(2)
        leaving.cancel()
        await probed.waiting(1)
        while probed.gateway.gateway.in_flight.count > 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        probed.go_on.set()
        await staying
    assert len(probed.sent) == 1
    assert is_native(probed.sent[0])


async def test_a_background_response_waits_too_and_can_be_cancelled_meanwhile() -> None:
    async with probed_later() as probed:
        await probed.asked.wait()
        background = Background(probed.gateway)
        cancelled, kept = [await background.create(OPEN, tools=[GATE]) for _ in range(2)]
        await probed.waiting(2)
        assert (await background.cancel(cancelled["id"]))["status"] == "cancelled"
        await probed.waiting(1)
        probed.go_on.set()
        assert (await background.ended(kept["id"]))["output"][0]["type"] == "function_call"
    assert [is_native(body) for body in probed.sent] == [True]


async def test_the_status_says_what_a_response_waits_for() -> None:
    async with probed_later() as probed:
        await probed.asked.wait()
        response = asyncio.create_task(probed.gateway.create(OPEN, tools=[GATE]))
        await probed.waiting(1)
        assert [each["state"] for each in running_status(probed.gateway.gateway, None)] == ["waiting for the probe of tools"]
        probed.go_on.set()
        await response


async def test_nobody_waits_for_a_probe_that_has_no_answer() -> None:
    """It is repeated after a while."""
    mock = Shape().engine(counts_messages)
    mock.otherwise = lambda body: Refusal(503, {"error": {"message": "loading"}}, {"x-should-retry": "false"})
    intervals = Intervals(probes=ProbeTimes(tools=NEVER, retry=NEVER))
    async with started(mock), running_gateway(mock, probe=True, intervals=intervals, retries=0) as gateway:
        status, _ = await gateway.post({"model": "mock", "input": OPEN, "tools": [GATE]})
    assert status == 503


async def test_the_tools_of_all_models_are_probed_before_anything_else() -> None:
    mock = Shape().engine(counts_messages)
    mock.lists("one", "two")
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
    questions = [at for at, body in enumerate(mock.requests) if body["messages"] == FOR_CODE_WORD]
    others = [at for at, body in enumerate(mock.requests) if "response_format" in body]
    assert [mock.requests[at]["model"] for at in questions] == ["one", "two"]
    assert questions[-1] < min(others)


async def test_together_requests_wait_no_longer_than_the_first_of_them_may() -> None:
    waiters = ProbeWaiters(["a", "b"], patience=0.01)
    first = waiters.wait_for("a")
    assert first is not None
    await first
    assert waiters.wait_for("a") is None, "and nobody waits again"
    other = waiters.wait_for("b")
    assert other is not None
    waiters.end("b")
    await other
    assert waiters.wait_for("b") is None
    assert waiters.wait_for("unknown") is None


# ---- a conversation that could not wait ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stored", [True, False], ids=["continued by its id", "sent whole each time"])
async def test_a_conversation_keeps_the_form_that_it_began_with(is_stored: bool) -> None:
    async with probed_later(intervals=IMPATIENT) as probed:
        gateway = probed.gateway
        await probed.asked.wait()
        items: list[dict[str, Any]] = [{"role": "user", "content": OPEN}]
        first = await gateway.create(items, tools=[GATE], prompt_cache_key="all of mine")
        probed.go_on.set()
        await gateway.probed()
        (engine,) = gateway.gateway.pool.engines
        assert engine.knowledge.dialect_for("mock").shows_tools
        more: list[dict[str, Any]] = [{"role": "user", "content": "Hi again."}]
        before = {"previous_response_id": first["id"]} if is_stored else {}
        again = more if is_stored else [*items, *first["output"], *more]
        await gateway.create(again, tools=[GATE], prompt_cache_key="all of mine", **before)
        new = [{"role": "user", "content": "Another day. " + OPEN}]
        await gateway.create(new, tools=[GATE], prompt_cache_key="all of mine")
    began, continued, other = probed.sent
    assert is_in_words(began)
    assert is_in_words(continued)
    assert continued["messages"][: len(began["messages"])] == began["messages"], "the prompt has only grown"
    assert is_native(other), "a new conversation has the form that is known by now"


async def test_a_new_conversation_that_begins_with_the_same_words_has_the_form_that_is_known_by_now() -> None:
    async with probed_later(intervals=IMPATIENT) as probed:
        gateway = probed.gateway
        await probed.asked.wait()
        await gateway.create(OPEN, tools=[GATE])
        probed.go_on.set()
        await gateway.probed()
        first = await gateway.create(OPEN, tools=[GATE])
        result = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "It is open."}
        await gateway.create([result], tools=[GATE], previous_response_id=first["id"])
    assert [is_native(body) for body in probed.sent] == [False, True, True]
