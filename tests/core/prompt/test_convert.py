"""Responses requests into chat requests."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.conversions import chat, converted, messages, rejection
from support.items import user

from antiphon.core.exchange.response_object import request_to_response
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import LLAMACPP, LMDEPLOY, OLLAMA, PLAIN, SGLANG, VLLM
from antiphon.core.prompt.chat_request import UNSEEN_IMAGES
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.protocols.responses.fields import FIELDS, request_to_items
from antiphon.core.protocols.responses.read import INTERNAL, body_to_request
from antiphon.wire.responses import CreateResponse, OutputMessage

F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CONTAINER = {"type": "container_auto"}
G = {"type": "function", "name": "g", "description": "Does g.", "parameters": {"type": "object", "properties": {}}}


def sent_call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "function": {"name": name, "arguments": arguments}, "type": "function"}


# ---- tools -----------------------------------------------------------------------------------------------------------


def test_functions_flat_and_nested_become_functions() -> None:
    nested = {"type": "function", "function": {"name": "g", "parameters": None, "strict": True}}
    sent = chat(tools=[F, nested])
    assert sent["tools"] == [
        {"function": {"name": "f", "parameters": F["parameters"]}, "type": "function"},
        {"function": {"name": "g", "parameters": {"type": "object", "properties": {}}, "strict": True}, "type": "function"},
    ]
    assert sent["tool_choice"] == "auto"
    assert sent["parallel_tool_calls"] is True


def test_hosted_tools_are_left_out_and_named() -> None:
    hosted = ["web_search", "file_search", "code_interpreter", "image_generation", "computer_use_preview", "mcp"]
    conversion = converted(tools=[*({"type": kind} for kind in hosted), F])
    assert [tool.function.name for tool in conversion.chat.tools or ()] == ["f"]
    assert len(conversion.notices) == len(hosted)
    assert [tool["type"] for tool in conversion.box.in_response] == [*hosted, "function"]


@pytest.mark.parametrize("tools", [[], None, [{"type": "web_search"}]])
def test_without_tools_none_are_sent(tools: Any) -> None:
    sent = chat(tools=tools, tool_choice="auto", parallel_tool_calls=True)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & sent.keys()


def test_none_offers_nothing() -> None:
    assert "tools" not in chat(tools=[F], tool_choice="none")


def test_a_named_choice_is_that_tool_alone_or_by_name_where_the_engine_accepts_it() -> None:
    for choice in ({"type": "function", "name": "g"}, {"type": "function", "function": {"name": "g"}}):
        sent = chat(tools=[F, G], tool_choice=choice)
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["g"]
        assert sent["tool_choice"] == "required"
        named = chat(tools=[F, G], tool_choice=choice, dialect=VLLM)
        assert len(named["tools"]) == 2
        assert named["tool_choice"] == {"type": "function", "function": {"name": "g"}}


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_are_the_only_ones(mode: str) -> None:
    choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "g"}]}
    sent = chat(tools=[F, G], tool_choice=choice)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["g"]
    assert sent["tool_choice"] == mode


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("sometimes", "tool_choice"),
        ({"type": "function", "name": "nope"}, "tool_choice"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "custom", "name": ""}, "tool_choice.name"),
        ({"type": "shell"}, "tool_choice"),
        ({"type": "allowed_tools", "tools": [{"type": "function", "name": "nope"}]}, "tool_choice.tools[0]"),
        ({"type": "allowed_tools", "mode": "x", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools"}, "tool_choice.tools"),
        ({}, "tool_choice.type"),
    ],
)
def test_a_choice_that_cannot_be_made_is_rejected(choice: Any, param: str) -> None:
    assert rejection(tools=[F], tool_choice=choice).param == param


@pytest.mark.parametrize(
    "kind", ["web_search_preview", "file_search", "mcp", "code_interpreter", "image_generation", "computer", "namespace"]
)
def test_a_choice_of_a_tool_that_does_not_run_here_is_rejected(kind: str) -> None:
    refused = rejection(tools=[{"type": kind, "name": "n", "tools": []}, F], tool_choice={"type": kind, "server_label": "n"})
    assert (refused.param, refused.code) == ("tool_choice", "unsupported_value")
    assert kind in refused.message
    assert "function, custom, tool_search, local_shell, shell, apply_patch" in refused.message


WEB_SEARCH_ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}


@pytest.mark.parametrize("choice", ["required", WEB_SEARCH_ALLOWED], ids=["required", "allowed"])
def test_a_call_is_not_required_of_tools_that_do_not_run_here(choice: Any) -> None:
    refused = rejection(tools=[{"type": "web_search"}], tool_choice=choice)
    assert (refused.param, refused.code) == ("tool_choice", "unsupported_value")
    assert rejection(tool_choice="required").param == "tool_choice"


def test_tools_that_were_left_out_may_be_among_those_allowed() -> None:
    hosted = [{"type": "web_search"}, {"type": "mcp", "server_label": "a"}, {"type": "shell", "environment": CONTAINER}]
    allowed = [
        {"type": "web_search"},
        {"type": "mcp", "server_label": "a"},
        {"type": "shell"},
        {"type": "function", "name": "g"},
    ]
    for mode in ("auto", "required"):
        sent = chat(tools=[*hosted, F, G], tool_choice={"type": "allowed_tools", "mode": mode, "tools": allowed})
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["g"]
    missing = rejection(tools=[F], tool_choice={"type": "allowed_tools", "tools": [{"type": "file_search"}]})
    assert missing.param == "tool_choice.tools[0]"


def test_a_choice_may_leave_out_a_namespace_that_is_clear() -> None:
    agents = {"type": "namespace", "name": "agents", "tools": [{**F, "name": "spawn"}]}
    others = {**agents, "name": "others"}
    spawn = {"type": "function", "name": "spawn"}
    assert [tool["function"]["name"] for tool in chat(tools=[agents], tool_choice=spawn)["tools"]] == ["agents__spawn"]
    assert rejection(tools=[agents, others], tool_choice=spawn).param == "tool_choice"


@pytest.mark.parametrize(
    ("tool", "param"),
    [({}, "tools[0].type"), ({"type": "function"}, "tools[0].name"), ({"type": "function", "name": ""}, "tools[0].name")],
)
def test_a_malformed_tool_is_rejected_by_name(tool: dict[str, Any], param: str) -> None:
    assert rejection(tools=[tool]).param == param


# ---- other fields ----------------------------------------------------------------------------------------------------


def test_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    sent = chat(text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}})
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema, "strict": True},
    }
    assert '"properties"' in sent["messages"][0]["content"]
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in chat(text={"format": {"type": "text"}})
    assert rejection(text={"format": {"type": "json_schema", "name": "n"}}).param == "text.format.schema"
    assert rejection(text={"format": {"type": "grammar"}}).param == "text.format.type"


def test_verbosity_is_a_short_instruction() -> None:
    assert messages("Hi", text={"verbosity": "low"})[0]["role"] == "system"
    assert messages("Hi", text={"verbosity": "medium"}) == [user("Hi")]


@pytest.mark.parametrize(
    ("dialect", "asked", "sent"),
    [
        (PLAIN, "xhigh", "high"),
        (PLAIN, "none", "low"),
        (LLAMACPP, "none", "none"),
        (LLAMACPP, "xhigh", "xhigh"),
        (VLLM, "minimal", "low"),
        (LMDEPLOY, "xhigh", "max"),
        (LMDEPLOY, "none", "low"),
        (OLLAMA, "xhigh", "max"),
        (OLLAMA, "minimal", "low"),
        (PLAIN, "ultra", "medium"),
    ],
)
def test_efforts_are_mapped_to_what_the_engine_accepts_and_a_change_is_noticed(dialect: Dialect, asked: str, sent: str) -> None:
    conversion = converted(dialect=dialect, reasoning={"effort": asked})
    assert conversion.chat.reasoning_effort == sent
    assert bool(conversion.notices) is (asked != sent)


def test_the_limit_of_tokens_has_the_name_that_the_engine_reads() -> None:
    assert chat(max_output_tokens=20, dialect=VLLM)["max_completion_tokens"] == 20
    assert chat(max_output_tokens=20, dialect=OLLAMA)["max_tokens"] == 20


@pytest.mark.parametrize(
    ("dialect", "is_sent"), [(VLLM, True), (LMDEPLOY, True), (SGLANG, True), (PLAIN, False), (LLAMACPP, False)]
)
def test_the_key_of_a_conversation_is_sent_to_engines_that_take_any_field(dialect: Dialect, is_sent: bool) -> None:
    assert chat(prompt_cache_key="thread-1", dialect=dialect).get("prompt_cache_key") == ("thread-1" if is_sent else None)
    assert "prompt_cache_key" not in chat(dialect=dialect)


@pytest.mark.parametrize("place", ["message", "output"])
def test_images_have_a_notice_where_they_are_known_to_be_ignored(place: str) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items: list[dict[str, Any]] = [{"role": "user", "content": [image]}]
    if place == "output":
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        items = [user("Look."), call, {"type": "function_call_output", "call_id": "c", "output": [image]}]
    blind = replace(PLAIN, shows_images=False)
    assert converted(items, dialect=blind).notices == (UNSEEN_IMAGES,)
    assert converted(items, dialect=PLAIN).notices == ()
    assert converted([user("Look.")], dialect=blind).notices == ()


def test_logprobs_are_left_out_where_the_engine_rejects_them_with_tools() -> None:
    assert chat(top_logprobs=3, dialect=LLAMACPP)["top_logprobs"] == 3
    conversion = converted(top_logprobs=3, tools=[F], dialect=LLAMACPP)
    assert not conversion.logprobs
    assert "logprobs" in conversion.notices[0]


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
        ({"moderation": {"model": "m"}}, "moderation", "unsupported_parameter"),
        ({"include": ["nonsense"]}, "include[0]", "invalid_value"),
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"top_p": -1}, "top_p", "decimal_below_min_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
        ({"top_logprobs": 21}, "top_logprobs", "integer_above_max_value"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a", "string_above_max_length"),
        ({"metadata": {"a" * 65: "x"}}, "metadata", "string_above_max_length"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "object_above_max_properties"),
        ({"truncation": "some"}, "truncation", "invalid_value"),
        ({"service_tier": "gold"}, "service_tier", "invalid_value"),
        ({"prompt_cache_retention": "1h"}, "prompt_cache_retention", "invalid_value"),
        ({"prompt_cache_key": "x" * 65}, "prompt_cache_key", "string_above_max_length"),
        ({"safety_identifier": "x" * 65}, "safety_identifier", "string_above_max_length"),
        ({"tools": {}}, "tools", "invalid_type"),
        ({"input": [3]}, "input[0]", "invalid_type"),
        ({"model": 5}, "model", "invalid_type"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"reasoning": {"summary": "loud"}}, "reasoning.summary", "invalid_value"),
        ({"text": {"verbosity": 3}}, "text.verbosity", "invalid_type"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type", "invalid_value"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name", "missing_required_parameter"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", "missing_required_parameter"),
        ({"text": {"format": {"type": "json_schema", "name": "a b", "schema": {}}}}, "text.format.name", "invalid_value"),
        ({"text": {"format": {"type": "json_schema", "name": "a" * 65}}}, "text.format.name", "string_above_max_length"),
    ],
)
def test_what_cannot_be_done_or_is_malformed_is_rejected_by_name(fields: dict[str, Any], param: str, code: str | None) -> None:
    error = rejection(**fields)
    assert (error.param, error.code) == (param, code)


def test_every_field_has_its_policy() -> None:
    assert FIELDS.keys() == set(CreateResponse.__struct_fields__) - INTERNAL


def test_the_response_echoes_what_was_asked_for_and_defaults_what_was_not() -> None:
    request, unknown = body_to_request(
        msgspec.json.encode(
            {
                "input": "x",
                "temperature": 0,
                "tools": [{"type": "function", "function": {"name": "f"}}],
                "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]},
                "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "high"},
                "reasoning": {"effort": "low"},
                "service_tier": "auto",
                "wrong": 1,
            }
        )
    )
    tools = request_to_chat(ChatInputs(request, request_to_items(request), PLAIN, "m")).box.in_response
    response = request_to_response(request, tools, response_id="resp_1", model="m", now=3)
    assert unknown == ["wrong"]
    assert response.temperature == 0
    assert response.top_p == 1
    assert response.tools == [{"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}]
    assert response.tool_choice == {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}], "mode": "auto"}
    assert response.text == {
        "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": False},
        "verbosity": "high",
    }
    assert response.reasoning == {"effort": "low", "summary": None}
    assert response.service_tier == "default"


def test_a_request_that_sets_nothing_has_the_same_response_as_one_that_sets_the_defaults() -> None:
    plain, _ = body_to_request(b'{"model":"m","input":"x"}')
    defaults = {"temperature": 1.0, "top_p": 1.0, "truncation": "disabled", "tool_choice": "auto", "metadata": {}}
    spelled, _ = body_to_request(msgspec.json.encode({"model": "m", "input": "x", **defaults}))
    made = [request_to_response(each, (), response_id="resp_1", model="m", now=3) for each in (plain, spelled)]
    assert made[0] == made[1]
    # Each has lists of its own.
    made[0].output.append(OutputMessage(id="msg_1", status="completed"))
    made[0].tools.append({})
    made[0].metadata["a"] = "b"
    assert made[0].reasoning is not None
    made[0].reasoning["effort"] = "low"
    assert request_to_response(plain, (), response_id="resp_1", model="m", now=3) == made[1]
