"""Tools that the gateway runs, over sockets: the same loop whichever way a response is asked for, and an end to every tool."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import structs
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.sockets import Socket, connected
from support.streams import TERMINAL, check_stream, parse
from support.toy_tool import DICE, KnownDice, known_dice_to_chat
from support.ways_in import left, until

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.prompt.item_types import ITEM_TYPES
from antiphon.core.toolbox.tools import ToolResult
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.tools.runner import ToolContext, ToolRunner

ROLLS = answer(call("roll", '{"sides": 6}', id="a"), call("roll", '{"sides": 20}', id="b", index=1), finish="tool_calls")
ONE = answer(call("roll", '{"sides": 4}', id="c"), finish="tool_calls")
Item = dict[str, Any]
Way = Callable[..., Awaitable[Item]]


@pytest.fixture(autouse=True)
def _converts_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ITEM_TYPES, "mcp_call", structs.replace(ITEM_TYPES["mcp_call"], to_chat=known_dice_to_chat))


def with_tool(tool: ToolRunner) -> Extensions:
    return Extensions(tools={"dice": tool}, checker=CHECKER)


@asynccontextmanager
async def with_dice(engine: MockEngine, tool: ToolRunner | None = None, **options: Any) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, extensions=with_tool(tool or KnownDice()), **options) as gateway:
        yield gateway


# ---- every way in ----------------------------------------------------------------------------------------------------


async def whole(gateway: GatewayUnderTest, **body: Any) -> Item:
    return await gateway.create(tools=[DICE], **body)


async def streamed(gateway: GatewayUnderTest, **fields: Any) -> Item:
    body = msgspec.json.encode({"model": "mock", "input": "Roll", "tools": [DICE], "stream": True, **fields})
    async with gateway.client.post(gateway.url + "/v1/responses", data=body) as answered:
        return check_stream(parse(await answered.read()), for_sdk=False)


async def answered_on(socket: Socket, **body: Any) -> Item:
    await socket.send(**{"input": "Roll", "tools": [DICE], **body})
    events = [await socket.event()]
    while events[-1]["type"] not in TERMINAL:
        events.append(await socket.event())
    return check_stream(events, for_sdk=False)


async def on_socket(gateway: GatewayUnderTest, **body: Any) -> Item:
    async with connected(gateway) as socket:
        return await answered_on(socket, **body)


async def in_background(gateway: GatewayUnderTest, **body: Any) -> Item:
    background = Background(gateway)
    response = await background.made(tools=[DICE], **body)
    assert check_stream(await background.follow(response["id"]), for_sdk=False) == response
    return response


WAYS: dict[str, Way] = {
    "whole": whole,
    "streamed": streamed,
    "on a socket": on_socket,
    "in the background": in_background,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_the_loop_is_the_same_whichever_way_it_is_asked_for(engine: MockEngine, way: Way) -> None:
    engine.will(ROLLS, ONE, text("Thirty."))
    async with with_dice(engine) as gateway:
        response = await way(gateway)
    assert response["status"] == "completed"
    assert [item["type"] for item in response["output"]] == ["mcp_call", "mcp_call", "mcp_call", "message"]
    assert [item.get("output") for item in response["output"]] == ["6", "20", "4", None]
    assert response["usage"]["total_tokens"] == 3 * 17
    assert response["tool_usage"]["web_search"] == {"num_requests": 0}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("in_conversation", [False, True], ids=["previous_response_id", "conversation"])
async def test_a_stored_loop_is_continued_with_the_same_messages(engine: MockEngine, way: Way, in_conversation: bool) -> None:
    engine.will(ROLLS, ONE, text("Thirty."))
    async with with_dice(engine) as gateway:
        fields: Item = {}
        if in_conversation:
            _, conversation = await gateway.post({}, "/v1/conversations")
            fields = {"conversation": conversation["id"]}
        first = await way(gateway, **fields)
        last = engine.last["messages"]
        if not in_conversation:
            fields = {"previous_response_id": first["id"]}
        await way(gateway, input="And now?", **fields)
    continued = engine.last["messages"]
    assert continued[: len(last)] == last
    assert [message["role"] for message in continued[len(last) :]] == ["assistant", "user"]


async def test_one_socket_continues_a_loop_that_was_not_stored(engine: MockEngine) -> None:
    engine.will(ROLLS, text("Twenty-six."))
    async with with_dice(engine) as gateway, connected(gateway) as socket:
        first = await answered_on(socket, store=False)
        last = engine.last["messages"]
        await answered_on(socket, input="And now?", store=False, previous_response_id=first["id"])
    assert engine.last["messages"][: len(last)] == last


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_calls_of_the_client_wait_for_it_while_those_of_the_gateway_have_run(engine: MockEngine, way: Way) -> None:
    both = answer(call("roll", '{"sides": 6}', id="a"), call("f", "{}", id="b", index=1), finish="tool_calls")
    engine.will(both)
    tools = [DICE, {"type": "function", "name": "f"}]
    output = [{"type": "function_call_output", "call_id": "b", "output": "done"}]
    async with with_dice(engine) as gateway:
        if way is in_background:
            first = await Background(gateway).made(tools=tools)
        else:
            first = await gateway.create(tools=tools)
        assert (first["status"], len(engine.requests)) == ("completed", 1)
        assert [item["type"] for item in first["output"]] == ["mcp_call", "function_call"]
        await way(gateway, input=output, previous_response_id=first["id"])
    called, *results = engine.last["messages"][1:]
    assert [each["function"]["name"] for each in called["tool_calls"]] == ["roll", "f"]
    assert [each["content"] for each in results] == ["6", "done"]


async def test_a_large_request_runs_tools_too(engine: MockEngine) -> None:
    """It is converted in a thread, after each round."""
    three = [call("roll", f'{{"sides": {n}}}', id=f"c{n}", index=n) for n in range(3)]
    engine.will(answer(*three, finish="tool_calls"), ONE, text("Seven."))
    async with with_dice(engine) as gateway:
        response = await streamed(gateway, input="tea " * (LARGE_BODY // 4))
    assert [item.get("output") for item in response["output"]] == ["0", "1", "2", "4", None]
    assert len(engine.last["messages"]) == 1 + 4 + 2


# ---- the engine, while tools run --------------------------------------------------------------------------------------


class Waiting(KnownDice):
    """Dice that roll until they may stop."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        self.begun.set()
        await self.go_on.wait()
        return await super().run(call, context)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_others_ask_the_engine_while_a_tool_runs(engine: MockEngine, way: Way) -> None:
    dice = Waiting()
    engine.will(ONE, text("Meanwhile."), text("Four."))
    async with with_dice(engine, dice, engine_requests=1, queue_timeout=0.1) as gateway:
        rolling = asyncio.ensure_future(way(gateway))
        await dice.begun.wait()
        other = await gateway.create()
        dice.go_on.set()
        response = await rolling
    assert [item["content"][0]["text"] for item in other["output"]] == ["Meanwhile."]
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    assert response["status"] == "completed"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_response_whose_tool_has_ended_asks_before_those_that_have_not_begun(engine: MockEngine, way: Way) -> None:
    """And is not refused, however many wait."""
    dice = Waiting()
    engine.will(ONE, text("Four."), text("Last."))
    async with with_dice(engine, dice, engine_requests=1, engine_queue=1) as gateway:
        rolling = asyncio.ensure_future(way(gateway))
        await dice.begun.wait()
        seat = gateway.gateway.admission.engines.seat("another")
        await seat.take(gateway.gateway.pool.engines[0])
        last = asyncio.create_task(gateway.create("Last"))
        await until(lambda: sum(run.waits for run in gateway.gateway.in_flight.runs) == 1)
        dice.go_on.set()
        await until(lambda: sum(run.waits for run in gateway.gateway.in_flight.runs) == 2)
        seat.leave()
        assert (await rolling)["status"] == "completed"
        await last
        await left(gateway)
    assert [request["messages"][-1]["role"] for request in engine.requests] == ["user", "tool", "user"]


# ---- tools that fail, or never end -----------------------------------------------------------------------------------


class Slow(KnownDice):
    """Says that it has begun, and that it was stopped; and whether what it had opened was closed."""

    def __init__(self) -> None:
        self.begun, self.stopped, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        context.resources.callback(self.closed.set)
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert not self.closed.is_set(), "not while it runs"
            self.stopped.set()
        raise AssertionError

    async def ended(self) -> None:
        await self.stopped.wait()
        await self.closed.wait()


async def test_a_call_that_takes_too_long_is_a_failed_one(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS, text("Never mind."))
    async with with_dice(engine, slow, tool_timeout=0.05) as gateway:
        response = await gateway.create(tools=[DICE])
        await slow.ended()
    assert [item.get("status") for item in response["output"]] == ["failed", "failed", "completed"]
    assert engine.last["messages"][-1]["content"] == "The tool had no result after 0.05 seconds, and was stopped."


ERRORS = [
    RuntimeError("it fell"),
    TimeoutError(),
    ExceptionGroup("several", [OSError()]),
    asyncio.CancelledError(),
    BaseExceptionGroup("several", [asyncio.CancelledError()]),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
async def test_whatever_a_tool_raises_the_response_goes_on(engine: MockEngine, error: BaseException) -> None:
    class Broken(KnownDice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            raise error

    engine.will(ROLLS, text("Never mind."))
    async with with_dice(engine, Broken()) as gateway:
        response = await gateway.create(tools=[DICE])
    assert [item.get("status") for item in response["output"]] == ["failed", "failed", "completed"]
    assert engine.last["messages"][-1]["content"].startswith("The tool failed: ")


async def test_a_stream_shows_the_calls_that_failed(engine: MockEngine) -> None:
    class Broken(KnownDice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            return ToolResult("It fell off the table.", failed=True)

    engine.will(ROLLS, text("Never mind."))
    async with with_dice(engine, Broken()) as gateway:
        response = await streamed(gateway)
    assert [item["status"] for item in response["output"]] == ["failed", "failed", "completed"]


async def test_calls_of_one_answer_run_at_the_same_time(engine: MockEngine) -> None:
    class Meeting(KnownDice):
        def __init__(self) -> None:
            self.all_here = asyncio.Barrier(3)

        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            await self.all_here.wait()
            return await super().run(call, context)

    three = [call("roll", f'{{"sides": {n}}}', id=f"c{n}", index=n) for n in range(3)]
    engine.will(answer(*three, finish="tool_calls"), text("Done."))
    async with with_dice(engine, Meeting()) as gateway:
        response = await gateway.create(tools=[DICE])
    assert [item.get("output") for item in response["output"]] == ["0", "1", "2", None]


async def test_a_client_that_leaves_stops_the_tool(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow) as gateway:
        body = {"model": "mock", "input": "Roll", "tools": [DICE], "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body):
            await slow.begun.wait()
        await slow.ended()


async def test_a_socket_that_closes_stops_the_tool(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow) as gateway:
        async with connected(gateway) as socket:
            await socket.send("Roll", tools=[DICE])
            await slow.begun.wait()
        await slow.ended()


async def test_the_time_of_a_response_is_up_while_a_tool_runs(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow, response_timeout=0.2) as gateway:
        body = msgspec.json.encode({"model": "mock", "input": "Roll", "tools": [DICE], "stream": True})
        async with gateway.client.post(gateway.url + "/v1/responses", data=body) as answered:
            response = check_stream(parse(await answered.read()), for_sdk=False)
        await slow.ended()
    assert response["status"] == "failed"
    assert "response_timeout" in response["error"]["message"]
    assert [item["status"] for item in response["output"]] == ["incomplete", "incomplete"]


async def test_a_cancel_stops_the_tool_of_a_background_response(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow) as gateway:
        background = Background(gateway)
        id = (await background.create(tools=[DICE]))["id"]
        await slow.begun.wait()
        assert (await background.cancel(id))["status"] == "cancelled"
        await slow.ended()


async def test_a_shutdown_stops_the_tool(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow, shutdown_timeout=0.05) as gateway:
        body = msgspec.json.encode({"model": "mock", "input": "Roll", "tools": [DICE], "stream": True})
        async with gateway.client.post(gateway.url + "/v1/responses", data=body) as answered:
            await slow.begun.wait()
            await gateway.gateway.in_flight.drain(0)
            response = check_stream(parse(await answered.read()), for_sdk=False)
        assert response["error"]["message"] == "The gateway is shutting down."
        await slow.ended()


async def test_what_tools_have_opened_is_closed_also_if_that_fails(
    engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    closed = asyncio.Event()

    class Leaking(KnownDice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            context.resources.callback(closed.set)

            @context.resources.push_async_callback
            async def fail() -> None:
                raise OSError("the pipe is broken")

            return await super().run(call, context)

    engine.will(ONE, text("Four."))
    async with with_dice(engine, Leaking()) as gateway:
        assert (await gateway.create(tools=[DICE]))["status"] == "completed"
        await closed.wait()
        await gateway.gateway.in_flight.drain(1)
    assert "tool_not_closed" in caplog.text


async def test_a_run_that_never_began_leaves_nothing_open(engine: MockEngine) -> None:
    """Tools may be used before the first answer of an engine."""
    closed = asyncio.Event()
    async with with_dice(engine) as gateway:
        received = await gateway.received({"model": "mock", "input": "Hi", "tools": [DICE]})
        run = await gateway.gateway.begin(received)
        async with gateway.gateway.running(run):
            run._steps._tool_calls().context.resources.callback(closed.set)
            await run.connect()
        await closed.wait()


# ---- signs of life ---------------------------------------------------------------------------------------------------


async def test_a_socket_gets_signs_of_life_while_a_tool_runs(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow, heartbeat=0.02, idle_timeout=0.05) as gateway, connected(gateway) as socket:
        await socket.send("Roll", tools=[DICE])
        await slow.begun.wait()
        seen = 0
        while seen < 5:
            seen += (await socket.event())["type"] == "response.in_progress"


async def test_a_follower_gets_signs_of_life_while_a_tool_runs(engine: MockEngine) -> None:
    slow = Slow()
    engine.will(ROLLS)
    async with with_dice(engine, slow, heartbeat=0.02, poll=0.02) as gateway:
        background = Background(gateway)
        id = (await background.create(tools=[DICE]))["id"]
        await slow.begun.wait()
        async with gateway.client.get(f"{gateway.url}/v1/responses/{id}", params={"stream": "true"}) as followed:
            for _ in range(3):
                await followed.content.readuntil(b": still here\n\n")
        await background.cancel(id)
