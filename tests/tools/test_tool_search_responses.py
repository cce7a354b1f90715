"""Tool search that the gateway runs: whole, streamed, by WebSocket, in the background, stored and continued."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openai import AsyncOpenAI
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest
from support.sockets import connected

Body = dict[str, Any]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": CITY,
    "strict": True,
    "defer_loading": True,
}
ORDERS = {"type": "function", "name": "list_orders", "description": "The open orders of a customer.", "defer_loading": True}
CRM = {"type": "namespace", "name": "crm", "description": "Customers and orders.", "tools": [ORDERS]}
TOOLS: list[Body] = [{"type": "tool_search"}, WEATHER, CRM]

SEARCH = answer(call("tool_search", '{"query": "weather"}'), finish="tool_calls")
CALL = answer(call("get_weather", '{"city": "Paris"}', id="call_2"), finish="tool_calls")


async def whole(gateway: GatewayUnderTest, **fields: Any) -> Body:
    return await gateway.create(**fields)


async def streamed(gateway: GatewayUnderTest, **fields: Any) -> Body:
    response: Body = (await gateway.stream(**fields))[-1]["response"]
    return response


async def by_socket(gateway: GatewayUnderTest, **fields: Any) -> Body:
    async with connected(gateway) as socket:
        return await socket.create(**fields)


async def in_background(gateway: GatewayUnderTest, **fields: Any) -> Body:
    return await Background(gateway).made(**fields)


WAYS: list[Callable[..., Awaitable[Body]]] = [whole, streamed, by_socket, in_background]


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_is_found_and_called_and_its_result_continues_the_response(
    gateway: GatewayUnderTest, engine: MockEngine, way: Callable[..., Awaitable[Body]]
) -> None:
    engine.will(SEARCH, CALL, text("It is sunny."))
    first = await way(gateway, tools=TOOLS)
    searched, found, called = first["output"]
    assert [item["type"] for item in first["output"]] == ["tool_search_call", "tool_search_output", "function_call"]
    assert (searched["arguments"], found["tools"]) == ({"query": "weather"}, [WEATHER])
    assert (called["name"], called["namespace"]) == ("get_weather", "get_weather")
    assert first["usage"]["total_tokens"] == 2 * 17
    output = {"type": "function_call_output", "call_id": "call_2", "output": "sunny"}
    second = await way(gateway, input=[output], previous_response_id=first["id"], tools=TOOLS)
    assert second["output_text"] == "It is sunny."
    assert [len(request["tools"]) for request in engine.requests] == [1, 2, 2]
    assert engine.last["tools"] == engine.requests[1]["tools"]
    before = engine.requests[1]["messages"]
    assert engine.last["messages"][: len(before)] == before


async def test_a_stored_response_is_shown_as_it_was(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCH, CALL)
    first = await gateway.create(tools=TOOLS)
    _, stored = await gateway.get(f"/v1/responses/{first['id']}")
    assert [item["type"] for item in stored["output"]] == ["tool_search_call", "tool_search_output", "function_call"]
    assert stored["output"] == first["output"]


async def test_items_can_be_sent_back(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCH, CALL, text("It is sunny."))
    question = {"role": "user", "content": "Weather in Paris?"}
    first = await gateway.create([question], tools=TOOLS, store=False)
    output = {"type": "function_call_output", "call_id": "call_2", "output": "sunny"}
    await gateway.create([question, *first["output"], output], tools=TOOLS, store=False)
    assert not gateway.notice
    before = engine.requests[1]
    assert engine.last["messages"][: len(before["messages"])] == before["messages"]
    assert engine.last["tools"] == before["tools"]


async def test_a_conversation_remembers_what_was_found(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    engine.will(SEARCH, text("I can look it up."), text("Yes."))
    first = await gateway.create(tools=TOOLS, conversation=conversation["id"])
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    assert [item["type"] for item in listed["data"]] == ["message", "tool_search_call", "tool_search_output", "message"]
    assert listed["data"][1:3] == first["output"][:2]
    await gateway.create("Really?", tools=TOOLS, conversation=conversation["id"])
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["tool_search", "get_weather"]
    assert not gateway.notice


async def test_what_a_compaction_replaces_stays_offered(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCH, text("Found it."), text("They ask for the weather."), text("Yes."))
    first = await gateway.create(tools=TOOLS)
    second = await gateway.create([{"type": "compaction_trigger"}], tools=TOOLS, previous_response_id=first["id"])
    assert second["output"][-1]["type"] == "compaction"
    await gateway.create("And now?", tools=TOOLS, previous_response_id=second["id"])
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["tool_search", "get_weather"]


async def test_a_search_can_be_required(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCH, text("Found it."))
    body = {"model": "mock", "input": "Hi", "tools": TOOLS, "tool_choice": {"type": "tool_search"}}
    status, response = await gateway.post(body)
    assert (status, response["tool_choice"]) == (200, {"type": "tool_search"})
    assert [item["type"] for item in response["output"]] == ["tool_search_call", "tool_search_output", "message"]
    first, second = engine.requests
    assert (first["tool_choice"], second["tool_choice"]) == ("required", "auto")
    assert [tool["function"]["name"] for tool in first["tools"]] == ["tool_search"]


async def test_the_openai_sdk_reads_the_items(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SEARCH, CALL)
    async with (
        AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client,
        client.responses.stream(model="mock", input="Weather?", tools=TOOLS) as stream,  # type: ignore[arg-type]
    ):
        response = await stream.get_final_response()
    searched, found, called = response.output
    assert searched.type == "tool_search_call"
    assert searched.execution == "server"
    assert found.type == "tool_search_output"
    assert [tool.name for tool in found.tools if tool.type == "function"] == ["get_weather"]
    assert called.type == "function_call"
    assert called.namespace == "get_weather"
