"""Tool search over the tools of MCP servers: hidden until they are found, and then called as any other."""

from typing import Any

from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, running_gateway
from support.mcp_tools import WEATHER, FakeServers

from antiphon.app.parts import Extensions

DEFERRED: dict[str, Any] = {
    **WEATHER,
    "server_description": "Forecasts for cities.",
    "defer_loading": True,
    "headers": {"X-Key": "s3cret"},
}
TOOLS: list[dict[str, Any]] = [{"type": "tool_search"}, DEFERRED]
SEARCH = answer(call("tool_search", '{"query": "forecast"}', id="a"), finish="tool_calls")
ASKS = answer(call("weather__forecast", '{"city": "Paris"}', id="b"), finish="tool_calls")


async def test_a_tool_of_a_server_is_listed_hidden_found_and_called(engine: MockEngine) -> None:
    engine.will(SEARCH, ASKS, text("Sunny."), text("Rainy."))
    extensions = Extensions(tools={"mcp": FakeServers()}, checker=CHECKER)
    async with running_gateway(engine, extensions=extensions) as gateway:
        events = await gateway.stream(tools=TOOLS)
        response = events[-1]["response"]
        later = await gateway.create("And tomorrow?", tools=TOOLS, previous_response_id=response["id"])
        assert "s3cret" not in str(events)
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["mcp_list_tools", "tool_search_call", "tool_search_output", "mcp_call", "message"]
    (found,) = response["output"][2]["tools"]
    assert (found["type"], found["server_label"], found["defer_loading"]) == ("mcp", "weather", True)
    assert found["allowed_tools"] == ["forecast"]
    assert [item["type"] for item in later["output"]] == ["message"]
    offered = [[tool["function"]["name"] for tool in request["tools"]] for request in engine.requests]
    assert offered == [["tool_search"], *[["tool_search", "weather__forecast"]] * 3]
    assert "- weather (" in engine.requests[0]["tools"][0]["function"]["description"]
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]


async def test_a_search_can_be_required_before_the_servers_are_listed(engine: MockEngine) -> None:
    engine.will(SEARCH, text("Found."))
    extensions = Extensions(tools={"mcp": FakeServers()}, checker=CHECKER)
    async with running_gateway(engine, extensions=extensions) as gateway:
        body = {"model": "mock", "input": "Hi", "tools": TOOLS, "tool_choice": {"type": "tool_search"}}
        status, response = await gateway.post(body)
    assert status == 200, response
    assert [item["type"] for item in response["output"]][1:] == ["tool_search_call", "tool_search_output", "message"]
    assert engine.requests[0]["tool_choice"] == "required"


async def test_a_call_that_was_found_may_need_approval(engine: MockEngine) -> None:
    engine.will(SEARCH, ASKS, text("Sunny."))
    tools = [{"type": "tool_search"}, {**DEFERRED, "require_approval": "always"}]
    extensions = Extensions(tools={"mcp": FakeServers()}, checker=CHECKER)
    async with running_gateway(engine, extensions=extensions) as gateway:
        first = await gateway.create(tools=tools)
        request = first["output"][-1]
        assert request["type"] == "mcp_approval_request"
        approved = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        second = await gateway.create([approved], tools=tools, previous_response_id=first["id"])
    assert [item["type"] for item in second["output"]] == ["mcp_call", "message"]
