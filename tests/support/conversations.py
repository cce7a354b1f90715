"""Conversations that tests of the inspector look at."""

from typing import Any

from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
QUESTION = "How warm is it in Oslo?"
THOUGHT = "I need the weather first."
RESULT = "3 °C, light rain"
PIECES = ("It is", " 3 °C", " in Oslo.")


async def first_turn(gateway: GatewayUnderTest, engine: MockEngine, **fields: Any) -> list[dict[str, Any]]:
    """The model thinks, and calls a tool."""
    thought = chunk({"reasoning_content": THOUGHT})
    engine.will(answer(thought, call("weather", '{"city": "Oslo"}'), finish="tool_calls"))
    return await gateway.stream(QUESTION, tools=[WEATHER], **fields)


async def second_turn(
    gateway: GatewayUnderTest, engine: MockEngine, first: list[dict[str, Any]], **fields: Any
) -> list[dict[str, Any]]:
    """The client sends the result, and the model answers."""
    engine.will(text(*PIECES))
    response = first[-1]["response"]
    called = next(item for item in response["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": called["call_id"], "output": RESULT}
    given = {"tools": [WEATHER], "previous_response_id": response["id"], **fields}
    return await gateway.stream([result], **given)


async def number_of(gateway: GatewayUnderTest, events: list[dict[str, Any]]) -> int:
    """Of the request in the inspector that led to these events."""
    _, page = await gateway.get("/inspector/requests")
    found: int = next(row["number"] for row in page["data"] if row["id"] == events[-1]["response"]["id"])
    return found
