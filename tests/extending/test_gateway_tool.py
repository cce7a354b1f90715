"""A tool that the gateway runs: `support.toy_tool` is all that it takes."""

import asyncio
from typing import Any

import pytest
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, running_gateway
from support.streams import check_stream, parse
from support.toy_tool import DICE, Dice

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.runner import ToolContext

ROLLS = answer(call("roll", '{"sides": 6}', id="a"), call("roll", '{"sides": 20}', id="b", index=1), finish="tool_calls")


async def test_one_response_runs_the_tool_and_goes_on(engine: MockEngine) -> None:
    engine.will(ROLLS, text("A six and a twenty."))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [DICE], "stream": True, "store": False}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            response = check_stream(parse(await answered.read()), for_sdk=False)
    assert [item["type"] for item in response["output"]] == ["dice_call", "dice_call", "message"]
    assert [item["result"] for item in response["output"][:2]] == ["6", "20"]
    assert response["usage"]["total_tokens"] == 2 * 17
    assert [message["content"] for message in engine.last["messages"][-2:]] == ["6", "20"]


@pytest.mark.parametrize(
    "choice", [DICE, {"type": "allowed_tools", "mode": "required", "tools": [DICE]}], ids=["named", "allowed"]
)
async def test_a_tool_that_the_gateway_runs_can_be_required(engine: MockEngine, choice: dict[str, Any]) -> None:
    engine.will(ROLLS, text("A six and a twenty."))
    other = {"type": "function", "name": "f"}
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [other, DICE], "tool_choice": choice, "store": False}
        status, response = await gateway.post(body)
        assert (status, response["tool_choice"]) == (200, choice)
        refused, answered = await gateway.post({**body, "tool_choice": {"type": "web_search"}})
    assert [item["type"] for item in response["output"]] == ["dice_call", "dice_call", "message"]
    first, second = engine.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["roll"]
    assert (first["tool_choice"], second["tool_choice"]) == ("required", "auto")
    assert refused == 400
    assert "dice" in answered["error"]["message"], "it says what can be required"


async def test_calls_beyond_max_tool_calls_are_not_run_and_the_model_goes_on(engine: MockEngine) -> None:
    third = answer(call("roll", '{"sides": 4}', id="c"), call("roll", '{"sides": 8}', id="d", index=1), finish="tool_calls")
    engine.will(ROLLS, third, text("Enough."))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [DICE], "max_tool_calls": 3, "store": False}
        _, response = await gateway.post(body)
        assert [item["type"] for item in response["output"]] == [*["dice_call"] * 3, "message"]
        assert gateway.notice == "a call of roll was not run: max_tool_calls allows 3"
    assert "at most 3 such calls" in engine.last["messages"][-1]["content"]
    assert ["tools" in request for request in engine.requests] == [True, True, True]


async def test_calls_that_may_not_be_parallel_follow_one_another(engine: MockEngine) -> None:
    one = answer(call("roll", '{"sides": 4}', id="c"), finish="tool_calls")
    engine.will(ROLLS, one, text("A six and a four."))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [DICE], "parallel_tool_calls": False, "store": False}
        _, response = await gateway.post(body)
        assert [item.get("result") for item in response["output"]] == ["6", "4", None]
        assert "left out: 1 beyond the 1 that may be made, because parallel_tool_calls is false" in gateway.notice


async def test_a_tool_that_fails_does_not_fail_the_response(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Dice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            raise RuntimeError("it fell off the table")

    engine.will(ROLLS, text("Never mind."))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Broken()}, checker=CHECKER)) as gateway:
        status, response = await gateway.post({"model": "mock", "input": "Roll", "tools": [DICE], "store": False})
    assert (status, response["status"]) == (200, "completed")
    assert engine.last["messages"][-1]["content"] == "The tool failed: it fell off the table"
    assert "tool_failed" in caplog.text


async def test_heartbeats_flow_while_a_tool_runs_and_a_client_that_leaves_stops_it(engine: MockEngine) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    class Slow(Dice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            raise AssertionError

    engine.will(ROLLS)
    extensions = Extensions(tools={"dice": Slow()}, checker=CHECKER)
    async with running_gateway(engine, extensions=extensions, heartbeat=0.02, idle_timeout=0.05) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [DICE], "stream": True, "store": False}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            await begun.wait()
            for _ in range(5):
                await answered.content.readuntil(b"event: response.in_progress\n")
        await stopped.wait()
        await gateway.gateway.in_flight.drain(30)
        assert not gateway.gateway.in_flight.is_busy(gateway.gateway.pool.engines[0])
