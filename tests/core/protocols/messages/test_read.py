"""A request of Anthropic Messages as a request of the Responses API."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS
from antiphon.errors import InvalidRequest
from antiphon.wire.responses import Beyond

PNG = "iVBORw0KGgo="


def read(headers: Mapping[str, str] | None = None, **members: Any) -> ReadRequest:
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], **members}
    return MESSAGES.read(msgspec.json.encode(body), headers or {}, DEFAULT_LIMITS)


def items(*messages: dict[str, Any]) -> Any:
    return read(messages=list(messages)).request.input


def of_user(*blocks: dict[str, Any]) -> Any:
    return items({"role": "user", "content": list(blocks)})


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(parts)}


def said(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


# ---- messages --------------------------------------------------------------------------------------------------------

# A block of the user → the parts that it becomes.
PARTS = [
    ({"type": "text", "text": "Hi"}, [said("Hi")]),
    ({"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}, [said("Hi")]),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}],
    ),
    (
        {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
        [{"type": "input_image", "image_url": "https://a.example/b.png"}],
    ),
    (
        {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
        [{"type": "input_image", "file_id": "file-1"}],
    ),
    (
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
        [{"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg==", "filename": "a.pdf"}],
    ),
    (
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "The text."},
            "title": "T",
            "context": "C",
        },
        [said("T"), said("C"), said("The text.")],
    ),
    (
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Inside."}]}},
        [said("Inside.")],
    ),
    ({"type": "document", "source": {"type": "file", "file_id": "file-1"}}, [{"type": "input_file", "file_id": "file-1"}]),
    (
        {"type": "document", "source": {"type": "file", "file_id": "file-1"}, "title": "T"},
        [said("T"), {"type": "input_file", "file_id": "file-1"}],
    ),
    (
        {"type": "search_result", "title": "T", "source": "s", "content": [{"type": "text", "text": "Found."}]},
        [said("T (s)\nFound.")],
    ),
]


@pytest.mark.parametrize(("block", "parts"), PARTS, ids=lambda each: each.get("type", "") if isinstance(each, dict) else "")
def test_a_block_of_the_user_becomes_parts_of_a_message(block: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    assert of_user(block) == [message("user", *parts)]


def test_blocks_of_one_message_stay_together() -> None:
    assert of_user({"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}) == [
        message("user", said("a"), said("b"))
    ]


def test_what_the_model_wrote_becomes_its_items() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sealed"},
        {"type": "redacted_thinking", "data": "hidden"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "it"}},
    ]
    assert items({"role": "user", "content": "Hi"}, {"role": "assistant", "content": blocks})[1:] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "sealed"},
        {"type": "reasoning", "summary": [], "encrypted_content": "hidden"},
        message("assistant", {"type": "output_text", "text": "Let me look."}),
        {"type": "function_call", "call_id": "toolu_1", "name": "look", "arguments": '{"at":"it"}'},
    ]


# The content of a result → the output of the call.
RESULTS: list[tuple[dict[str, Any], Any]] = [
    ({"content": "sunny"}, "sunny"),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
    ({}, ""),
    ({"is_error": True}, "Error"),
    ({"is_error": True, "content": "No such city"}, "Error: No such city"),
    ({"is_error": True, "content": "KeyError: Rome"}, "KeyError: Rome"),
    (
        {"content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
        [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}],
    ),
]


@pytest.mark.parametrize(("members", "output"), RESULTS, ids=str)
def test_a_result_becomes_the_output_of_its_call(members: dict[str, Any], output: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "cache_control": {"type": "ephemeral"}, **members}
    made = of_user(block, {"type": "text", "text": "Go on."})
    failed = {"status": "incomplete"} if members.get("is_error") else {}
    assert made == [
        {"type": "function_call_output", "call_id": "toolu_1", "output": output, **failed},
        message("user", said("Go on.")),
    ]


def test_a_system_message_stays_in_its_place() -> None:
    made = items({"role": "user", "content": "Hi"}, {"role": "system", "content": "Agents: none"})
    assert [each["role"] for each in made] == ["user", "system"]


def test_the_billing_header_is_cut_out_of_the_system_prompt() -> None:
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.abc; cc_entrypoint=cli;"},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be kind."},
    ]
    assert read(system=system).request.instructions == "Be brief.\n\nBe kind."
    assert read(system="Be brief.").request.instructions == "Be brief."
    assert read(system="x-anthropic-billing-header: cc_version=1").request.instructions is None
    assert read().request.instructions is None


def test_calls_of_a_server_come_back_as_its_items() -> None:
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Rome"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": ""}],
        },
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "input": {"a": 1}, "server_name": "s"},
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": [{"type": "text", "text": "1"}]},
        {"type": "text", "text": "Rome is old."},
    ]
    found, called, last = items({"role": "assistant", "content": blocks})
    sources = [{"type": "url", "url": "https://a.example"}]
    action = {"type": "search", "query": "Rome", "sources": sources}
    assert found == {"type": "web_search_call", "status": "completed", "action": action}
    assert (called["type"], called["server_label"], called["arguments"], called["output"]) == ("mcp_call", "s", '{"a":1}', "1")
    assert last["role"] == "assistant"


@pytest.mark.parametrize(
    ("result", "logs"),
    [
        ({"stdout": "1", "stderr": "", "return_code": 0}, "1"),
        ({"stdout": "", "stderr": "", "return_code": 0}, ""),
        # As this server shows code that raised.
        (
            {"stdout": "ZeroDivisionError: division by zero", "stderr": "", "return_code": 1},
            "ZeroDivisionError: division by zero",
        ),
        ({"stdout": "1", "stderr": "a warning", "return_code": 0}, "1\na warning"),
        ({"stdout": "", "stderr": "killed", "return_code": 137}, "killed\n(return code 137)"),
        ({"stdout": "", "stderr": "", "return_code": 1}, "(return code 1)"),
        ({"stdout": "1"}, "1"),
    ],
)
def test_the_result_of_code_comes_back_as_the_model_saw_it(result: dict[str, Any], logs: str) -> None:
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "1 / 0"}},
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"type": "code_execution_result", **result}},
    ]
    (ran,) = items({"role": "assistant", "content": blocks})
    assert (ran["code"], ran["outputs"]) == ("1 / 0", [{"type": "logs", "logs": logs}])


def test_the_result_of_code_that_could_not_run_has_no_output() -> None:
    failed = {"type": "code_execution_tool_result_error", "error_code": "unavailable"}
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "1"}},
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content": failed},
    ]
    (ran,) = items({"role": "assistant", "content": blocks})
    assert (ran["status"], ran["outputs"]) == ("failed", [])


# ---- what the answer must be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "any"}, "required", None),
        ({"type": "none"}, "none", None),
        ({"type": "tool", "name": "look"}, {"type": "function", "name": "look"}, None),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
    ],
)
def test_a_choice_of_tools(choice: dict[str, Any], expected: Any, parallel: bool | None) -> None:
    made = read(tools=[{"name": "look", "input_schema": {"type": "object"}}], tool_choice=choice).request
    assert (made.tool_choice, made.parallel_tool_calls) == (expected, parallel)


@pytest.mark.parametrize(
    ("members", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "medium"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "xhigh"),
        ({"output_config": {"effort": "high"}}, None),
    ],
)
def test_a_model_thinks_if_it_is_asked_to(members: dict[str, Any], effort: str | None) -> None:
    reasoning = read(**members).request.reasoning
    assert reasoning is not None
    assert reasoning.effort == effort


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_a_schema_is_strict(place: str) -> None:
    format = {"type": "json_schema", "schema": {"type": "object"}}
    given: Any = {"format": format} if place == "output_config" else format
    text = read(None, **{place: given}).request.text
    assert text is not None
    assert text.format is not None
    assert (text.format.type, text.format.schema, text.format.strict) == ("json_schema", {"type": "object"}, True)


def test_other_fields() -> None:
    made = read(temperature=0.5, top_p=0.9, stop_sequences=["END"], stream=True).request
    assert (made.max_output_tokens, made.temperature, made.top_p, made.stream) == (50, 0.5, 0.9, True)
    beyond = Beyond(stop_sequences=["END"], shows_files=True, may_pause=True, shows_summary=True)
    assert (made.stop, made.beyond) == (None, beyond), "the engine gets none: the text is cut here"
    # Nothing is stored.
    assert made.store is False


# ---- the conversation ------------------------------------------------------------------------------------------------

USER = '{"device_id":"d","session_id":"inside"}'


@pytest.mark.parametrize(
    ("headers", "user", "key"),
    [
        ({}, None, None),
        ({"x-claude-code-session-id": "s"}, USER, "s"),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, None, "s/a"),
        ({}, USER, "inside"),
        ({}, "somebody", None),
        ({"x-claude-code-session-id": "s" * 100}, None, "s" * 64),
    ],
)
def test_a_conversation_is_known_by_its_session(headers: dict[str, str], user: str | None, key: str | None) -> None:
    assert read(headers, metadata={"user_id": user}).request.prompt_cache_key == key


# ---- notices and errors ----------------------------------------------------------------------------------------------


def test_what_has_no_effect_is_said() -> None:
    made = read(
        {"anthropic-user-profile-id": "u"},
        speed="fast",
        output_config={"task_budget": {"type": "tokens", "total": 9}, "size": 1},
        container={"skills": [{}]},
        colour="red",
    )
    assert made.unknown == ["colour", "output_config.size"]
    assert made.notices == [
        "field speed was left out: it has no effect here",
        "field output_config.task_budget was left out: it has no effect here",
        "field anthropic-user-profile-id was left out: it has no effect here",
        "container.skills were left out: there are no skills here",
    ]
    assert read(speed="standard").notices == []


def test_an_effort_without_thinking_is_said_to_have_no_effect() -> None:
    notice = "output_config.effort has no effect without thinking"
    assert read(output_config={"effort": "high"}).notices == [notice]
    assert read(output_config={"effort": "high"}, thinking={"type": "adaptive"}).notices == []


def test_the_use_of_a_tool_without_its_result_is_left_out_with_a_notice() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Rome"}}
    made = read(messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [use]}])
    assert made.notices == ["blocks of type server_tool_use were left out: they mean nothing here"]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"role": "tool", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]}, None),
        ({"max_tokens": -1}, "max_tokens"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"context_management": {"edits": [{"type": "shorten"}]}}, "context_management.edits[0].type"),
        ({"compaction": {"type": "summarize"}, "context_management": {}}, "compaction"),
        ({"tools": [{"type": "computer_toolset_20260801", "configs": {"fly": {}}}]}, "tools[0].configs.fly"),
        ({"temperature": 1.5}, "temperature"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"tools": [{"type": "abacus_20250101", "name": "a"}]}, "tools[0].type"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
    ],
    ids=str,
)
def test_an_error_names_the_field(members: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**members)
    assert refused.value.param == (param or "messages[0].content[0].source.data")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"Hi"'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        MESSAGES.read(body, {}, DEFAULT_LIMITS)
