"""An answer that must be JSON is constrained by the engine, or repaired, or asked for again; else the response fails."""

from typing import Any

import msgspec
import pytest
from support.engine import MockEngine, Refusal, answer, call, chunk, text
from support.gateway import GatewayUnderTest, standing_before

from antiphon.core.exchange.response_object import BEFORE_JSON

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FORMAT = {"format": {"type": "json_schema", "name": "trip", "schema": SCHEMA}}
GOOD = '{"city": "Paris", "days": 3}'
TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


def said(response: dict[str, Any]) -> Any:
    (message,) = [item for item in response["output"] if item["type"] == "message"]
    return msgspec.json.decode(message["content"][0]["text"])


# ---- engines without it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        GOOD,
        f"Here you are:\n```json\n{GOOD}\n```\nHave a good trip!",
        '{"city": "Paris", "days": "3",}',
        "{'city': 'Paris', 'days': 3, 'mood': 'good'}",
    ],
    ids=["as it is", "in a fence", "as a string, with a comma", "in other quotes, with more"],
)
async def test_an_answer_that_contains_the_json_is_repaired(
    engine: MockEngine, gateway: GatewayUnderTest, written: str
) -> None:
    engine.will(text(written[:9], written[9:]))
    events = await gateway.stream(text=FORMAT)
    assert said(events[-1]["response"]) == {"city": "Paris", "days": 3}
    assert len(engine.requests) == 1
    assert msgspec.json.encode(SCHEMA).decode() in engine.last["messages"][0]["content"]


async def test_an_answer_without_the_json_is_asked_for_again(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(text("Three days in Paris."), text(GOOD))
    events = await gateway.stream(text=FORMAT)
    assert said(events[-1]["response"]) == {"city": "Paris", "days": 3}
    assert "Three days" not in str(events)
    assert [message["role"] for message in engine.last["messages"][-2:]] == ["assistant", "user"]
    assert "it is not JSON" in engine.last["messages"][-1]["content"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 34


async def test_an_answer_that_stays_wrong_fails_the_response(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(text("Three days."), text('{"city": "Paris"}'))
    events = await gateway.stream(text=FORMAT)
    assert events[-1]["type"] == "response.failed"
    assert '"days" is a required property' in events[-1]["response"]["error"]["message"]
    assert events[-1]["response"]["output"] == []


async def test_an_engine_that_only_reasons_is_asked_again(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(answer(chunk({"reasoning_content": "Paris…"})), text(GOOD))
    response = await gateway.create(text=FORMAT)
    assert said(response) == {"city": "Paris", "days": 3}
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]


async def test_an_answer_that_is_cut_off_is_shown_as_it_is(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(text('{"city": "Pa', finish="length"))
    response = await gateway.create(text=FORMAT)
    assert response["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"] == '{"city": "Pa'
    assert len(engine.requests) == 1


async def test_a_connection_that_breaks_in_the_answer_fails_the_response(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(chunk({"content": '{"city": "Pa'}))
    events = await gateway.stream(text=FORMAT)
    assert events[-1]["type"] == "response.failed"
    assert len(engine.requests) == 1


async def test_text_before_a_call_need_not_be_json(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(answer(chunk({"content": "Let me look."}), call("get_weather", "{}"), finish="tool_calls"))
    response = await gateway.create(text=FORMAT, tools=TOOLS)
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]
    assert len(engine.requests) == 1


async def test_a_json_object_is_any_object(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(text("Sure."), text('```\n{"a": [1]}\n```'))
    response = await gateway.create(text={"format": {"type": "json_object"}})
    assert said(response) == {"a": [1]}
    assert "one JSON object" in engine.requests[0]["messages"][0]["content"]


async def test_an_invalid_schema_is_rejected_by_name(gateway: GatewayUnderTest) -> None:
    for schema in ({"type": "objekt"}, {"$ref": "http://127.0.0.1:1/schema.json"}):
        format = {"type": "json_schema", "name": "n", "schema": schema}
        status, body = await gateway.post({"input": "Hi", "text": {"format": format}})
        assert status == 400
        assert body["error"]["param"] == "text.format.schema"


# ---- engines with it -------------------------------------------------------------------------------------------------


async def test_the_answer_of_an_engine_that_constrains_is_streamed() -> None:
    async with standing_before("llamacpp", text(GOOD[:9], GOOD[9:])) as (gateway, engine):
        events = await gateway.stream(text=FORMAT)
        assert said(events[-1]["response"]) == {"city": "Paris", "days": 3}
        assert len([event for event in events if event["type"] == "response.output_text.delta"]) == 2
        assert engine.last["response_format"]["type"] == "json_schema"
        assert engine.last["dry_multiplier"] > 0, "endless repetition is made unlikely"
        await gateway.create()
        assert "dry_multiplier" not in engine.last


@pytest.mark.parametrize("written", [f"Here you are: {GOOD}", f"```json\n{GOOD}\n```"], ids=["words", "a fence"])
async def test_what_precedes_the_json_of_a_constrained_answer_is_left_out_with_a_notice(written: str) -> None:
    async with standing_before("llamacpp", text(written[:9], written[9:]), text(GOOD)) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constraint_member": "grammar"})
        response = (await gateway.stream(text=FORMAT))[-1]["response"]
        assert "grammar" in engine.last
        assert response["output"][0]["content"][0]["text"] == GOOD
        assert BEFORE_JSON in response["antiphon_notices"]
        assert "antiphon_notices" not in (await gateway.stream(text=FORMAT))[-1]["response"]
        assert len(engine.requests) == 2


async def test_a_prefix_that_the_constraint_has_made_the_model_write_is_left_out_without_a_notice() -> None:
    async with standing_before("llamacpp", text(f"<|Assistant|>{GOOD}")) as (gateway, _):
        await gateway.gateway.pool.engines[0].identify()
        facts = {"constraint_member": "grammar", "answer_prefix": "<|Assistant|>"}
        gateway.gateway.pool.engines[0].knowledge.learn("mock", facts)
        response = await gateway.create(text=FORMAT)
        assert response["output"][0]["content"][0]["text"] == GOOD
        assert "antiphon_notices" not in response


async def test_what_grammars_cannot_enforce_is_checked_by_the_gateway() -> None:
    tall = {**SCHEMA, "properties": {**SCHEMA["properties"], "days": {"type": "integer", "multipleOf": 2}}}  # type: ignore[dict-item]
    format = {"format": {**FORMAT["format"], "schema": tall}}
    async with standing_before("llamacpp", text(GOOD), text('{"city": "Paris", "days": 4}')) as (gateway, engine):
        assert said(await gateway.create(text=format)) == {"city": "Paris", "days": 4}
        assert "multiple of 2" in engine.last["messages"][-1]["content"]


async def test_an_answer_is_checked_if_tools_exclude_constraints() -> None:
    async with standing_before("vllm", text(f"```\n{GOOD}\n```"), text("Hello."), text(GOOD)) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constrains_json_with_tools": False})
        assert said(await gateway.create(text=FORMAT, tools=TOOLS)) == {"city": "Paris", "days": 3}
        assert "response_format" not in engine.last
        # The model has chosen to answer, so it gets no tools any more, and a constraint instead.
        assert said(await gateway.create(text=FORMAT, tools=TOOLS)) == {"city": "Paris", "days": 3}
        assert engine.last["response_format"]["json_schema"]["schema"] == SCHEMA
        assert "tools" not in engine.last


async def test_an_answer_that_may_be_a_call_is_not_constrained_where_it_could_not_be_one_then() -> None:
    """llama.cpp's grammar for a schema has no room for calls: an agent could not use its tools."""
    made = answer(call("get_weather", '{"city": "Paris"}'), finish="tool_calls")
    async with standing_before("llamacpp", made, text("Hello."), text(GOOD)) as (gateway, engine):
        response = await gateway.create(text=FORMAT, tools=TOOLS)
        assert [item["type"] for item in response["output"]] == ["function_call"]
        assert engine.last["tool_choice"] == "auto"
        assert "response_format" not in engine.last
        assert msgspec.json.encode(SCHEMA).decode() in engine.last["messages"][0]["content"]
        # A model that chose to answer is constrained if it has to answer again.
        assert said(await gateway.create(text=FORMAT, tools=TOOLS)) == {"city": "Paris", "days": 3}
        assert "grammar" in engine.last
        assert engine.last["tool_choice"] == "none"


async def test_an_engine_that_broke_a_constraint_is_checked_from_then_on() -> None:
    async with standing_before("llamacpp", text("Hello."), text("Hello."), text(GOOD)) as (gateway, engine):
        events = await gateway.stream(text=FORMAT)
        assert events[-1]["type"] == "response.failed"
        error = events[-1]["response"]["error"]
        assert "did not constrain the answer to its schema" in error["message"]
        assert error["code"] == "server_error", "another attempt differs"
        assert said(await gateway.create(text=FORMAT)) == {"city": "Paris", "days": 3}
        assert len(engine.requests) == 3
        # Some templates make llama.cpp ignore the one, and none the other.
        assert ["grammar" in request for request in engine.requests] == [False, True, True]


# ---- what a rejection teaches ----------------------------------------------------------------------------------------


def rejection(message: str) -> Refusal:
    return Refusal(400, {"error": {"message": message, "code": 400}})


async def test_a_schema_that_the_engine_rejects_is_described_in_the_prompt() -> None:
    message = "Unable to generate parser for this template. Automatic parser generation failed: JSON schema error at #: frob"
    async with standing_before("llamacpp", rejection(message), text(f"```\n{GOOD}\n```"), text(GOOD)) as (gateway, engine):
        assert said(await gateway.create(text=FORMAT)) == {"city": "Paris", "days": 3}
        assert "response_format" not in engine.last
        # The next schema may fare better.
        await gateway.create(text=FORMAT)
        assert "response_format" in engine.last


async def test_an_engine_without_a_tool_parser_is_asked_without_auto() -> None:
    message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    async with standing_before("vllm", rejection(message), text("Hello."), text("Hello.")) as (gateway, engine):
        await gateway.create(tools=TOOLS)
        await gateway.create(tools=TOOLS)
        assert [request["tool_choice"] for request in engine.requests] == ["auto", "none", "none"]
        assert all(request["tools"] for request in engine.requests)


async def test_a_model_without_tools_gets_them_in_the_prompt() -> None:
    message = "registry.ollama.ai/library/gemma:2b does not support tools"
    history = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
    ]
    async with standing_before("somebody", rejection(message), text("It rains.")) as (gateway, engine):
        await gateway.create(history, tools=TOOLS)
        sent = engine.last
        assert "tools" not in sent
        assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "user"]
        assert "get_weather" in sent["messages"][0]["content"]
        assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}' in sent["messages"][2]["content"]
        assert "<tool_response>\nRain." in sent["messages"][3]["content"]


NOT_READ = chunk(error={"code": 500, "message": "The model produced output that does not match the expected peg-native format"})


@pytest.mark.parametrize(
    "failing",
    [answer(chunk({"content": "Let me see."}), NOT_READ), answer(chunk({"content": ""}), finish="parse_error")],
    ids=["llama.cpp's error", "LMDeploy's finish reason"],
)
async def test_a_call_that_the_engine_cannot_parse_is_asked_for_again_and_parsed_by_the_gateway(failing: bytes) -> None:
    written = text("<tool_call>\n{'name': 'get_weather', 'arguments': {}}\n</tool_call>")
    async with standing_before("somebody", failing, written) as (gateway, engine):
        events = await gateway.stream(tools=TOOLS)
        assert events[-1]["type"] == "response.completed"
        assert events[-1]["response"]["output"][-1]["name"] == "get_weather"
        assert [request["tool_choice"] for request in engine.requests] == ["auto", "none"]
        # The next call may be a better one.
        await gateway.create(tools=TOOLS)
        assert engine.last["tool_choice"] == "auto"


async def test_a_call_that_the_client_has_seen_is_not_asked_for_again() -> None:
    async with standing_before("somebody", answer(call("get_weather", "{"), NOT_READ)) as (gateway, engine):
        events = await gateway.stream(tools=TOOLS)
        assert events[-1]["type"] == "response.failed"
        assert len(engine.requests) == 1


async def test_a_template_that_requires_alternating_roles_gets_them() -> None:
    message = "Conversation roles must alternate user/assistant/user/assistant/..."
    users = [{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}]
    async with standing_before("somebody", rejection(message), text("Three.")) as (gateway, engine):
        await gateway.create(users)
        assert engine.last["messages"] == [{"role": "user", "content": "One.\nTwo."}]


async def test_a_template_without_a_system_role_gets_no_system_message() -> None:
    async with standing_before("somebody", rejection("System role not supported"), text("Hi.")) as (gateway, engine):
        await gateway.create("Hi", instructions="Be brief.")
        assert engine.last["messages"] == [{"role": "user", "content": "Be brief.\n\nHi"}]


async def test_a_rejection_that_teaches_nothing_is_passed_on() -> None:
    async with standing_before("somebody", rejection("temperature is too high")) as (gateway, engine):
        status, body = await gateway.post({"input": "Hi"})
        assert status == 400
        assert "temperature" in body["error"]["message"]
        assert len(engine.requests) == 1
