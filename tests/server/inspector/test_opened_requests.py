"""An opened request shows all three sides: the client, the engine, and what happened between."""

import asyncio
import gc
import threading
from typing import Any

import msgspec
import pytest
from support.engine import MockEngine, Refusal, answer, call, text
from support.gateway import running_gateway
from support.inspector import KEYS, WEATHER, bearing, living_runs, opened, rows

from antiphon.core.recording.rerun import Rerun
from antiphon.server.inspector.views import to_view
from antiphon.server.routes import inspector as routes


async def test_an_opened_request_shows_all_three_sides_of_a_tool_conversation(engine: MockEngine) -> None:
    engine.will(answer(call("weather", '{"city": "Rome"}'), finish="tool_calls"), text("It ", "rains."))
    async with running_gateway(engine) as gateway:
        first = await gateway.stream("Rome?", tools=[WEATHER])
        output = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
        previous = first[-1]["response"]["id"]
        second = await gateway.stream([output], tools=[WEATHER], previous_response_id=previous)
        view = await opened(gateway, 2)
    assert view["client"]["body"]["input"] == [output]
    assert [item["type"] for item in view["history"]] == ["message", "function_call"]
    (ask,) = view["asks"]
    assert ask["chat"] == engine.last
    assert (ask["engine"], ask["purpose"], ask["refused"]) == (engine.url, "answer", None)
    events = [moment["event"] for moment in view["timeline"] if moment["kind"] == "event"]
    assert events == second
    assert view["response"] == second[-1]["response"]
    deltas = [moment for moment in view["timeline"] if moment["type"] == "response.output_text.delta"]
    assert len(deltas) == 2
    for moment in deltas:
        assert msgspec.json.encode(moment["event"]["delta"]).decode() in view["chunks"][moment["chunk"]]["text"]
    assert (view["exact"], view["inexact_reason"]) == (True, None)
    assert (view["changes"]["previous"], view["changes"]["prefix_changed"]) == (1, False)
    assert view["row"]["previous"] == 1
    assert view["row"]["prefix_changed"] is False


async def test_a_request_of_another_protocol_is_shown_as_it_was_read_too(engine: MockEngine) -> None:
    body = {"model": "mock", "max_tokens": 9, "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}
    async with running_gateway(engine) as gateway:
        async with gateway.client.post(gateway.url + "/v1/messages", json=body) as answered:
            assert answered.status == 200
        await gateway.create("Hi")
        read, as_sent = (await opened(gateway, 1))["request"], (await opened(gateway, 2))["request"]
    assert as_sent is None
    assert (read["instructions"], read["input"][0]["role"]) == ("Be brief.", "user")


async def test_a_call_whose_arguments_are_an_object_is_shown(engine: MockEngine) -> None:
    engine.will(answer(call("tool_search", '{"query": "weather"}'), finish="tool_calls"))
    async with running_gateway(engine) as gateway:
        events = await gateway.stream("Find a tool.", tools=[{"type": "tool_search", "execution": "client"}])
        (row,) = await rows(gateway)
        shown = await opened(gateway, row["number"])
    assert events[-1]["response"]["output"][0]["arguments"] == {"query": "weather"}
    assert (row["status"], row["tool_calls"], shown["exact"]) == ("completed", 1, True)


async def test_notices_are_explained(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create("Hi", colour="green")
        (row,) = await rows(gateway)
        view = await opened(gateway, 1)
    assert row["notices"] == 1
    assert view["notices"] == [
        {
            "text": "field colour is unknown and was left out",
            "explanation": "The request has a field that is not part of the Responses API. It had no effect.",
        }
    ]


class SlowViews:
    """The thread in which requests are opened, which goes on when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._to_view = to_view
        monkeypatch.setattr(routes, "to_view", self.to_view)
        self.threads: list[str] = []
        self.begun = asyncio.Event()
        self.may_end = threading.Event()
        self._loop = asyncio.get_running_loop()

    def to_view(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.threads.append(threading.current_thread().name)
        self._loop.call_soon_threadsafe(self.begun.set)
        self.may_end.wait(20)
        return self._to_view(*arguments, **options)


async def test_opened_requests_do_not_delay_the_large_requests_of_others(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        await gateway.post({"model": "mock", "input": "x" * 300_000}, **bearing("ann"))
        views = SlowViews(monkeypatch)
        opening = [asyncio.create_task(opened(gateway, 1, **bearing("ann"))) for _ in range(6)]
        try:
            await views.begun.wait()
            status, _ = await gateway.post({"model": "mock", "input": "y" * 300_000}, **bearing("bob"))
            waiting = len(views.threads)
        finally:
            views.may_end.set()
        shown = await asyncio.gather(*opening)
    assert (status, waiting) == (200, 1)
    assert len(set(views.threads)) == 1
    assert all(view["exact"] for view in shown)


async def test_a_large_request_is_run_again_beside_the_loop(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create("x" * 300_000)
        view = await opened(gateway, 1)
    assert view["exact"] is True
    assert view["asks"][0]["chat"]["messages"][0]["content"] == "x" * 300_000


async def test_items_that_were_referred_to_are_shown_in_their_place(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        first = await gateway.create("Hi")
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        await gateway.create([reference, {"role": "user", "content": "More"}])
        view = await opened(gateway, 2)
    assert view["client"]["body"]["input"][0] == reference
    assert view["asks"][0]["chat"] == engine.last
    assert view["exact"] is True


async def test_a_request_that_failed_does_not_keep_its_run_in_memory(engine: MockEngine) -> None:
    engine.will(*[Refusal(500, {"error": {"message": "Out of memory", "code": 500}})] * 2)
    # Other tests of this process may have left some.
    earlier = {id(run) for run in living_runs()}
    async with running_gateway(engine, retries=0) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"})
        await rows(gateway)
        assert {id(run) for run in living_runs()} <= earlier
        assert (await opened(gateway, 1))["error"]


async def test_opening_a_request_that_was_refused_keeps_nothing_of_it_in_memory(engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "No."}}))
    async with running_gateway(engine) as gateway:
        await gateway.post({"model": "mock", "input": "Hi"})
        await rows(gateway)
        for _ in range(2):
            assert (await opened(gateway, 1))["asks"][0]["refused"]["message"].endswith("No.")
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, Rerun)]


async def test_what_is_forgotten_or_never_was_is_not_found(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create("Hi")
        await rows(gateway)
        for number in ("2", "0", "x", "-1", "9" * 5000):
            assert (await gateway.get(f"/inspector/requests/{number}"))[0] == 404
        async with gateway.client.delete(f"{gateway.url}/inspector/requests") as answered:
            assert answered.status == 204
        assert await rows(gateway) == []
        assert (await gateway.get("/inspector/requests/1"))[0] == 404
        _, status = await gateway.get("/inspector/status")
    assert (status["recording"]["requests"], status["recording"]["bytes"]) == (0, 0)
