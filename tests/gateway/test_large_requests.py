"""Large requests are read and converted in a thread: the same answers, and nobody else waits for them."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, Refusal, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.items import assistant, user

from antiphon.errors import Cancelled
from antiphon.gateway.large_requests import LARGE_BODY, LARGE_HISTORY
from antiphon.gateway.sinks import NoSink

LARGE = [*(each for at in range(300) for each in (user(f"m{at} " + "x" * 200), assistant(f"a{at}"))), user("What now?")]
NO_EFFORT = Refusal(400, {"error": {"message": "reasoning_effort is not supported", "code": 400}})
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
STRICT = {"type": "function", "name": "f", "strict": True, "parameters": SCHEMA}


def large_body(**fields: Any) -> bytes:
    body = msgspec.json.encode({"model": "mock", "input": LARGE, **fields})
    assert len(body) > LARGE_BODY
    return body


async def test_a_large_request_is_sent_as_it_is(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.create(LARGE)
    assert [message["content"] for message in engine.last["messages"]] == [item["content"] for item in LARGE]
    events = await gateway.stream(LARGE)
    assert events[-1]["type"] == "response.completed"


async def test_what_is_wrong_with_a_large_request_is_a_400(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post(large_body(temperature=9))
    assert (status, body["error"]["param"]) == (400, "temperature")
    status, body = await gateway.post(large_body(input=[*LARGE, {"role": "nobody", "content": "x"}]))
    assert (status, body["error"]["param"]) == (400, f"input[{len(LARGE)}].role")


async def test_a_large_request_is_converted_again_after_a_lesson(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(NO_EFFORT, text("Hello"))
    response = await gateway.create(LARGE, reasoning={"effort": "low"})
    assert response["output"][0]["content"][0]["text"] == "Hello"
    first, second = engine.requests
    assert first["reasoning_effort"] != second["reasoning_effort"]
    assert first["messages"] == second["messages"]


async def test_an_answer_to_a_large_request_is_checked_and_asked_for_again(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    wrong, right = (answer(call("f", arguments), finish="tool_calls") for arguments in ('{"b": "x"}', '{"a": 1}'))
    engine.will(wrong, right)
    events = await gateway.stream(LARGE, tools=[STRICT])
    assert events[-1]["response"]["output"][0]["arguments"] == '{"a": 1}'
    assert len(engine.requests) == 2


async def test_a_short_request_with_a_long_history_is_large(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert len(LARGE) >= LARGE_HISTORY
    first = await gateway.create(LARGE)
    await gateway.create("And then?", previous_response_id=first["id"])
    assert len(engine.last["messages"]) == len(LARGE) + 2


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/responses/compact"])
async def test_other_routes_take_large_requests(gateway: GatewayUnderTest, path: str) -> None:
    status, body = await gateway.post(large_body(), path)
    assert status == 200, body


async def test_a_large_response_runs_in_the_background(gateway: GatewayUnderTest) -> None:
    events = await gateway.stream(LARGE, background=True)
    assert events[-1]["type"] == "response.completed"


# ---- while it is converted -----------------------------------------------------------------------------------------------


class Pause:
    """Stops the thread that converts a request, where it reports what was learned of the engine."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()

    def __call__(self, event: str, **members: Any) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.reached.set()
        assert self._go.wait(30)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 30)

    def end(self) -> None:
        self._go.set()


@pytest_asyncio.fixture
async def pausing(engine: MockEngine) -> AsyncIterator[tuple[GatewayUnderTest, Pause]]:
    pause = Pause()
    engine.will(NO_EFFORT)
    async with running_gateway(engine, heartbeat=0.05) as gateway:
        gateway.gateway.environment = replace(gateway.gateway.environment, report=pause)
        try:
            yield gateway, pause
        finally:
            pause.end()


async def test_others_are_answered_while_a_large_request_is_converted(pausing: tuple[GatewayUnderTest, Pause]) -> None:
    gateway, pause = pausing
    large = asyncio.create_task(gateway.stream(LARGE, reasoning={"effort": "low"}))
    await pause.wait()
    assert (await gateway.get("/health"))[0] == 200
    assert (await gateway.create("Hi"))["status"] == "completed"
    pause.end()
    assert (await large)[-1]["type"] == "response.completed"


async def test_a_response_that_is_cancelled_while_it_is_converted_ends_when_that_is_done(
    pausing: tuple[GatewayUnderTest, Pause], engine: MockEngine
) -> None:
    gateway, pause = pausing
    run = await gateway.gateway.begin(large_body(reasoning={"effort": "low"}), "")
    async with gateway.gateway.running(run):
        connecting = asyncio.create_task(run.connect())
        await pause.wait()
        run.abort(Cancelled())
        assert run.error is None
        pause.end()
        with pytest.raises(Cancelled):
            await connecting
    assert isinstance(run.error, Cancelled)
    assert len(engine.requests) == 1


async def test_a_response_that_is_cancelled_while_its_compaction_is_converted_ends_when_that_is_done(
    pausing: tuple[GatewayUnderTest, Pause], engine: MockEngine
) -> None:
    gateway, pause = pausing
    compacts = [{"type": "compaction", "compact_threshold": 1000}]
    run = await gateway.gateway.begin(large_body(reasoning={"effort": "low"}, context_management=compacts), "")
    async with gateway.gateway.running(run):
        await run.connect()
        running = asyncio.create_task(run.run(NoSink()))
        await pause.wait()
        run.abort(Cancelled())
        # The exchange that compacts is in use in the thread.
        assert run.error is None
        pause.end()
        await running
    assert isinstance(run.error, Cancelled)
    assert run.response.status == "cancelled"
    assert len(engine.requests) == 1
