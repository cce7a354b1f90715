"""Input items as they are stored and shown: complete, as the API's own types require."""

import itertools
from typing import Any

import msgspec
import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseInputItemParam, ResponseItem
from pydantic import TypeAdapter

from antiphon.core.prompt.item_types import ITEM_TYPES
from antiphon.core.prompt.stored_form import check_items, findable_ids, items_to_stored_form
from antiphon.store.records import item_ids

TAKEN: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
SHOWN: list[TypeAdapter[Any]] = [TypeAdapter(ResponseItem), TypeAdapter(ConversationItem)]

CALL = {"type": "function_call", "call_id": "c", "name": "f"}
IMAGE = {"type": "input_image", "image_url": "data:x", "detail": "low"}
# Every type of item with the members that the API requires of a request, and no others.
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"role": "developer", "content": [{"type": "input_text", "text": "Hi"}]},
    {"role": "user", "content": [IMAGE, {"type": "input_file", "file_data": "aGk="}]},
    {"role": "assistant", "content": "Hi"},
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}, {"type": "refusal", "refusal": "No"}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {**CALL, "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "done"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "done"}, IMAGE]},
    {"type": "function_call_output", "name": "timer", "output": "It is five."},
    {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": ""},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    {"type": "tool_search_call", "arguments": {}},
    {"type": "tool_search_output", "tools": []},
    {"type": "additional_tools", "role": "developer", "tools": []},
    {"type": "configuration_update"},
    {"type": "compaction", "encrypted_content": "x"},
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
        "status": "completed",
    },
    {"type": "local_shell_call_output", "id": "c", "output": "done"},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "apply_patch_call",
        "call_id": "c",
        "operation": {"type": "delete_file", "path": "a"},
        "status": "completed",
    },
    {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "container_id": "x",
        "code": None,
        "outputs": None,
    },
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None},
    {"type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed", "pending_safety_checks": []},
    {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "f", "arguments": "{}"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
    {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "f", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "program", "id": "p_1", "call_id": "c", "code": "", "fingerprint": ""},
    {"type": "program_output", "id": "po_1", "call_id": "c", "result": "", "status": "completed"},
]
# What clients send and Antiphon accepts although the API's types do not: without ids, with null, in other forms.
LOOSE_ITEMS: list[dict[str, Any]] = [
    {"type": None, "role": "user", "content": "Hi", "id": None, "status": None},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "input_image", "image_url": "data:x"}]},
    {"role": "user", "content": [{"type": "output_text", "text": "Hi"}]},
    {"role": "assistant", "content": [{"type": "input_text", "text": "Hi"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": None, "logprobs": None}]},
    {"type": "reasoning"},
    {"type": "reasoning", "summary": None, "content": "hm"},
    {"type": "reasoning", "summary": [{"type": "text", "text": "hm"}], "content": [{"type": "text", "text": "hm"}]},
    CALL,
    {**CALL, "arguments": {"a": 1}, "status": None},
    {"type": "function_call_output", "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": {"type": "text", "text": "done"}},
    {"type": "custom_tool_call", "call_id": "c", "name": "f"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "text", "text": "done"}]},
    {"type": "compaction"},
    {"type": "web_search_call", "action": {"type": "search", "query": "q"}},
    {"type": "file_search_call"},
    {"type": "code_interpreter_call"},
    {"type": "image_generation_call"},
    {"type": "computer_call", "call_id": "c"},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}, "status": None},
]


def stored(*items: dict[str, Any]) -> list[dict[str, Any]]:
    numbers = itertools.count()
    return items_to_stored_form(items, lambda prefix: f"{prefix}_{next(numbers)}")


@pytest.mark.parametrize("item", [*ITEMS, *LOOSE_ITEMS], ids=lambda item: str(item.get("type") or item.get("role")))
def test_a_stored_item_has_every_member_that_the_api_requires(item: dict[str, Any]) -> None:
    check_items([{**CALL, "arguments": "{}"}, item])
    (kept,) = stored(item)
    for shown in SHOWN:
        shown.validate_python(kept)
    if kept["type"] in ("message", "function_call", "shell_call"):
        assert kept["status"] == "completed"
    assert kept["id"] == item.get("id") or kept["id"] == f"{ITEM_TYPES[kept['type']].prefix}_0"
    assert stored(kept) == [kept], "what is stored is sent back as it is"


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.get("type") or item.get("role")))
def test_the_items_of_these_tests_are_what_the_api_takes(item: dict[str, Any]) -> None:
    assert TAKEN.validate_python(item)


def test_every_item_that_the_api_lists_is_tested() -> None:
    tested = {item.get("type", "message") for item in ITEMS}
    # These are no items of the API's lists: of Codex, or only of a request.
    assert ITEM_TYPES.keys() - tested == {"agent_message", "context_compaction", "compaction_trigger", "item_reference"}


def test_parts_have_the_type_of_their_place_and_all_members() -> None:
    text, image = {"type": "text", "text": "Hi"}, {"type": "input_image", "image_url": "data:x"}
    question, answer = stored({"role": "user", "content": [text, image]}, {"role": "assistant", "content": "Hi"})
    assert question["content"] == [{"type": "input_text", "text": "Hi"}, {**image, "detail": "auto"}]
    assert answer["content"] == [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]


def test_what_a_client_sent_is_not_changed_in_place() -> None:
    part = {"type": "text", "text": "Hi"}
    item = {"role": "user", "content": [part]}
    assert stored(item)[0]["content"][0]["type"] == "input_text"
    assert (item, part) == ({"role": "user", "content": [part]}, {"type": "text", "text": "Hi"})


def test_a_stored_shell_call_has_all_members_and_gives_the_same_prompt() -> None:
    call = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    (kept,) = stored(call)
    assert kept["action"] == {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    assert kept["environment"] is None
    # Without a call_id the engine reads the whole action, which must be the same before and after it was stored.
    (note,) = stored({"type": "shell_call", "action": {"commands": ["ls"]}})
    assert note["action"] == {"commands": ["ls"]}


def test_reasoning_without_a_content_is_stored_without_one() -> None:
    (kept,) = stored({"type": "reasoning", "id": "rs_1", "summary": [], "content": None})
    assert "content" not in kept


@pytest.mark.parametrize("given", [ITEMS, *([item] for item in ITEMS)])
def test_the_ids_by_which_items_are_found_are_those_that_the_store_reads_of_them(given: list[dict[str, Any]]) -> None:
    number = itertools.count()
    stored = items_to_stored_form(given, lambda prefix: f"{prefix}_{next(number)}")
    assert findable_ids(stored) in (None, tuple(item_ids(msgspec.json.encode(stored))))


def test_the_store_need_not_read_the_ids_of_messages_and_calls() -> None:
    stored = items_to_stored_form([ITEMS[0], ITEMS[6], ITEMS[7]], lambda prefix: f"{prefix}_1")
    assert findable_ids(stored) == ("msg_1", "fc_1", "fco_1")


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
@pytest.mark.parametrize("part", ["input_text", "output_text", "text", None])
def test_a_plain_message_is_stored_like_one_with_more_members(role: str, part: str | None) -> None:
    content: Any = "Hi" if part is None else [{"type": part, "text": "Hi"}]
    plain = {"role": role, "type": "message", "content": content}
    kept, other = items_to_stored_form([plain, {**plain, "phase": None}], lambda prefix: f"{prefix}_1")
    assert list(kept) == ["id", "type", "role", "content", "status"]
    assert {**kept, "phase": None} == other
    assert plain["content"] is content
