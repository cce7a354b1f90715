"""A required call is made by the engine, as a constrained answer, or when asked again; else the response fails. The arguments
of strict functions are checked, others are not."""

from typing import Any

import msgspec
import pytest
from support.engine import MockEngine, Refusal, answer, call, chunk, text
from support.gateway import GatewayUnderTest, standing_before

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "name": "get_weather", "parameters": CITY}
MAIL = {"type": "function", "name": "send_mail", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}
TOOLS = [WEATHER, MAIL]
NAMED = {"type": "function", "name": "get_weather"}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [NAMED]}
PARIS = '{"city": "Paris"}'


def envelope(name: str, arguments: str = PARIS) -> bytes:
    whole = f'{{"name": "{name}", "arguments": {arguments}}}'
    return text(*(whole[at : at + 5] for at in range(0, len(whole), 5)))


def calls(response: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(item["name"], msgspec.json.decode(item["arguments"])) for item in response["output"] if "arguments" in item]


# ---- how a required call is obtained ---------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["required", NAMED, ALLOWED], ids=["required", "named", "allowed"])
async def test_an_engine_that_constrains_json_writes_the_call_as_its_answer(choice: Any) -> None:
    async with standing_before("llamacpp", envelope("get_weather")) as (gateway, engine):
        events = await gateway.stream(tools=TOOLS, tool_choice=choice)
        assert calls(events[-1]["response"]) == [("get_weather", {"city": "Paris"})]
        deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        assert len(deltas) > 1, "the arguments are streamed as they come"
        # All tools stay in the prompt, so that what the engine has cached of it can be used.
        assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["get_weather", "send_mail"]
        # With another choice, llama.cpp makes a grammar of the tools too, and cannot always read it.
        assert engine.last["tool_choice"] == "none"
        schema = engine.last["response_format"]["json_schema"]["schema"]
        offered = [call["properties"]["name"]["const"] for call in schema.get("anyOf", [schema])]
        assert offered == (["get_weather", "send_mail"] if choice == "required" else ["get_weather"])


@pytest.mark.parametrize("choice", ["required", NAMED, ALLOWED], ids=["required", "named", "allowed"])
async def test_an_engine_that_enforces_choices_is_left_to_it(choice: Any) -> None:
    made = answer(call("get_weather", PARIS), finish="tool_calls")
    async with standing_before("vllm", made) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice=choice)
        assert calls(response) == [("get_weather", {"city": "Paris"})]
        assert "response_format" not in engine.last
        named = {"type": "function", "function": {"name": "get_weather"}}
        assert engine.last["tool_choice"] == (named if choice is NAMED else "required")


async def test_an_engine_that_only_claims_to_enforce_is_constrained_when_asked_again() -> None:
    async with standing_before("vllm", text("Hello."), envelope("get_weather"), envelope("get_weather")) as (gateway, engine):
        assert calls(await gateway.create(tools=TOOLS, tool_choice="required")) == [("get_weather", {"city": "Paris"})]
        assert engine.last["response_format"]["type"] == "json_schema"
        assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "user"]
        # It is remembered.
        await gateway.create(tools=TOOLS, tool_choice="required")
        assert len(engine.requests) == 3
        assert "response_format" in engine.last


async def test_any_other_engine_is_asked_in_the_prompt_and_asked_again() -> None:
    made = answer(call("get_weather", PARIS), finish="tool_calls")
    async with standing_before("somebody", text("Hello."), made) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice=NAMED)
        assert calls(response) == [("get_weather", {"city": "Paris"})]
        first, second = engine.requests
        assert "get_weather" in first["messages"][0]["content"]
        assert [tool["function"]["name"] for tool in first["tools"]] == ["get_weather"]
        assert "get_weather" in second["messages"][-1]["content"]
        assert response["usage"]["total_tokens"] == 34


async def test_a_required_call_that_is_still_missing_fails_the_response() -> None:
    async with standing_before("somebody", text("Hello."), text("No.")) as (gateway, engine):
        events = await gateway.stream(tools=TOOLS, tool_choice="required")
        assert events[-1]["type"] == "response.failed"
        assert "called no tool" in events[-1]["response"]["error"]["message"]
        assert events[-1]["response"]["error"]["code"] == "invalid_prompt"
        assert len(engine.requests) == 2
    async with standing_before("somebody", text("Hello."), text("No.")) as (gateway, _):
        status, body = await gateway.post({"input": "Hi", "tools": TOOLS, "tool_choice": "required"})
        assert status == 502
        assert body["error"]["code"] == "answer_invalid"
        assert gateway.headers["x-should-retry"] == "false"


async def test_a_required_call_that_is_cut_off_is_incomplete_and_not_asked_for_again() -> None:
    cut = text('{"name": "get_weather", "arguments": {"ci', finish="length")
    async with standing_before("llamacpp", cut) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice="required")
        assert response["status"] == "incomplete"
        assert response["output"][0]["status"] == "incomplete"
        assert len(engine.requests) == 1


async def test_a_tool_outside_those_allowed_is_not_called() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}
    wrong = answer(call("send_mail", '{"to": "Bob"}'), finish="tool_calls")
    async with standing_before("somebody", wrong, text("It rains.")) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice=choice)
        assert [item["type"] for item in response["output"]] == ["message"]
        assert "send_mail is not among the tools" in engine.last["messages"][-1]["content"]
    async with standing_before("somebody", wrong, wrong) as (gateway, _):
        events = await gateway.stream(tools=TOOLS, tool_choice=choice)
        assert events[-1]["type"] == "response.failed"
        assert "send_mail" not in [event.get("item", {}).get("name") for event in events]


async def test_with_the_choice_none_there_is_never_a_call(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(answer(chunk({"content": "Hm."}), call("get_weather", PARIS), finish="tool_calls"))
    response = await gateway.create(tools=TOOLS, tool_choice="none")
    assert [item["type"] for item in response["output"]] == ["message"]
    assert "tools" not in engine.last


async def test_tools_that_exclude_constraints_are_described_in_the_prompt() -> None:
    async with standing_before("llamacpp", envelope("get_weather")) as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constrains_json_with_tools": False})
        assert calls(await gateway.create(tools=TOOLS, tool_choice="required")) == [("get_weather", {"city": "Paris"})]
        assert "tools" not in engine.last
        assert '"name":"get_weather"' in engine.last["messages"][0]["content"]
        assert engine.last["response_format"]["json_schema"]["name"] == "tool_call"


async def test_a_required_call_takes_precedence_over_the_format_of_an_answer() -> None:
    format = {"type": "json_schema", "name": "n", "schema": CITY}
    async with standing_before("llamacpp", envelope("get_weather")) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice="required", text={"format": format})
        assert calls(response) == [("get_weather", {"city": "Paris"})]
        assert engine.last["response_format"]["json_schema"]["name"] == "tool_call"


@pytest.mark.parametrize("how", [{}, {"stream": True}, {"background": True}], ids=["whole", "streamed", "background"])
async def test_a_hosted_tool_is_not_silently_replaced_by_any_other(gateway: GatewayUnderTest, how: dict[str, bool]) -> None:
    body = {"input": "Hi", "tools": [{"type": "web_search_preview"}, WEATHER], **how}
    status, answered = await gateway.post({**body, "tool_choice": {"type": "web_search_preview"}})
    assert status == 400
    assert answered["error"]["param"] == "tool_choice"
    assert answered["error"]["code"] == "unsupported_value"
    assert "web_search_preview, which does not run here" in answered["error"]["message"]


async def test_a_chosen_function_is_echoed_flat(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(answer(call("get_weather", PARIS), finish="tool_calls"))
    nested = {"type": "function", "function": {"name": "get_weather"}}
    assert (await gateway.create(tools=TOOLS, tool_choice=nested))["tool_choice"] == NAMED


# ---- arguments that are not strict -----------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["auto", "required", NAMED], ids=["auto", "required", "named"])
@pytest.mark.parametrize("owned_by", ["somebody", "vllm"])
@pytest.mark.parametrize("strict", [None, False])
async def test_arguments_that_are_not_strict_are_streamed_and_never_withheld(
    choice: Any, owned_by: str, strict: bool | None
) -> None:
    made = answer(call("get_weather", '{"town": "Paris"}'), finish="tool_calls")
    async with standing_before(owned_by, made) as (gateway, engine):
        events = await gateway.stream(tools=[{**WEATHER, "strict": strict}], tool_choice=choice)
        assert calls(events[-1]["response"]) == [("get_weather", {"town": "Paris"})]
        assert len([event for event in events if event["type"] == "response.function_call_arguments.delta"]) == 2
        assert len(engine.requests) == 1


async def test_parameters_that_are_no_schema_do_no_harm_without_strict(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    broken = {**WEATHER, "parameters": {"type": "objekt"}}
    engine.will(answer(call("get_weather", PARIS), finish="tool_calls"))
    response = await gateway.create(tools=[broken], tool_choice="required")
    assert calls(response) == [("get_weather", {"city": "Paris"})]
    assert gateway.notice == ""


async def test_a_schema_that_the_engine_cannot_apply_for_free_is_not_applied() -> None:
    unable = Refusal(400, {"error": {"message": "The grammar of the tools cannot be compiled", "code": 400}})
    made = answer(call("get_weather", PARIS), finish="tool_calls")
    async with standing_before("vllm", unable, made) as (gateway, engine):
        assert calls(await gateway.create(tools=TOOLS)) == [("get_weather", {"city": "Paris"})]
        first, second = engine.requests
        assert [tool["function"].get("strict") for tool in first["tools"]] == [True, True]
        assert [tool["function"].get("strict") for tool in second["tools"]] == [None, None]


# ---- strict arguments ------------------------------------------------------------------------------------------------

STRICT = [{**WEATHER, "strict": True}]


def weather(arguments: str, call_id: str = "call_1") -> bytes:
    return answer(call("get_weather", arguments, id=call_id), finish="tool_calls")


async def test_strict_arguments_that_nearly_fit_are_repaired(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(weather('{"city": "Paris", "days": "3", "mood": "good"}'))
    assert calls(await gateway.create(tools=STRICT)) == [("get_weather", {"city": "Paris", "days": 3})]
    assert len(engine.requests) == 1


async def test_strict_arguments_that_do_not_fit_are_asked_for_again(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(weather('{"town": "Paris"}', "bad"), weather(PARIS, "good"))
    events = await gateway.stream(tools=STRICT)
    assert calls(events[-1]["response"]) == [("get_weather", {"city": "Paris"})]
    assert "town" not in str(events)
    assert '"city" is a required property' in engine.last["messages"][-1]["content"]


async def test_an_engine_that_is_asked_again_is_constrained_to_the_parameters() -> None:
    async with standing_before("sglang", weather('{"town": "Paris"}'), envelope("get_weather")) as (gateway, engine):
        assert calls(await gateway.create(tools=[*STRICT, MAIL])) == [("get_weather", {"city": "Paris"})]
        schema = engine.last["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["name"] == {"const": "get_weather"}
        assert engine.last["reasoning_effort"] == "none"


async def test_an_engine_with_grammars_is_constrained_from_the_first_token_when_it_is_asked_again() -> None:
    async with standing_before("llamacpp", weather('{"town": "Paris"}'), envelope("get_weather")) as (gateway, engine):
        assert calls(await gateway.create(tools=[*STRICT, MAIL])) == [("get_weather", {"city": "Paris"})]
        assert engine.last["grammar"].startswith("root ::= ")
        assert r'"\"get_weather\""' in engine.last["grammar"]
        assert "send_mail" not in engine.last["grammar"]
        # A thought that the template left open would contain the call.
        assert engine.last["reasoning_effort"] == "none"
        # The prompt has all tools as before, and so has the prefix cache.
        assert len(engine.last["tools"]) == 2
        assert engine.last["tool_choice"] == "none"


async def test_strict_arguments_that_stay_wrong_fail_the_response(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(weather('{"town": "Paris"}'), weather("[]"))
    events = await gateway.stream(tools=STRICT)
    assert events[-1]["type"] == "response.failed"
    assert "function_call" not in str(events[:-1])


async def test_an_engine_that_constrains_strict_calls_has_them_streamed() -> None:
    async with standing_before("vllm", weather(PARIS)) as (gateway, _):
        events = await gateway.stream(tools=STRICT)
        assert len([event for event in events if event["type"] == "response.function_call_arguments.delta"]) == 2


async def test_an_engine_that_did_not_constrain_a_strict_call_is_checked_from_then_on() -> None:
    wrong = weather('{"town": "Paris"}')
    async with standing_before("vllm", wrong, wrong, weather(PARIS), text(PARIS[:5], PARIS[5:])) as (gateway, engine):
        events = await gateway.stream(tools=STRICT)
        assert "did not constrain the answer" in events[-1]["response"]["error"]["message"]
        assert calls(await gateway.create(tools=STRICT)) == [("get_weather", {"city": "Paris"})]
        assert len(engine.requests) == 3
        events = await gateway.stream(text={"format": {"type": "json_schema", "name": "n", "schema": CITY}})
        deltas = [event for event in events if event["type"] == "response.output_text.delta"]
        assert len(deltas) == 2, "its answers are still trusted"


async def test_arguments_that_are_not_strict_are_passed_on_as_they_are(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(weather('{"town": "Paris"}'))
    assert calls(await gateway.create(tools=TOOLS)) == [("get_weather", {"town": "Paris"})]


async def test_a_strict_tool_whose_parameters_are_no_schema_is_rejected(gateway: GatewayUnderTest) -> None:
    broken = {**STRICT[0], "parameters": {"type": "objekt"}}
    status, body = await gateway.post({"input": "Hi", "tools": [MAIL, broken]})
    assert status == 400
    assert body["error"]["param"] == "tools[1].parameters"


async def test_strict_calls_are_limited_to_one_without_parallel_calls(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(answer(call("get_weather", PARIS, id="a"), call("send_mail", "{}", id="b", index=1), finish="tool_calls"))
    assert len(calls(await gateway.create(tools=TOOLS, parallel_tool_calls=False))) == 1


# ---- a bad call beside others ----------------------------------------------------------------------------------------

BAD_CALL = call("get_weather", '{"town": "Paris"}', id="bad", index=0)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_calls_after_a_bad_one_come_once_and_in_order(
    engine: MockEngine, gateway: GatewayUnderTest, stream: bool
) -> None:
    mail = call("send_mail", '{"to": "Ana"}', id="mail", index=1)
    good = call("get_weather", PARIS, id="good", index=0)
    engine.will(answer(BAD_CALL, mail, finish="tool_calls"), answer(good, mail, finish="tool_calls"))
    fields = {"tools": [{**WEATHER, "strict": True}, MAIL]}
    response = (await gateway.stream(**fields))[-1]["response"] if stream else await gateway.create(**fields)
    assert calls(response) == [("get_weather", {"city": "Paris"}), ("send_mail", {"to": "Ana"})]
    assert len(engine.requests) == 2
    left_out = "calls of the model were left out: 1 after a call that was wrong, for which it was asked again"
    assert left_out in response["antiphon_notices"]


async def test_a_call_before_a_bad_one_stays(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    mail = call("send_mail", '{"to": "Ana"}', id="mail", index=0)
    bad = call("get_weather", '{"town": "Paris"}', id="bad", index=1)
    engine.will(answer(mail, bad, finish="tool_calls"), answer(call("get_weather", PARIS), finish="tool_calls"))
    response = await gateway.create(tools=[{**WEATHER, "strict": True}, MAIL])
    assert calls(response) == [("send_mail", {"to": "Ana"}), ("get_weather", {"city": "Paris"})]
    assert "antiphon_notices" not in response
