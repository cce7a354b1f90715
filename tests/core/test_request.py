"""Responses requests into chat requests."""

import base64
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from antiphon.core.dialect import Dialect
from antiphon.core.request import Conversion, request_to_chat
from antiphon.core.request_fields import FIELDS, request_to_items
from antiphon.core.response_object import request_to_response
from antiphon.core.validation import body_to_request
from antiphon.dialects import LLAMACPP, LMDEPLOY, OLLAMA, PLAIN, VLLM
from antiphon.errors import InvalidRequest
from antiphon.wire.responses import CreateResponse

F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CONTAINER = {"type": "container_auto"}
G = {"type": "function", "name": "g", "description": "Does g.", "parameters": {"type": "object", "properties": {}}}


def converted(input: Any = "Hi", dialect: Dialect = PLAIN, **fields: Any) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": input, **fields}))
    return request_to_chat(request, request_to_items(request), dialect, "m")


def chat(input: Any = "Hi", dialect: Dialect = PLAIN, **fields: Any) -> dict[str, Any]:
    sent: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(converted(input, dialect, **fields).chat))
    return sent


def messages(input: Any, dialect: Dialect = PLAIN, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chat(input, dialect, **fields)["messages"]
    return found


def rejection(input: Any = "Hi", **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        converted(input, **fields)
    return raised.value


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def function_call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, value: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def sent_call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "function": {"name": name, "arguments": arguments}, "type": "function"}


# ---- messages --------------------------------------------------------------------------------------------------------


def test_instructions_system_and_developer_text_are_one_leading_system_message_in_order() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "two"}, {"type": "input_text", "text": "three"}]},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "four"},
    ]
    assert messages(items, instructions="one") == [
        {"role": "system", "content": "one\n\ntwo\nthree\n\nfour"},
        user("Hi"),
    ]


def test_a_developer_message_after_an_assistant_turn_stays_at_its_position() -> None:
    items = [user("Hi"), {"role": "assistant", "content": "Hello"}, {"role": "developer", "content": "Be brief."}, user("Go")]
    assert messages(items) == [
        user("Hi"),
        {"role": "assistant", "content": "Hello"},
        user("<system_message>\nBe brief.\n</system_message>"),
        user("Go"),
    ]


def test_without_a_system_role_the_text_goes_in_front_of_the_first_user_message() -> None:
    assert messages("Hi", replace(PLAIN, takes_system_role=False), instructions="Be kind.") == [user("Be kind.\n\nHi")]


def test_the_parts_of_a_user_message() -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "high"},
        {"type": "input_image", "image_url": "http://x/y.png", "detail": "original"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
    ]
    assert messages([{"role": "user", "content": content}]) == [
        user(
            [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
            ]
        )
    ]


@pytest.mark.parametrize("prefix", ["", "data:text/plain;base64,"])
def test_a_text_file_becomes_text_with_its_name(prefix: str) -> None:
    data = prefix + base64.b64encode("héllo".encode()).decode()
    part = {"type": "input_file", "filename": "a.txt", "file_data": data}
    assert messages([{"role": "user", "content": [part]}]) == [user('<file name="a.txt">\nhéllo\n</file>')]


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_file", "file_data": base64.b64encode(b"\xff\x00").decode()}, "file_data"),
        ({"type": "input_file", "file_data": "!!"}, "file_data"),
        ({"type": "input_file", "file_id": "file-1"}, "file_data"),
        ({"type": "input_image", "file_id": "file-1"}, "image_url"),
        ({"type": "input_text"}, "text"),
        ({"type": "input_video", "video_url": "x"}, "type"),
        ({}, "type"),
    ],
)
def test_a_part_that_cannot_be_sent_is_rejected_by_name(part: dict[str, Any], param: str) -> None:
    assert rejection([{"role": "user", "content": [part]}]).param == f"input[0].content[0].{param}"


def test_refusals_and_output_text_of_the_assistant_are_its_text() -> None:
    content = [{"type": "output_text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "b"}]
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}
    assert messages([user("Hi"), item, user("x")])[1] == {"role": "assistant", "content": "a\nb"}


def test_a_last_assistant_message_is_not_continued() -> None:
    items = [user("Hi"), {"role": "assistant", "content": "Hello"}]
    assert messages(items, LLAMACPP)[-1]["role"] == "user"
    assert messages(items, VLLM)[-1]["role"] == "assistant"


# ---- calls and reasoning ---------------------------------------------------------------------------------------------


def test_a_turns_reasoning_text_and_calls_are_one_message_and_the_outputs_follow_in_call_order() -> None:
    items = [
        user("Hi"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "well"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        function_call("a"),
        function_call("b", "g"),
        output("b", "from b"),
        output("a", {"type": "text", "text": "from a"}),
        user("Thanks"),
    ]
    assert messages(items, LLAMACPP) == [
        user("Hi"),
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "hm\n\nwell",
            "tool_calls": [sent_call("a"), sent_call("b", "g")],
        },
        {"role": "tool", "content": "from a", "tool_call_id": "a"},
        {"role": "tool", "content": "from b", "tool_call_id": "b"},
        user("Thanks"),
    ]


def test_reasoning_goes_back_in_the_member_that_the_dialect_names() -> None:
    items = [user("Hi"), {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, function_call("a")]
    items.append(output("a"))
    assert messages(items, VLLM)[1]["reasoning"] == "hm"
    assert messages(items, LMDEPLOY)[1]["reasoning_content"] == "hm"
    assert messages(items, PLAIN)[1]["content"] == "<think>\nhm\n</think>\n\n"


def test_calls_in_sequence_are_turns_of_their_own() -> None:
    items = [user("Hi"), function_call("a"), output("a"), function_call("b"), output("b")]
    assert [message["role"] for message in messages(items)] == ["user", "assistant", "tool", "assistant", "tool"]


def test_ids_that_repeat_from_turn_to_turn_keep_their_own_outputs() -> None:
    items = [user("Hi"), function_call("x"), output("x", "one"), function_call("x"), output("x", "two")]
    assert [message["content"] for message in messages(items) if message["role"] == "tool"] == ["one", "two"]


def test_an_output_belongs_to_the_latest_turn_that_waits_for_it() -> None:
    items = [user("Hi"), function_call("x", "f"), user("No"), function_call("x", "g"), output("x", "from g")]
    sent = messages(items)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user", "assistant", "tool"]
    assert "no output" in sent[2]["content"]
    assert sent[-1]["content"] == "from g"


def test_parallel_calls_with_one_id_keep_their_own_outputs() -> None:
    calls = [function_call("x", arguments='{"a":1}'), function_call("x", arguments='{"a":2}')]
    sent = messages([user("Hi"), *calls, output("x", "one"), output("x", "two")])
    assert [message["content"] for message in sent] == ["Hi", "", "one", "two"]


def test_a_call_that_is_sent_again_with_its_output_counts_once() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    said = {"role": "assistant", "content": "Let me see."}
    calls = [function_call("a", arguments='{"x": 1}'), function_call("b")]
    again = [function_call("a", arguments='{"x":1}'), output("a", "one"), function_call("b"), output("b", "two")]
    stored = [user("Hi"), thought, said, *calls]
    assert messages([*stored, thought, said, *again]) == messages([*stored, output("a", "one"), output("b", "two")])
    assert any("call a was sent again" in notice for notice in converted([*stored, *again]).notices)


def test_a_call_that_is_sent_again_with_other_arguments_replaces_the_first() -> None:
    stored = [user("Hi"), function_call("a", arguments='{"x": 1}'), function_call("b")]
    again = [function_call("a", arguments='{"x": 2}'), function_call("b"), output("a", "one"), output("b", "two")]
    outputs = [output("a", "one"), output("b", "two")]
    expected = messages([user("Hi"), function_call("a", arguments='{"x": 2}'), function_call("b"), *outputs])
    assert messages([*stored, *again]) == expected
    notices = converted([*stored, *again]).notices
    assert "call a was sent again with other arguments: these count" in notices
    assert not any("placeholder" in notice for notice in notices)


def test_an_output_that_is_sent_again_counts_once() -> None:
    rounds = [user("Hi"), function_call("a"), output("a", "one")]
    assert messages([*rounds, output("a", "one")]) == messages(rounds)
    assert converted([*rounds, output("a", "one")]).notices == ("the output of call a was sent again: it counts once",)
    # Another output is not the same one.
    assert messages([*rounds, output("a", "two")])[-1]["content"] == "one\ntwo"


def test_a_user_message_that_is_sent_again_between_a_call_and_its_output_counts_once() -> None:
    rounds = [user("Hi"), function_call("a"), output("a"), function_call("b"), output("b")]
    again = [user("Hi"), function_call("a"), user("Hi"), output("a"), function_call("b"), user("Hi"), output("b")]
    conversion = converted(again)
    assert messages(again) == messages(rounds)
    assert any("user message between a call and its output" in notice for notice in conversion.notices)


def test_an_empty_user_message_between_a_call_and_its_output_is_left_out() -> None:
    asked, called = (
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    )
    output = {"type": "function_call_output", "call_id": "a", "output": "sunny"}
    conversion = converted([asked, called, {"role": "user", "content": ""}, output])
    assert [message.role for message in conversion.chat.messages] == ["user", "assistant", "tool"]
    assert any("it is empty" in notice for notice in conversion.notices)


def test_a_prompt_ends_with_the_outputs_where_a_user_message_came_between_a_call_and_its_output() -> None:
    calls = [function_call("a"), function_call("b")]
    sent = messages([user("Hi"), *calls, user("Hurry"), output("a"), user("!"), output("b", "B")])
    assert [message["role"] for message in sent] == ["user", "user", "user", "assistant", "tool", "tool"]
    assert [message["content"] for message in sent[:3]] == ["Hi", "Hurry", "!"]
    assert sent[-1]["content"] == "B"


def test_an_output_that_comes_after_another_turn_leaves_the_order_as_it_is() -> None:
    said = {"role": "assistant", "content": "Fine."}
    sent = messages([user("Hi"), function_call("a"), user("Wait"), said, user("Now"), output("a", "late")])
    assert [message["content"] for message in sent] == ["Hi", "", "late", "Wait", "Fine.", "Now"]


def test_an_image_in_an_output_moves_to_a_user_message() -> None:
    parts = [{"type": "input_text", "text": "done"}, {"type": "input_image", "image_url": "data:x"}]
    items = [user("Hi"), function_call("a"), function_call("b"), output("a", parts), output("b", parts[1:])]
    sent = messages(items)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[2]["content"] == "done"
    assert "next message" in sent[3]["content"]
    assert sent[4]["content"] == [{"type": "image_url", "image_url": {"url": "data:x"}}] * 2


def test_a_call_without_an_output_gets_a_placeholder_and_a_notice() -> None:
    conversion = converted([user("Hi"), function_call("a"), user("Never mind")])
    assert conversion.chat.messages[2].role == "tool"
    assert conversion.notices == ("call a has no output: a placeholder was sent",)


def test_an_output_without_its_call_is_rejected() -> None:
    error = rejection([user("Hi"), output("nope")])
    assert error.param == "input[1].call_id"
    assert "nope" in error.message


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("  ", "{}"),
        ("[1]", '{"value":[1]}'),
        ("3", '{"value":3}'),
        ("null", '{"value":null}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('{"a": ', '{"invalid_json":"{\\"a\\": "}'),
        ("ls -la", '{"invalid_json":"ls -la"}'),
    ],
)
def test_arguments_are_always_an_object(written: str, sent: str) -> None:
    items = [user("Hi"), function_call("a", arguments=written), output("a")]
    assert messages(items)[1]["tool_calls"][0]["function"]["arguments"] == sent


def test_arguments_that_had_to_be_rewritten_are_noticed_once_for_each_call() -> None:
    broken = [function_call("a", arguments='{"a": '), function_call("b", arguments="ls"), function_call("c", arguments="")]
    items = [user("Hi"), *broken, *(output(call["call_id"]) for call in broken), user("x"), broken[0], output("a")]
    notices = converted(items).notices
    assert [notice.split(":")[0] for notice in notices] == ["call a", "call b"]
    assert converted([user("Hi"), function_call("a"), output("a")]).notices == ()


def test_arguments_that_come_as_an_object_are_written_out() -> None:
    call: dict[str, Any] = function_call("a") | {"arguments": {"x": 1}}
    assert messages([user("Hi"), call, output("a")])[1]["tool_calls"][0]["function"]["arguments"] == '{"x":1}'


# ---- other items -----------------------------------------------------------------------------------------------------


def test_custom_calls_are_sent_as_calls() -> None:
    items = [
        user("Hi"),
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "Done"},
    ]
    assert messages(items)[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [sent_call("a", "apply_patch", '{"input":"*** Begin"}')]},
        {"role": "tool", "content": "Done", "tool_call_id": "a"},
    ]


def test_calls_of_other_tools_are_sent_as_calls() -> None:
    items = [
        user("Hi"),
        {"type": "local_shell_call", "id": "lsh", "call_id": "a", "action": {"command": ["ls"]}, "status": "completed"},
        {"type": "local_shell_call_output", "id": "a", "output": "x"},
        {"type": "tool_search_call", "call_id": "b", "arguments": {"query": "q"}},
        {"type": "tool_search_output", "call_id": "b", "tools": []},
    ]
    sent = messages(items)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "tool"]
    assert sent[1]["tool_calls"] == [sent_call("a", "local_shell", '{"command":["ls"]}')]


def test_what_hosted_tools_did_is_a_note() -> None:
    items = [user("Hi"), {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}}, user("x")]
    assert messages(items)[1] == {"role": "assistant", "content": '[web_search_call: {"action":{"query":"q"}}]'}


def test_an_agents_message_is_a_user_message_that_names_its_author() -> None:
    content = [{"type": "input_text", "text": "Done."}, {"type": "encrypted_content", "encrypted_content": "gAAAA" * 20}]
    conversion = converted([{"type": "agent_message", "author": "/root/sub", "content": content}])
    assert conversion.chat.messages[0].content == "Message from /root/sub:\nDone."
    assert len(conversion.notices) == 1


def test_a_compaction_is_introduced_as_one() -> None:
    conversion = converted([{"type": "compaction", "encrypted_content": "x"}, user("Hi")])
    assert "cannot be read" in str(conversion.chat.messages[0].content)
    assert "input[0]" in conversion.notices[0]


def test_additional_tools_are_offered_like_the_others() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [F]}
    assert chat([item, user("Hi")])["tools"][0]["function"]["name"] == "f"


@pytest.mark.parametrize("kind", ["mystery", "mcp_list_tools", "configuration_update"])
def test_an_item_that_means_nothing_here_is_dropped_with_a_notice(kind: str) -> None:
    conversion = converted([{"type": kind}, user("Hi")])
    assert conversion.notices == (f"input[0]: {kind} was left out",)
    assert len(conversion.chat.messages) == 1


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({}, "input[0].type"),
        ({"type": 3}, "input[0].type"),
        ({"role": "king", "content": "x"}, "input[0].role"),
        ({"role": "user"}, "input[0].content"),
        ({"role": "user", "content": 3}, "input[0].content"),
        ({"type": "function_call", "name": "f"}, "input[0].call_id"),
        ({"type": "function_call", "call_id": "a", "name": 1}, "input[0].name"),
        ({"type": "reasoning", "summary": 1}, "input[0].summary"),
    ],
)
def test_a_malformed_item_is_rejected_by_name(item: dict[str, Any], param: str) -> None:
    error = rejection([item])
    assert error.param == param
    assert param in error.message


@pytest.mark.parametrize("nothing", [[], None, ""])
def test_an_empty_input_is_rejected(nothing: Any) -> None:
    if nothing == "":
        assert messages("") == [user("")]
    else:
        assert rejection(nothing).param == "input"


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
    assert [tool["type"] for tool in conversion.box.echo] == [*hosted, "function"]


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
    assert FIELDS.keys() == set(CreateResponse.__struct_fields__)


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
    tools = request_to_chat(request, request_to_items(request), PLAIN, "m").box.echo
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
