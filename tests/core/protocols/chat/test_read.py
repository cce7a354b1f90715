"""Requests of Chat Completions as they are read: each field, each message, each tool."""

from typing import Any

import pytest
from support.chat import CALL, USER, WEATHER, read

from antiphon.core.protocols.chat.messages import BREAKPOINTS, NAMES
from antiphon.core.protocols.chat.protocol import CHAT
from antiphon.core.protocols.chat.read import NO_EFFECT, NOT_STORED, PADDING
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS, LOGPROBS
from antiphon.errors import InvalidRequest
from antiphon.wire.chat_completions import ChatStreamOptions
from antiphon.wire.responses import Beyond, CreateResponse, ReasoningOptions, TextFormat, TextOptions


def request(**fields: Any) -> CreateResponse:
    made = read(**{"tools": [WEATHER], **fields})
    assert not made.passes
    return made.request


def items(*messages: dict[str, Any]) -> Any:
    return request(messages=list(messages)).input


# What a client sends → the fields of the request that come of it.
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "model": ({"model": "m"}, {"model": "m"}),
    "max_tokens": ({"max_tokens": 5}, {"max_output_tokens": 5}),
    "max_completion_tokens": ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_output_tokens": 6}),
    "any length": ({"max_tokens": -1}, {"max_output_tokens": None}),
    "temperature": ({"temperature": 2.5}, {"temperature": 2.5}),
    "top_p": ({"top_p": 0.5}, {"top_p": 0.5}),
    "presence_penalty": ({"presence_penalty": 1}, {"presence_penalty": 1}),
    "frequency_penalty": ({"frequency_penalty": 1}, {"frequency_penalty": 1}),
    "stop": ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
    "one stop": ({"stop": "a"}, {"stop": "a"}),
    "no stop": ({"stop": []}, {"stop": None}),
    "seed": ({"seed": 7}, {"seed": 7}),
    "logprobs": ({"logprobs": True}, {"include": [LOGPROBS], "top_logprobs": None}),
    "top_logprobs": ({"logprobs": True, "top_logprobs": 3}, {"include": [LOGPROBS], "top_logprobs": 3}),
    "no logprobs": ({"logprobs": False, "top_logprobs": 3}, {"include": None, "top_logprobs": None}),
    "user": ({"user": "ada"}, {"user": "ada"}),
    "metadata": ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
    "store": ({"store": True}, {"store": False}),
    "reasoning_effort": ({"reasoning_effort": "low"}, {"reasoning": ReasoningOptions(effort="low")}),
    "verbosity": ({"verbosity": "low"}, {"text": TextOptions(verbosity="low")}),
    "stream": ({"stream": True}, {"stream": True}),
    "include_usage": (
        {"stream_options": {"include_usage": True, "include_obfuscation": True}},
        {"stream_options": ChatStreamOptions(include_usage=True)},
    ),
    "service_tier": ({"service_tier": "flex"}, {"service_tier": "flex"}),
    "prompt_cache_key": ({"prompt_cache_key": "k" * 65}, {"prompt_cache_key": "k" * 65}),
    "safety_identifier": ({"safety_identifier": "s"}, {"safety_identifier": "s"}),
    "parallel_tool_calls": ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    "a function": ({"tools": [WEATHER]}, {"tools": [WEATHER]}),
    "a function without a type": (
        {"tools": [{"function": {"name": "f"}}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
    ),
    "a custom tool": (
        {"tools": [{"type": "custom", "custom": {"name": "run", "description": "d", "format": {"type": "text"}}}]},
        {"tools": [{"type": "custom", "name": "run", "description": "d"}]},
    ),
    "a grammar": (
        {
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "run",
                        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
                    },
                }
            ]
        },
        {"tools": [{"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}]},
    ),
    "auto": ({"tool_choice": "auto"}, {"tool_choice": "auto"}),
    "none": ({"tool_choice": "none"}, {"tool_choice": "none"}),
    "required": ({"tool_choice": "required"}, {"tool_choice": "required"}),
    "a named function": (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    ),
    "a named tool": (
        {"tool_choice": {"type": "custom", "custom": {"name": "f"}}},
        {"tool_choice": {"type": "custom", "name": "f"}},
    ),
    "allowed_tools": (
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "f"}}]},
            }
        },
        {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "f"}]}},
    ),
    "json_object": ({"response_format": {"type": "json_object"}}, {"text": TextOptions(TextFormat("json_object"))}),
    "text": ({"response_format": {"type": "text"}}, {"text": None}),
    "json_schema": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "schema": {}, "strict": True},
            }
        },
        {"text": TextOptions(TextFormat("json_schema", "n", "d", {}, True))},
    ),
    "a schema without a name": (
        {"response_format": {"type": "json_object", "schema": {"type": "object"}}},
        {"text": TextOptions(TextFormat("json_schema", "answer", None, {"type": "object"}, None))},
    ),
    "fields of the engine": (
        {"top_k": 40, "min_p": None, "chat_template_kwargs": {"a": 1}, "n": 1, "logit_bias": {}},
        {"beyond": Beyond(engine_fields={"top_k": 40, "chat_template_kwargs": {"a": 1}}, passes_extras=True)},
    ),
}


@pytest.mark.parametrize("row", FIELDS)
def test_a_field_is_read(row: str) -> None:
    sent, expected = FIELDS[row]
    made = request(**sent)
    assert {name: getattr(made, name) for name in expected} == expected


MESSAGES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "system": ({"role": "system", "content": "Be brief."}, [{"type": "message", "role": "system", "content": "Be brief."}]),
    "developer": (
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        [{"type": "message", "role": "system", "content": [{"type": "text", "text": "Be brief."}]}],
    ),
    "user": (USER, [{"type": "message", "role": "user", "content": "Hi"}]),
    "parts": (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
                {"type": "image_url", "image_url": "https://example.com/b.png"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file_1"}},
                {"type": "file", "file": {"file_data": "data:,a", "filename": "a.txt"}},
            ],
        },
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
                    {"type": "input_image", "image_url": "https://example.com/b.png"},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "input_file", "file_id": "file_1"},
                    {"type": "input_file", "file_data": "data:,a", "filename": "a.txt"},
                ],
            }
        ],
    ),
    "an answer": ({"role": "assistant", "content": "Yes."}, [{"type": "message", "role": "assistant", "content": "Yes."}]),
    "a refusal": ({"role": "assistant", "refusal": "No."}, [{"type": "message", "role": "assistant", "content": "No."}]),
    "words and a refusal": (
        {"role": "assistant", "content": "Hm.", "refusal": "No."},
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "Hm."}, {"type": "refusal", "refusal": "No."}],
            }
        ],
    ),
    "an empty answer": ({"role": "assistant", "content": ""}, [{"type": "message", "role": "assistant", "content": ""}]),
    "a thought, words and calls": (
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "Hm",
            "refusal": None,
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": [CALL, {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}}],
        },
        [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]},
            {"type": "message", "role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "ls"},
        ],
    ),
    "a thought by its other name": (
        {"role": "assistant", "reasoning": "Hm", "content": "Yes."},
        [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]},
            {"type": "message", "role": "assistant", "content": "Yes."},
        ],
    ),
    "what is left of a thought": (
        {"role": "assistant", "reasoning_content": "\n", "content": "Yes."},
        [{"type": "message", "role": "assistant", "content": "Yes."}],
    ),
    "arguments as an object": (
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
        [{"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'}],
    ),
}


@pytest.mark.parametrize("row", MESSAGES)
def test_a_message_becomes_items(row: str) -> None:
    message, expected = MESSAGES[row]
    assert items(message, USER)[:-1] == expected


def test_a_result_belongs_to_its_call() -> None:
    calls = [CALL, {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}}]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    results: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny", "name": "get_weather"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "a"}, image]},
        {"role": "tool", "tool_call_id": "call_2", "content": None},
    ]
    read_items = items(USER, {"role": "assistant", "content": None, "tool_calls": calls}, *results)
    assert read_items[3:] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"},
        {
            "type": "custom_tool_call_output",
            "call_id": "call_2",
            "output": [
                {"type": "text", "text": "a"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": None},
            ],
        },
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": ""},
    ]


def test_nothing_is_left_out_without_a_notice() -> None:
    marked = {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    made = read(
        tools=[WEATHER],
        messages=[USER | {"name": "ada"}, USER | {"name": "bob"}, {"role": "user", "content": [marked, marked]}],
        store=True,
        stream_options={"include_obfuscation": True},
        prompt_cache_options={"mode": "explicit"},
        safety_identifier="s",
    )
    idle = ["prompt_cache_options", "safety_identifier", PADDING]
    assert made.notices[1:] == [NAMES, BREAKPOINTS, NOT_STORED, *(NO_EFFECT.format(field=field) for field in idle)]
    assert made.unknown == ()
    assert made.request.beyond is not None
    assert made.request.beyond.engine_fields is None


def test_who_asks_for_moderation_relies_on_it() -> None:
    with pytest.raises(InvalidRequest) as refused:
        request(moderation={"model": "omni-moderation-latest"})
    assert (refused.value.param, refused.value.code) == ("moderation", "unsupported_parameter")


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no messages": ({"messages": []}, "messages", "empty_array"),
    "messages that are none": ({"messages": "Hi"}, "messages", "invalid_type"),
    "a role that is missing": ({"messages": [{"content": "Hi"}]}, "messages[0].role", "missing_required_parameter"),
    "a user without content": ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
    "content that is none": ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_type"),
    "an image without an address": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].image_url.url",
        "missing_required_parameter",
    ),
    "a result without a call": (
        {"messages": [USER, {"role": "tool", "tool_call_id": "x", "content": "1"}]},
        "messages[1].tool_call_id",
        "tool_call_not_found",
    ),
    "a call without a name": (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "x", "function": {}}]}, USER]},
        "messages[0].tool_calls[0].function.name",
        "missing_required_parameter",
    ),
    "no tokens": ({"max_tokens": 0}, "max_tokens", "integer_below_min_value"),
    "fewer than no tokens": ({"max_completion_tokens": -2}, "max_completion_tokens", "integer_below_min_value"),
    "a temperature in words": ({"temperature": "hot"}, "temperature", "invalid_type"),
    "a schema that is missing": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        "response_format.json_schema.schema",
        "missing_required_parameter",
    ),
    "a custom tool without a name": (
        {"tools": [{"type": "custom", "custom": {}}]},
        "tools[0].custom.name",
        "missing_required_parameter",
    ),
    "allowed tools that are missing": (
        {"tool_choice": {"type": "allowed_tools"}},
        "tool_choice.allowed_tools",
        "missing_required_parameter",
    ),
    "too many tools": ({"tools": [WEATHER] * 2001}, "tools", "array_above_max_length"),
}


@pytest.mark.parametrize("row", WRONG)
def test_what_is_wrong_is_named(row: str) -> None:
    fields, param, code = WRONG[row]
    with pytest.raises(InvalidRequest) as refused:
        request(**fields)
    assert (refused.value.param, refused.value.code) == (param, code)


def test_what_is_passed_on_keeps_its_model_and_nothing_else() -> None:
    made = read(model="m", temperature=5)
    assert made.passes
    assert made.request == CreateResponse(model="m")
    assert read(model=5).request.model is None


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        CHAT.read(b"{", {}, DEFAULT_LIMITS)
    assert refused.value.code == "invalid_json"
    assert CHAT.read(b"[1]", {}, DEFAULT_LIMITS).passes
