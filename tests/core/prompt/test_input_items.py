"""Input items into chat messages."""

import base64
from typing import Any

import pytest
from msgspec.structs import replace
from support.conversions import chat, converted, messages, rejection
from support.items import call_output, function_call, user

from antiphon.core.knowledge.dialects import LLAMACPP, LMDEPLOY, PLAIN, VLLM

F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CONTAINER = {"type": "container_auto"}
G = {"type": "function", "name": "g", "description": "Does g.", "parameters": {"type": "object", "properties": {}}}


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


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "a"},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}], "id": "msg_1"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "a"}], "status": "incomplete"},
        {"role": "assistant", "content": ""},
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "a"}]},
    ],
)
def test_a_message_is_read_in_the_same_way_with_and_without_its_type(message: dict[str, Any]) -> None:
    """A plain one with its type is read without the checks that others need."""
    before = [user("Hi"), {"type": "function_call", "call_id": "c", "name": "f"}]
    for items in ([], before):
        assert messages([*items, {"type": "message", **message}]) == messages([*items, message])


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
        ({"type": "input_file", "file_data": "!!"}, "file_data"),
        ({"type": "input_file", "filename": "a.txt"}, "file_data"),
        ({"type": "input_file", "file_url": "https://example.com/a.txt"}, "file_url"),
        ({"type": "input_image", "detail": "low"}, "image_url"),
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
        call_output("b", "from b"),
        call_output("a", {"type": "text", "text": "from a"}),
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
    items.append(call_output("a"))
    assert messages(items, VLLM)[1]["reasoning"] == "hm"
    assert messages(items, LMDEPLOY)[1]["reasoning_content"] == "hm"
    assert messages(items, PLAIN)[1]["content"] == "<think>\nhm\n</think>\n\n"


def test_calls_in_sequence_are_turns_of_their_own() -> None:
    items = [user("Hi"), function_call("a"), call_output("a"), function_call("b"), call_output("b")]
    assert [message["role"] for message in messages(items)] == ["user", "assistant", "tool", "assistant", "tool"]


def test_ids_that_repeat_from_turn_to_turn_keep_their_own_outputs() -> None:
    items = [user("Hi"), function_call("x"), call_output("x", "one"), function_call("x"), call_output("x", "two")]
    assert [message["content"] for message in messages(items) if message["role"] == "tool"] == ["one", "two"]


def test_an_output_belongs_to_the_latest_turn_that_waits_for_it() -> None:
    items = [user("Hi"), function_call("x", "f"), user("No"), function_call("x", "g"), call_output("x", "from g")]
    sent = messages(items)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user", "assistant", "tool"]
    assert "no output" in sent[2]["content"]
    assert sent[-1]["content"] == "from g"


def test_parallel_calls_with_one_id_keep_their_own_outputs() -> None:
    calls = [function_call("x", arguments='{"a":1}'), function_call("x", arguments='{"a":2}')]
    sent = messages([user("Hi"), *calls, call_output("x", "one"), call_output("x", "two")])
    assert [message["content"] for message in sent] == ["Hi", "", "one", "two"]


def test_a_call_that_is_sent_again_with_its_output_counts_once() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    said = {"role": "assistant", "content": "Let me see."}
    calls = [function_call("a", arguments='{"x": 1}'), function_call("b")]
    again = [function_call("a", arguments='{"x":1}'), call_output("a", "one"), function_call("b"), call_output("b", "two")]
    stored = [user("Hi"), thought, said, *calls]
    assert messages([*stored, thought, said, *again]) == messages([*stored, call_output("a", "one"), call_output("b", "two")])
    assert any("call a was sent again" in notice for notice in converted([*stored, *again]).notices)


def test_a_call_that_is_sent_again_with_other_arguments_replaces_the_first() -> None:
    stored = [user("Hi"), function_call("a", arguments='{"x": 1}'), function_call("b")]
    again = [function_call("a", arguments='{"x": 2}'), function_call("b"), call_output("a", "one"), call_output("b", "two")]
    outputs = [call_output("a", "one"), call_output("b", "two")]
    expected = messages([user("Hi"), function_call("a", arguments='{"x": 2}'), function_call("b"), *outputs])
    assert messages([*stored, *again]) == expected
    notices = converted([*stored, *again]).notices
    assert "call a was sent again with other arguments: these count" in notices
    assert not any("placeholder" in notice for notice in notices)


def test_an_output_that_is_sent_again_counts_once() -> None:
    rounds = [user("Hi"), function_call("a"), call_output("a", "one")]
    assert messages([*rounds, call_output("a", "one")]) == messages(rounds)
    assert converted([*rounds, call_output("a", "one")]).notices == ("the output of call a was sent again: it counts once",)
    # Another output is not the same one.
    assert messages([*rounds, call_output("a", "two")])[-1]["content"] == "one\ntwo"


def test_a_user_message_that_is_sent_again_between_a_call_and_its_output_counts_once() -> None:
    rounds = [user("Hi"), function_call("a"), call_output("a"), function_call("b"), call_output("b")]
    again = [user("Hi"), function_call("a"), user("Hi"), call_output("a"), function_call("b"), user("Hi"), call_output("b")]
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
    sent = messages([user("Hi"), *calls, user("Hurry"), call_output("a"), user("!"), call_output("b", "B")])
    assert [message["role"] for message in sent] == ["user", "user", "user", "assistant", "tool", "tool"]
    assert [message["content"] for message in sent[:3]] == ["Hi", "Hurry", "!"]
    assert sent[-1]["content"] == "B"


def test_an_output_that_comes_after_another_turn_leaves_the_order_as_it_is() -> None:
    said = {"role": "assistant", "content": "Fine."}
    sent = messages([user("Hi"), function_call("a"), user("Wait"), said, user("Now"), call_output("a", "late")])
    assert [message["content"] for message in sent] == ["Hi", "", "late", "Wait", "Fine.", "Now"]


def test_an_image_in_an_output_moves_to_a_user_message() -> None:
    parts = [{"type": "input_text", "text": "done"}, {"type": "input_image", "image_url": "data:x"}]
    items = [user("Hi"), function_call("a"), function_call("b"), call_output("a", parts), call_output("b", parts[1:])]
    sent = messages(items)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[2]["content"] == "done"
    assert "next user message" in sent[3]["content"]
    assert sent[4]["content"] == [{"type": "image_url", "image_url": {"url": "data:x"}}] * 2


def test_a_call_without_an_output_gets_a_placeholder_and_a_notice() -> None:
    conversion = converted([user("Hi"), function_call("a"), user("Never mind")])
    assert conversion.chat.messages[2].role == "tool"
    assert conversion.notices == ("call a has no output: a placeholder was sent",)


def test_an_output_without_its_call_is_rejected() -> None:
    error = rejection([user("Hi"), call_output("nope")])
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
    items = [user("Hi"), function_call("a", arguments=written), call_output("a")]
    assert messages(items)[1]["tool_calls"][0]["function"]["arguments"] == sent


def test_arguments_that_had_to_be_rewritten_are_noticed_once_for_each_call() -> None:
    broken = [function_call("a", arguments='{"a": '), function_call("b", arguments="ls"), function_call("c", arguments="")]
    items = [user("Hi"), *broken, *(call_output(call["call_id"]) for call in broken), user("x"), broken[0], call_output("a")]
    notices = converted(items).notices
    assert [notice.split(":")[0] for notice in notices] == ["call a", "call b"]
    assert converted([user("Hi"), function_call("a"), call_output("a")]).notices == ()


def test_arguments_that_come_as_an_object_are_written_out() -> None:
    call: dict[str, Any] = function_call("a") | {"arguments": {"x": 1}}
    assert messages([user("Hi"), call, call_output("a")])[1]["tool_calls"][0]["function"]["arguments"] == '{"x":1}'


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


@pytest.mark.parametrize("kind", ["mystery", "computer_call_output", "configuration_update"])
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
