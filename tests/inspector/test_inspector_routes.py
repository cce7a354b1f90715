"""The inspector over HTTP: rows, opened requests, who sees what, and the page."""

from typing import Any

import msgspec
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway

WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


async def rows(gateway: GatewayUnderTest, query: str = "", **options: Any) -> list[dict[str, Any]]:
    status, body = await gateway.get(f"/inspector/requests{query}", **options)
    assert status == 200, body
    found: list[dict[str, Any]] = body["data"]
    return found


async def opened(gateway: GatewayUnderTest, number: int) -> dict[str, Any]:
    status, body = await gateway.get(f"/inspector/requests/{number}")
    assert status == 200, body
    return body


async def test_a_request_is_a_row_with_its_tokens_and_times(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        response = await gateway.create("What is the answer?")
        (row,) = await rows(gateway)
    assert (row["number"], row["id"], row["status"]) == (1, response["id"], "completed")
    assert (row["model"], row["engine"], row["channel"], row["stream"]) == ("mock", engine.url, "http", False)
    assert (row["input_tokens"], row["output_tokens"], row["asks"]) == (12, 5, 1)
    assert row["preview"] == "What is the answer?"
    assert 0 < row["first_token"] <= row["seconds"]


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
    for moment in deltas:
        assert msgspec.json.encode(moment["event"]["delta"]).decode() in view["chunks"][moment["chunk"]]["text"]
    assert (view["exact"], view["inexact_reason"]) == (True, None)
    assert (view["changes"]["previous"], view["changes"]["prefix_changed"]) == (1, False)
    assert view["row"]["previous"] == 1
    assert view["row"]["prefix_changed"] is False
