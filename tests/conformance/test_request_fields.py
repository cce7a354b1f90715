"""Every field of a request: what the engine gets, what the response echoes, what the client is told, or why it is a 400."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

Body = dict[str, Any]
FUNCTION = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


@dataclass(frozen=True)
class Case:
    value: Any
    # Members of the chat request, of the response and of the notice.
    sent: Body = field(default_factory=dict)
    echoed: Body = field(default_factory=dict)
    notice: str = ""
    # Fields that it needs beside it.
    beside: Body = field(default_factory=dict)


# The mock engine returns none.
NO_LOGPROBS = "logprobs were left out: this engine returns none"


def sent_and_echoed(name: str, value: Any) -> Case:
    return Case(value, {name: value}, {name: value})


def echoed(name: str, value: Any, **more: Any) -> Case:
    return Case(value, {}, {name: value}, **more)


def left_out(name: str, value: Any) -> Case:
    return Case(value, notice=f"field {name} has no effect here and was left out")


USER = {"role": "user", "content": "Hi"}
CASES: dict[str, Case] = {
    "model": Case("mock", {"model": "mock"}, {"model": "mock"}),
    "input": Case("Hello", {"messages": [{"role": "user", "content": "Hello"}]}),
    "instructions": Case(
        "Be kind.", {"messages": [{"role": "system", "content": "Be kind."}, USER]}, {"instructions": "Be kind."}
    ),
    "tools": Case([FUNCTION], {"tool_choice": "auto"}),
    "tool_choice": Case("none", {}, {"tool_choice": "none"}, beside={"tools": [FUNCTION]}),
    "parallel_tool_calls": Case(
        False, {"parallel_tool_calls": False}, {"parallel_tool_calls": False}, beside={"tools": [FUNCTION]}
    ),
    "max_output_tokens": Case(64, {"max_tokens": 64}, {"max_output_tokens": 64}),
    "max_tool_calls": echoed("max_tool_calls", 3, beside={"tools": [FUNCTION]}),
    "temperature": sent_and_echoed("temperature", 0.5),
    "top_p": sent_and_echoed("top_p", 0.9),
    "presence_penalty": sent_and_echoed("presence_penalty", 0.5),
    "frequency_penalty": sent_and_echoed("frequency_penalty", 0.5),
    "top_logprobs": Case(2, {"logprobs": True, "top_logprobs": 2}, {"top_logprobs": 2}, NO_LOGPROBS),
    "stop": Case(["END"], {"stop": ["END"]}),
    "seed": Case(7, {"seed": 7}),
    "user": sent_and_echoed("user", "u1"),
    "text": Case(
        {"verbosity": "low"},
        {"messages": [{"role": "system", "content": "Keep your answers short: only what was asked for."}, USER]},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    ),
    "reasoning": Case({"effort": "low"}, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low", "summary": None}}),
    "include": Case(["message.output_text.logprobs"], {"logprobs": True}, notice=NO_LOGPROBS),
    "metadata": echoed("metadata", {"topic": "greeting"}),
    "service_tier": echoed("service_tier", "flex"),
    "safety_identifier": echoed("safety_identifier", "user-1"),
    "prompt_cache_key": echoed("prompt_cache_key", "thread-1"),
    "prompt_cache_retention": echoed("prompt_cache_retention", "24h"),
    "prompt_cache_options": left_out("prompt_cache_options", {"mode": "implicit"}),
    "access_programs": left_out("access_programs", {"cyber": "trusted"}),
    "image": left_out("image", {"context_compression": "auto"}),
    "truncation": echoed("truncation", "auto"),
    "store": echoed("store", False),
    "client_metadata": Case({"turn": "1"}),
    "generate": Case(True),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_field_is_sent_or_echoed(name: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    case = CASES[name]
    response = await gateway.create(**{**case.beside, name: case.value})
    assert case.sent.items() <= engine.last.items()
    assert case.echoed.items() <= response.items()
    assert case.notice in gateway.notice if case.notice else not gateway.notice


REFUSED: dict[str, Any] = {
    "prompt": {"id": "pmpt_1"},
    "moderation": {"model": "omni-moderation-latest"},
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_field_that_cannot_be_honoured_is_a_400(name: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    status, body = await gateway.post({"model": "mock", "input": "Hi", name: REFUSED[name]})
    assert status == 400
    assert body["error"]["param"] == name
    assert body["error"]["code"] == "unsupported_parameter"
    assert not engine.requests


async def test_a_field_of_no_api_is_left_out_with_a_notice(gateway: GatewayUnderTest) -> None:
    await gateway.create(temprature=0.5)
    assert "temprature" in gateway.notice


async def test_a_schema_constrains_the_text_and_is_echoed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.otherwise = lambda body: text('{"city": "Rome"}')
    format = {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}
    response = await gateway.create(text={"format": format})
    assert engine.last["response_format"]["json_schema"]["schema"] == SCHEMA
    assert format.items() <= response["text"]["format"].items()


async def test_a_response_continues_the_one_before_it(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create("One")
    second = await gateway.create("Two", previous_response_id=first["id"])
    assert [message["content"] for message in engine.last["messages"]] == ["One", "Hello world", "Two"]
    assert second["previous_response_id"] == first["id"]


async def test_a_response_becomes_part_of_its_conversation(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({"items": [{"role": "user", "content": "One"}]}, "/v1/conversations")
    response = await gateway.create("Two", conversation={"id": conversation["id"]})
    assert response["conversation"] == {"id": conversation["id"]}
    assert [message["content"] for message in engine.last["messages"]] == ["One", "Two"]
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    assert [item["role"] for item in listed["data"]] == ["user", "user", "assistant"]


async def test_a_background_response_is_queued_and_answered_later(gateway: GatewayUnderTest) -> None:
    queued = await gateway.create(background=True)
    assert (queued["status"], queued["background"]) == ("queued", True)
    events = await gateway.stream(background=True)
    assert [event["type"] for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]


async def test_a_streamed_response_can_be_padded(gateway: GatewayUnderTest) -> None:
    padded = await gateway.stream(stream_options={"include_obfuscation": True})
    plain = await gateway.stream(stream_options={"include_obfuscation": False})
    assert [("obfuscation" in event) for event in padded if event["type"].endswith(".delta")] == [True, True]
    assert [("obfuscation" in event) for event in plain if event["type"].endswith(".delta")] == [False, False]
