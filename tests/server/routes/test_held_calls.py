"""An answer of a model that garbles its calls is held to a form: a call, or a text. Other models are free."""

from typing import Any

import msgspec
import pytest
from support.codex_tools import EXEC_COMMAND
from support.engine import Answer, MockEngine, Refusal, answer, call, chunk, text
from support.gateway import standing_before

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WEATHER = {"type": "function", "name": "get_weather", "parameters": CITY}
TIME = {"type": "function", "name": "get_time", "parameters": CITY}
TOOLS = [WEATHER, TIME]
ALLOWED = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]}
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
SAY = '{"name": "say", "arguments": {"text": "It \\"rains\\",\\nand \\u00e9 is \\ud83d\\ude00."}}'
SAID = 'It "rains",\nand é is 😀.'
GARBLED = '```json\n{"name": "weather_of", "arguments": {"city": "Paris"}}\n```'
SMALL = "Small-1.5B"


def pieces(whole: str, size: int = 5, finish: str = "stop") -> bytes:
    return text(*(whole[at : at + size] for at in range(0, len(whole), size)), finish=finish)


def calls(response: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(item["name"], msgspec.json.decode(item["arguments"])) for item in response["output"] if "arguments" in item]


def said(response: dict[str, Any]) -> list[str]:
    return [item["content"][0]["text"] for item in response["output"] if item["type"] == "message"]


def forms(sent: dict[str, Any]) -> list[str]:
    """The names of the calls that the answer is held to: one of them, or a list."""
    schema = sent["response_format"]["json_schema"]["schema"]
    listed = [each["items"] for each in schema.get("anyOf", [schema]) if "items" in each]
    branches = [branch for each in listed or [schema] for branch in each.get("anyOf", [each])]
    return [branch["properties"]["name"]["const"] for branch in branches]


def system(sent: dict[str, Any]) -> str:
    first = sent["messages"][0]
    return first["content"] if first["role"] == "system" else ""


# ---- what the engine is asked ----------------------------------------------------------------------------------------


async def test_the_answer_is_a_call_or_a_text_and_the_tools_stay_in_the_prompt() -> None:
    async with standing_before("llamacpp", pieces(CALL), help="full") as (gateway, engine):
        events = await gateway.stream(tools=TOOLS, instructions="Be kind.")
        assert calls(events[-1]["response"]) == [("get_weather", {"city": "Paris"})]
        assert forms(engine.last) == ["get_weather", "get_time", "say"]
        assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["get_weather", "get_time", "say"]
        assert engine.last["tool_choice"] == "none"
        assert system(engine.last) == "Be kind."


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
async def test_a_text_is_streamed_as_a_message(size: int) -> None:
    async with standing_before("llamacpp", pieces(SAY, size), pieces(SAY, size), help="full") as (gateway, _):
        events = await gateway.stream(tools=TOOLS)
        response = events[-1]["response"]
        assert (response["status"], said(response), calls(response)) == ("completed", [SAID], [])
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        assert "".join(deltas) == SAID
        assert len(deltas) > 5 or size > 2, "the text is streamed as it comes"
        assert said(await gateway.create(tools=TOOLS)) == [SAID]


BOTH = '[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments": {"city": "Rome"}}]'
TWICE = '[{"name": "get_time", "arguments": {"city": "Rome"}}, {"name": "get_time", "arguments": { "city":"Rome"}}]'


async def test_several_calls_are_made_in_one_answer_and_each_of_them_once() -> None:
    async with standing_before("llamacpp", pieces(BOTH), pieces(TWICE), help="full") as (gateway, engine):
        both, twice = await gateway.create(tools=TOOLS), await gateway.create(tools=TOOLS)
    assert calls(both) == [("get_weather", {"city": "Paris"}), ("get_time", {"city": "Rome"})]
    assert calls(twice) == [("get_time", {"city": "Rome"})]
    assert "a call of get_time was left out: the model made it twice in one answer" in twice["antiphon_notices"]
    calling, saying = engine.last["response_format"]["json_schema"]["schema"]["anyOf"]
    assert (calling["minItems"], calling["maxItems"], saying["maxItems"]) == (1, 4, 1)


async def test_there_is_one_call_where_they_may_not_be_parallel_or_are_those_of_an_agent() -> None:
    async with standing_before("llamacpp", *[pieces(CALL)] * 2, help="full") as (gateway, engine):
        await gateway.create(tools=TOOLS, parallel_tool_calls=False)
        assert "items" not in str(engine.last["response_format"])
        await gateway.create(tools=[*TOOLS, EXEC_COMMAND])
        assert "items" not in str(engine.last["response_format"])


async def test_of_allowed_tools_only_these_are_forms() -> None:
    async with standing_before("llamacpp", pieces(SAY), help="full") as (gateway, engine):
        await gateway.create(tools=TOOLS, tool_choice=ALLOWED)
        assert forms(engine.last) == ["get_time", "say"]


async def test_one_tool_has_two_forms() -> None:
    async with standing_before("llamacpp", pieces(CALL), help="full") as (gateway, engine):
        assert calls(await gateway.create(tools=[WEATHER])) == [("get_weather", {"city": "Paris"})]
        assert forms(engine.last) == ["get_weather", "say"]


async def test_a_grammar_has_both_forms() -> None:
    async with standing_before("llamacpp", pieces(SAY), help="full") as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constrains_json": False, "constraint_member": "grammar"})
        assert said(await gateway.create(tools=TOOLS)) == [SAID]
        assert "response_format" not in engine.last
        assert '"\\"say\\""' in engine.last["grammar"]
        assert '"\\"get_time\\""' in engine.last["grammar"]
        assert engine.last["tool_choice"] == "none"
        assert len(engine.last["tools"]) == 3


async def test_an_engine_that_reads_calls_does_not_get_to_read_ours() -> None:
    async with standing_before("vllm", pieces(SAY), help="full") as (gateway, engine):
        assert said(await gateway.create(tools=TOOLS)) == [SAID]
        assert "tools" not in engine.last
        assert '"name":"say"' in system(engine.last)
        assert forms(engine.last) == ["get_weather", "get_time", "say"]


async def test_a_tool_of_the_client_keeps_its_name() -> None:
    own = {"type": "function", "name": "say", "parameters": CITY}
    answers = [pieces('{"name": "say", "arguments": {"city": "Paris"}}'), pieces(SAY.replace('"say"', '"say_"'))]
    async with standing_before("llamacpp", *answers, help="full") as (gateway, engine):
        assert calls(await gateway.create(tools=[own])) == [("say", {"city": "Paris"})]
        assert forms(engine.last) == ["say", "say_"]
        assert said(await gateway.create(tools=[own])) == [SAID]


async def test_the_client_does_not_see_the_function_that_was_added() -> None:
    async with standing_before("llamacpp", pieces(SAY), help="full") as (gateway, _):
        events = await gateway.stream(tools=TOOLS)
        assert [tool["name"] for tool in events[-1]["response"]["tools"]] == ["get_weather", "get_time"]
        assert '"name":"say"' not in msgspec.json.encode(events).decode()


async def test_tools_that_exclude_constraints_are_described_in_the_prompt() -> None:
    async with standing_before("llamacpp", pieces(CALL), help="full") as (gateway, engine):
        await gateway.gateway.pool.engines[0].identify()
        gateway.gateway.pool.engines[0].knowledge.learn("mock", {"constrains_json_with_tools": False})
        assert calls(await gateway.create(tools=TOOLS)) == [("get_weather", {"city": "Paris"})]
        assert "tools" not in engine.last
        assert '"name":"get_weather"' in system(engine.last)
        assert '"name":"say"' in system(engine.last)


FREE: dict[str, dict[str, Any]] = {
    "no tools": {"tools": []},
    "no calls": {"tool_choice": "none"},
    "a format": {"text": {"format": {"type": "json_schema", "name": "n", "schema": CITY}}},
    "any JSON": {"text": {"format": {"type": "json_object"}}, "input": "JSON, please."},
    "stop words": {"stop": ["\n\n"]},
    "probabilities": {"top_logprobs": 2, "include": ["message.output_text.logprobs"]},
}


@pytest.mark.parametrize("name", FREE)
async def test_what_is_about_the_text_itself_is_asked_for_as_without_help(name: str) -> None:
    asked = []
    for help in ("off", "full"):
        async with standing_before("llamacpp", text('{"city": "Paris"}'), help=help) as (gateway, engine):
            await gateway.create(**{"tools": TOOLS, **FREE[name]})
            asked.append(engine.last)
    assert asked[0] == asked[1]


async def test_a_required_call_is_no_text() -> None:
    async with standing_before("llamacpp", pieces(CALL), help="full") as (gateway, engine):
        assert calls(await gateway.create(tools=TOOLS, tool_choice="required")) == [("get_weather", {"city": "Paris"})]
        assert forms(engine.last) == ["get_weather", "get_time"]
        assert system(engine.last) == ""


async def test_an_engine_that_constrains_nothing_is_left_free() -> None:
    async with standing_before("somebody", text("Hello."), help="full") as (gateway, engine):
        assert said(await gateway.create(tools=TOOLS)) == ["Hello."]
        assert "response_format" not in engine.last
        assert system(engine.last) == ""


# ---- what comes of the answer ----------------------------------------------------------------------------------------


async def test_a_text_that_is_cut_off_is_shown_and_incomplete() -> None:
    cut = '{"name": "say", "arguments": {"text": "It rains, and \\u00'
    async with standing_before("llamacpp", pieces(cut, finish="length"), help="full") as (gateway, _):
        response = (await gateway.stream(tools=TOOLS, max_output_tokens=16))[-1]["response"]
        assert (response["status"], said(response)) == ("incomplete", ["It rains, and "])
        assert response["output"][0]["status"] == "incomplete"


async def test_a_thought_comes_before_either_form() -> None:
    thought = chunk({"reasoning_content": f"They want {SAY}, I think."})
    answers = [answer(thought, chunk({"content": form})) for form in (SAY, CALL)]
    async with standing_before("llamacpp", *answers, help="full") as (gateway, _):
        first = await gateway.create(tools=TOOLS)
        assert [item["type"] for item in first["output"]] == ["reasoning", "message"]
        assert said(first) == [SAID]
        second = await gateway.create(tools=TOOLS)
        assert [item["type"] for item in second["output"]] == ["reasoning", "function_call"]


@pytest.mark.parametrize("tags", ["<think>\nThey ask.\n</think>\n\n", "<think></think>"])
async def test_a_thought_in_tags_comes_before_a_text(tags: str) -> None:
    async with standing_before("llamacpp", pieces(tags + SAY), help="full") as (gateway, _):
        assert said(await gateway.create(tools=TOOLS)) == [SAID]


async def test_what_is_in_neither_form_is_read_as_a_free_answer() -> None:
    marked = f"<tool_call>\n{CALL}\n</tool_call>"
    async with standing_before("llamacpp", pieces("It rains."), pieces(marked), help="full") as (gateway, _):
        assert said(await gateway.create(tools=TOOLS)) == ["It rains."]
        assert calls(await gateway.create(tools=TOOLS)) == [("get_weather", {"city": "Paris"})]


async def test_a_conversation_is_the_same_as_one_of_free_answers() -> None:
    """History has calls and texts in the template's own form, so that it only grows at its end."""
    async with standing_before("llamacpp", pieces(CALL), pieces(SAY), pieces(SAY), help="full") as (gateway, engine):
        first = await gateway.create("Rain in Paris?", tools=TOOLS)
        result = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "rain"}
        second = await gateway.create([result], tools=TOOLS, previous_response_id=first["id"])
        await gateway.create("Thanks.", tools=TOOLS, previous_response_id=second["id"])
        one, two, three = (sent["messages"] for sent in engine.requests)
        # After the examples.
        assert [message["role"] for message in three[-5:]] == ["user", "assistant", "tool", "assistant", "user"]
        assert three[-4]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        assert three[-2]["content"] == SAID
        assert two[: len(one)] == one
        assert three[: len(two)] == two


# ---- who is held -----------------------------------------------------------------------------------------------------


async def asked_after(
    *answers: Answer, model: str = SMALL, fields: dict[str, Any] | None = None, **settings: Any
) -> MockEngine:
    """The engine that gave these answers to requests for a model of this name, and was then asked once more."""
    engine: MockEngine
    async with standing_before("llamacpp", *answers, **settings) as (gateway, engine):
        engine.lists(model)
        for _ in answers:
            await gateway.stream(tools=TOOLS, **{"model": model, **(fields or {})})
        engine.will(pieces(SAY))
        await gateway.create(tools=TOOLS, model=model)
    return engine


async def test_a_small_model_is_free_until_it_garbles_a_call() -> None:
    engine = await asked_after(text("Hello."), text(GARBLED), pieces(CALL))
    assert ["response_format" in sent for sent in engine.requests] == [False, False, True, True]
    assert forms(engine.last) == ["get_weather", "get_time", "say"]


@pytest.mark.parametrize(("model", "settings"), [("Large-70B", {}), (SMALL, {"help": "off"}), ("large", {})])
async def test_a_model_without_help_stays_free_whatever_it_writes(model: str, settings: dict[str, Any]) -> None:
    engine = await asked_after(text(GARBLED), text(GARBLED), model=model, **settings)
    assert len(engine.requests) == 3
    first, *others = engine.requests
    assert "response_format" not in first
    assert all(other == first for other in others)


NOT_GARBLED: dict[str, tuple[Answer, dict[str, Any]]] = {
    "an answer": (text("It rains."), {}),
    "JSON": (text('{"name": "Ana", "age": 30}'), {}),
    "a call beside the text": (answer(chunk({"content": GARBLED}), call("get_time", '{"city": "Rome"}')), {}),
    "an answer that was cut off": (text(GARBLED, finish="length"), {}),
    "no tools were offered": (text(GARBLED), {"tool_choice": "none"}),
}


@pytest.mark.parametrize("name", NOT_GARBLED)
async def test_a_small_model_stays_free_that_garbled_nothing(name: str) -> None:
    answered, fields = NOT_GARBLED[name]
    engine = await asked_after(answered, fields=fields)
    assert "response_format" not in engine.last


async def test_a_small_model_that_repeats_a_result_is_held() -> None:
    result = "Process exited with code 0\nOutput:\n" + "total 8\n-rw-r--r-- 1 root root 60 letter.txt\n"
    history = [
        {"role": "user", "content": "List the files."},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": result},
    ]
    engine = await asked_after(text(result), fields={"input": history})
    assert forms(engine.last) == ["get_weather", "get_time", "say"]


async def test_an_engine_that_rejects_the_form_is_asked_without_it() -> None:
    refusal = Refusal(400, {"error": {"message": "response_format is not supported", "code": 400}})
    async with standing_before("llamacpp", refusal, refusal, text("Hello."), help="full") as (gateway, engine):
        assert said(await gateway.create(tools=TOOLS)) == ["Hello."]
        # Beside tools, without them, and then not at all.
        assert ["response_format" in sent for sent in engine.requests] == [True, True, False]
        assert ["tools" in sent for sent in engine.requests] == [True, False, True]
        assert system(engine.last) == ""


# ---- an engine that ignores the form ---------------------------------------------------------------------------------

FENCED = f"```json\n{SAY}\n```"
IGNORED: dict[str, tuple[str, list[str], list[tuple[str, Any]]]] = {
    "said in a fence": (FENCED, [SAID], []),
    "said between markers": (f"<tool_call>\n{SAY}\n</tool_call>", [SAID], []),
    "a call after words": (f"I look.\n<tool_call>\n{CALL}\n</tool_call>", ["I look.\n"], [("get_weather", {"city": "Paris"})]),
    "words": ("It rains.", ["It rains."], []),
}


@pytest.mark.parametrize("name", IGNORED)
async def test_an_engine_that_ignores_the_form_is_read_as_it_answers_and_left_free(name: str) -> None:
    """Such an engine accepts the field, and does nothing with it."""
    whole, texts, made = IGNORED[name]
    async with standing_before("vllm", pieces(whole), text("Hello."), help="full") as (gateway, engine):
        response = (await gateway.stream(tools=TOOLS))[-1]["response"]
        assert (said(response), calls(response)) == (texts, made)
        await gateway.create(tools=TOOLS)
        assert ["response_format" in sent for sent in engine.requests] == [True, False]
        assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["get_weather", "get_time"]
        assert system(engine.last) == ""


async def test_an_engine_with_grammars_is_left_free_once_it_has_ignored_them_too() -> None:
    async with standing_before("llamacpp", *[pieces("It rains.")] * 3, help="full") as (gateway, engine):
        for _ in range(3):
            assert said(await gateway.create(tools=TOOLS)) == ["It rains."]
        assert [("response_format" in sent, "grammar" in sent) for sent in engine.requests] == [
            (True, False),
            (False, True),
            (False, False),
        ]


NOT_CERTAIN: dict[str, Answer] = {
    "a call in the form": pieces(CALL),
    "a text in the form": pieces(SAY),
    "an answer that was cut off": pieces("It rains", finish="length"),
    "no answer": text(""),
    "members in another order": pieces('{"arguments": {"city": "Paris"}, "name": "get_weather"}'),
    "a call of the engine's own": answer(chunk({"content": "I look."}), call("get_weather", '{"city": "Paris"}')),
}


@pytest.mark.parametrize("name", NOT_CERTAIN)
async def test_a_model_stays_held_as_long_as_its_engine_may_have_held_it(name: str) -> None:
    async with standing_before("vllm", NOT_CERTAIN[name], pieces(SAY), help="full") as (gateway, engine):
        await gateway.stream(tools=TOOLS)
        await gateway.create(tools=TOOLS)
        assert forms(engine.last) == ["get_weather", "get_time", "say"]
