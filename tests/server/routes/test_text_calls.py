"""Calls that an engine leaves in the text of its answer, through the gateway."""

import json
from typing import Any

import pytest
from support.engine import MockEngine, answer, chunk
from support.gateway import GatewayUnderTest

from antiphon.core.stream.text_calls.forms import FORMS, Form

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
WEATHER = {"type": "function", "name": "get_weather", "parameters": CITY}


def calls(response: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(item["name"], json.loads(item["arguments"])) for item in response["output"] if item["type"] == "function_call"]


def texts(response: dict[str, Any]) -> list[str]:
    return [item["content"][0]["text"] for item in response["output"] if item["type"] == "message"]


def written(text: str) -> bytes:
    return answer(*(chunk({"content": piece}) for piece in text))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_a_call_in_any_form_is_a_function_call(gateway: GatewayUnderTest, engine: MockEngine, form: Form) -> None:
    engine.will(written(form.example), written(form.example))
    streamed = (await gateway.stream(tools=[WEATHER]))[-1]["response"]
    whole = await gateway.create(tools=[WEATHER])
    assert calls(streamed) == calls(whole) == [("get_weather", {"city": "Paris"})]
    assert (streamed["status"], whole["status"]) == ("completed", "completed")


async def test_the_schema_of_a_tool_gives_parameters_in_tags_their_types(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    tags = "<parameter=city>\n42\n</parameter>\n<parameter=days>\n3\n</parameter>"
    engine.will(written(f"<tool_call>\n<function=get_weather>\n{tags}\n</function>\n</tool_call>"))
    assert calls(await gateway.create(tools=[WEATHER])) == [("get_weather", {"city": "42", "days": 3})]


async def test_the_schema_counts_in_a_thought_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    call = '<invoke name="get_weather"><parameter name="city">42</parameter></invoke>'
    engine.will(answer(chunk({"reasoning_content": f"Let me see. {call}"})))
    assert calls(await gateway.create(tools=[WEATHER])) == [("get_weather", {"city": "42"})]


async def test_only_tools_that_may_be_called_count(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    text = '<tools>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tools>'
    other = {"type": "function", "name": "other", "parameters": CITY}
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]}
    engine.will(written(text))
    response = await gateway.create(tools=[WEATHER, other], tool_choice=choice)
    assert (calls(response), texts(response)) == ([], [text])


async def test_an_explanation_of_calls_is_an_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    text = (
        "Models write calls like this:\n\n```xml\n<tools>\n"
        '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tools>\n```\n\nThe gateway finds them.'
    )
    engine.will(written(text))
    response = await gateway.create(tools=[WEATHER])
    assert (calls(response), texts(response)) == ([], [text])
