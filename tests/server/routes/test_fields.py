"""Fields of a request that are wrong, unknown or without effect, and those that the response repeats."""

from typing import Any

import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, standing_before

PART = {"type": "input_text", "text": "a"}
CHAT_FIELDS: dict[str, tuple[Any, str]] = {
    "messages": ([{"role": "user", "content": "Hi"}], "use `input`"),
    "max_tokens": (5, "use `max_output_tokens`"),
    "max_completion_tokens": (5, "use `max_output_tokens`"),
    "response_format": ({"type": "json_object"}, "use `text.format`"),
    "functions": ([], "use `tools`"),
    "function_call": ("auto", "use `tool_choice`"),
    "reasoning_effort": ("low", "use `reasoning.effort`"),
    "n": (2, "one request for each answer"),
}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_key_of_a_conversation_reaches_an_engine_that_takes_it(stream: bool) -> None:
    async with standing_before("vllm") as (gateway, engine):
        await (gateway.stream if stream else gateway.create)(prompt_cache_key="thread-1")
        assert engine.last["prompt_cache_key"] == "thread-1"
        assert gateway.notice == ""


@pytest.mark.parametrize("name", CHAT_FIELDS)
async def test_a_field_of_chat_completions_is_a_400_that_names_the_right_one(
    gateway: GatewayUnderTest, engine: MockEngine, name: str
) -> None:
    value, instead = CHAT_FIELDS[name]
    for path in ("/v1/responses", "/v1/responses/input_tokens"):
        status, answer = await gateway.post({"model": "mock", "input": "Hi", name: value}, path=path)
        error = answer["error"]
        assert (status, error["code"], error["param"]) == (400, "unsupported_parameter", name)
        assert instead in error["message"]
    assert engine.requests == []


async def test_a_field_of_chat_completions_that_is_null_does_no_harm(gateway: GatewayUnderTest) -> None:
    response = await gateway.create(response_format=None)
    assert response["antiphon_notices"] == ["field response_format is unknown and was left out"]


async def test_unknown_fields_are_left_out_with_a_notice_also_inside_objects(gateway: GatewayUnderTest) -> None:
    response = await gateway.create(
        flavour="sweet", text={"format": {"type": "text", "colour": "red"}}, stream_options={"include_usage": True}
    )
    assert response["antiphon_notices"] == [
        "field flavour is unknown and was left out",
        "field stream_options.include_usage is unknown and was left out",
        "field text.format.colour is unknown and was left out",
    ]


async def test_fields_of_the_api_without_effect_are_left_out_with_a_notice(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    response = await gateway.create(
        prompt_cache_options={"ttl": "12h"},
        access_programs={"cyber": "standard"},
        image={"context_compression": "auto"},
        reasoning={"context": "current_turn", "mode": "pro"},
    )
    names = ["prompt_cache_options", "access_programs", "image", "reasoning.context", "reasoning.mode"]
    assert response["antiphon_notices"] == [f"field {name} has no effect here and was left out" for name in names]
    response = await gateway.create(reasoning={"context": "all_turns", "mode": "standard"})
    assert "antiphon_notices" not in response
    assert engine.last.keys() == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"safety_identifier": "s" * 65}, "safety_identifier", "string_above_max_length"),
        ({"prompt_cache_key": "k" * 65}, "prompt_cache_key", "string_above_max_length"),
        ({"metadata": {"a": "b", "c": 3}}, "metadata.c", "invalid_type"),
        ({"metadata": {"a": "b", "c": "d" * 513}}, "metadata.c", "string_above_max_length"),
        ({"metadata": {"k" * 65: "b"}}, "metadata", "string_above_max_length"),
        ({"conversation": {}}, "conversation.id", "missing_required_parameter"),
        ({"conversation": {"id": 3}}, "conversation.id", "invalid_type"),
        ({"moderation": {"model": "omni-moderation-latest"}}, "moderation", "unsupported_parameter"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "unsupported_parameter"),
        (
            {"input": [{"role": "user", "content": [PART, {"type": "input_image", "image_url": 3}]}]},
            "input[0].content[1].image_url",
            "invalid_type",
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "thing"}, "strict": True}}},
            "text.format.schema",
            "invalid_json_schema",
        ),
        (
            {"tools": [{"type": "function", "name": "f", "parameters": {"type": "thing"}, "strict": True}]},
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
    ],
)  # fmt: skip
async def test_a_wrong_field_has_the_code_and_the_path_that_openai_has(
    gateway: GatewayUnderTest, fields: dict[str, Any], param: str, code: str
) -> None:
    status, answer = await gateway.post({"model": "mock", "input": "Hi", **fields})
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, param, code)


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("limit=0", "limit", "integer_below_min_value"),
        ("limit=101", "limit", "integer_above_max_value"),
        ("limit=many", "limit", "invalid_type"),
        ("limit=1e1", "limit", "invalid_type"),
        ("limit=-1", "limit", "integer_below_min_value"),
        ("order=up", "order", "invalid_value"),
    ],
)
async def test_a_wrong_query_has_the_code_that_openai_has(gateway: GatewayUnderTest, query: str, param: str, code: str) -> None:
    response = await gateway.create()
    status, answer = await gateway.get(f"/v1/responses/{response['id']}/input_items?{query}")
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, param, code)


async def test_the_response_repeats_what_the_request_said(gateway: GatewayUnderTest) -> None:
    asked = {
        "user": "someone",
        "safety_identifier": "hash",
        "prompt_cache_key": "key",
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "temperature": 0.5,
        "top_p": 0.25,
        "metadata": {"a": "b"},
    }
    text = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"}
    response = await gateway.create(**asked, reasoning={"effort": "low"})
    assert {name: response[name] for name in asked} == asked
    assert response["reasoning"] == {"effort": "low", "summary": None}
    described = text | {"format": text["format"] | {"description": "d", "strict": False}}  # type: ignore[operator]
    status, answer = await gateway.post({"model": "mock", "input": "Hi", "text": described, "background": True})
    assert (status, answer["text"]) == (200, described)
    _, answer = await gateway.post({"model": "mock", "input": "Hi", "text": text, "background": True})
    assert "description" not in answer["text"]["format"]


async def test_what_the_request_did_not_say_has_the_default_of_the_api(gateway: GatewayUnderTest) -> None:
    response = await gateway.create(prompt_cache_retention="in-memory")
    assert response["prompt_cache_retention"] == "in_memory"
    response = await gateway.create()
    assert (response["temperature"], response["top_p"], response["service_tier"]) == (1.0, 1.0, "default")
    assert response["reasoning"] == {"effort": None, "summary": None}
    assert response["user"] is None
    assert "prompt_cache_retention" not in response


async def test_a_request_that_only_prepares_a_cache_gets_no_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create(prompt_cache_options={"prewarm": True})
    assert (response["status"], response["output"], engine.requests) == ("completed", [], [])


async def test_counting_the_input_has_the_notices_of_the_request_too(gateway: GatewayUnderTest) -> None:
    body = {"model": "gpt-5", "input": "Hi", "flavour": "sweet"}
    assert (await gateway.post(body, path="/v1/responses/input_tokens"))[0] == 200
    assert gateway.notice == (
        "input_tokens were counted by asking the engine for one token; field flavour is unknown and was left out; "
        "model gpt-5 is not known here: answered by mock"
    )
