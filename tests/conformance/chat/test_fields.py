"""Every field of a chat request: what the engine gets, what comes back, what the client is told, or where the request goes."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from support.chat import CITY, USER, WEATHER
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest
from support.search_services import SearchServices, searching

PATH = "/v1/chat/completions"
Body = dict[str, Any]
PLACE = {"type": "json_schema", "json_schema": {"name": "place", "schema": CITY}}


@dataclass(frozen=True)
class Case:
    value: Any
    # Members of the chat request that the engine gets, and of the completion.
    sent: Body = field(default_factory=dict)
    answered: Body = field(default_factory=dict)
    notice: str = ""
    # Fields that it needs beside it.
    beside: Body = field(default_factory=dict)


def sent(name: str, value: Any) -> Case:
    return Case(value, {name: value})


def idle(name: str, value: Any) -> Case:
    """It changes nothing, and the engine does not get it."""
    return Case(value, notice=f"field {name} has no effect here")


CASES: dict[str, Case] = {
    "model": Case("mock", {"model": "mock"}, {"model": "mock"}),
    "messages": Case([USER], {"messages": [USER]}),
    "tools": Case([WEATHER], {"tool_choice": "auto"}),
    "tool_choice": sent("tool_choice", "auto"),
    "parallel_tool_calls": sent("parallel_tool_calls", False),
    "max_completion_tokens": Case(64, {"max_tokens": 64}),
    "max_tokens": Case(64, {"max_tokens": 64}),
    "temperature": sent("temperature", 0.5),
    "top_p": sent("top_p", 0.9),
    "presence_penalty": sent("presence_penalty", 0.5),
    "frequency_penalty": sent("frequency_penalty", 0.5),
    "stop": sent("stop", ["END"]),
    "seed": sent("seed", 7),
    "user": sent("user", "ada"),
    "logprobs": Case(True, {"logprobs": True}, notice="logprobs were left out: this engine returns none"),
    "top_logprobs": Case(2, {"top_logprobs": 2}, beside={"logprobs": True}),
    "reasoning_effort": Case("xhigh", {"reasoning_effort": "high"}, notice="reasoning effort xhigh was sent as high"),
    "verbosity": Case(
        "low", {"messages": [{"role": "system", "content": "Keep your answers short: only what was asked for."}, USER]}
    ),
    "service_tier": Case("flex", {}, {"service_tier": "flex"}),
    "metadata": Case({"a": "b"}, {}, {"metadata": {"a": "b"}}),
    "prompt_cache_key": Case("ada"),
    "prompt_cache_retention": idle("prompt_cache_retention", "24h"),
    "prompt_cache_options": idle("prompt_cache_options", {"mode": "explicit"}),
    "safety_identifier": idle("safety_identifier", "ada"),
    "store": Case(True, notice="field store has no effect"),
    "stream": Case(False, {"stream": True}),
    # An engine's own.
    "top_k": sent("top_k", 40),
}
# The fields that the engine may get under their own names.
OWN = {"stream", "stop", "tools", "tool_choice", "messages", "model", "logprobs", "reasoning_effort"}


@pytest.mark.parametrize("name", CASES)
async def test_a_field_is_read(gateway: GatewayUnderTest, engine: MockEngine, name: str) -> None:
    case = CASES[name]
    engine.objects_to = lambda body: None
    status, completion = await gateway.post(
        {"messages": [USER], "tools": [WEATHER], **case.beside, name: case.value}, path=PATH
    )
    assert status == 200, completion
    assert gateway.headers["antiphon-way"] == "reliable"
    assert case.sent.items() <= engine.last.items()
    assert name in case.sent or name in OWN or name not in engine.last
    assert case.answered.items() <= completion.items()
    assert case.notice in gateway.notice


async def test_a_format_is_read(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text('{"city": "Rome"}'))
    status, completion = await gateway.post({"messages": [USER], "response_format": PLACE}, path=PATH)
    assert (status, completion["choices"][0]["message"]["content"]) == (200, '{"city": "Rome"}')
    assert engine.last["response_format"]["json_schema"]["schema"] == CITY


async def test_the_options_of_a_stream_are_read(gateway: GatewayUnderTest) -> None:
    options = {"include_usage": True, "include_obfuscation": True}
    body = {"messages": [USER], "tools": [WEATHER], "stream": True, "stream_options": options}
    async with gateway.client.post(gateway.url + PATH, json=body) as answered:
        assert b'"usage":{"prompt_tokens":12,' in await answered.read()
        assert "field stream_options.include_obfuscation has no effect here" in answered.headers["antiphon-notice"]


async def test_the_gateway_searches_the_web_if_it_can(engine: MockEngine) -> None:
    engine.will(answer(call("web_search", '{"query": "capital of Italy"}')), text("It is Rome [1]."))
    place = {"city": "Rome", "country": "IT", "region": "Lazio", "timezone": "Europe/Rome"}
    options = {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": place}}
    async with SearchServices() as services, searching(engine, services) as gateway:
        status, completion = await gateway.post({"messages": [USER], "web_search_options": options}, path=PATH)
        assert (status, gateway.headers["antiphon-way"]) == (200, "reliable")
    (choice,) = completion["choices"]
    assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("stop", False)
    (cited,) = choice["message"]["annotations"]
    assert cited["url_citation"]["url"] == services.rows[0]["url"]
    assert services.asked


async def test_who_asks_for_moderation_is_refused(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    body = {"messages": [USER], "tools": [WEATHER], "moderation": {"model": "omni-moderation-latest"}}
    status, failed = await gateway.post(body, path=PATH)
    assert (status, failed["error"]["param"], engine.requests) == (400, "moderation", [])


PASSED: dict[str, Any] = {
    "n": 2,
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "logit_bias": {"50256": -100},
    "prediction": {"type": "content", "content": "Rome"},
    "functions": [{"name": "f", "parameters": {}}],
    "function_call": "auto",
}


@pytest.mark.parametrize("name", PASSED)
async def test_a_field_sends_the_whole_request_to_the_engine(gateway: GatewayUnderTest, engine: MockEngine, name: str) -> None:
    engine.objects_to = lambda body: None
    body = {"model": "mock", "messages": [USER], "tools": [WEATHER], name: PASSED[name]}
    status, _ = await gateway.post(body, path=PATH)
    assert (status, gateway.headers["antiphon-way"], engine.last) == (200, "pass", body)
    assert f"the request has {name} that only its engine can obey" in gateway.notice
