"""The items of calls have exactly the shape that the SDK reads, whatever the model wrote."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseToolSearchCall,
)
from openai.types.responses.response_apply_patch_tool_call import OperationCreateFile, OperationDeleteFile, OperationUpdateFile
from openai.types.responses.response_function_shell_tool_call import Action as ShellAction
from openai.types.responses.response_output_item import LocalShellCall, LocalShellCallAction
from pydantic import BaseModel
from support.exchanges import REQUEST, run_deltas

from antiphon.core.events.deltas import CallDelta, Delta, Finished
from antiphon.partial_json import missing_end

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "f"},
    {"type": "custom", "name": "note"},
    {"type": "tool_search", "execution": "client"},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "apply_patch"},
]
# Members that the API has and the SDK's type of the item does not.
MORE = {"custom_tool_call": {"status"}}
SDK_ITEMS: dict[str, type[BaseModel]] = {
    "f": ResponseFunctionToolCall,
    "note": ResponseCustomToolCall,
    "tool_search": ResponseToolSearchCall,
    "local_shell": LocalShellCall,
    "shell": ResponseFunctionShellToolCall,
    "apply_patch": ResponseApplyPatchToolCall,
}
OPERATIONS: dict[str, type[BaseModel]] = {
    "create_file": OperationCreateFile,
    "update_file": OperationUpdateFile,
    "delete_file": OperationDeleteFile,
}


def item_of(name: str, arguments: str, *, reason: str = "tool_calls") -> dict[str, Any]:
    """The item of this call, in a stream whose every event the SDK reads."""
    deltas: list[Delta] = [CallDelta(0, "c1", name, arguments), Finished(reason)]
    item: dict[str, Any] = run_deltas(*deltas, request=structs.replace(REQUEST, tools=TOOLS))[-1]["response"]["output"][0]
    return item


def check_members(given: dict[str, Any], kind: type[BaseModel], *more: str) -> None:
    """Every member is one that the type has, and of exactly its type."""
    kind.model_validate(given, strict=True)
    assert given.keys() <= {field.alias or name for name, field in kind.model_fields.items()} | {*more}


def check_item(name: str, item: dict[str, Any]) -> None:
    check_members(item, SDK_ITEMS[name], *MORE.get(item["type"], ()))
    if name == "local_shell":
        check_members(item["action"], LocalShellCallAction)
    elif name == "shell":
        check_members(item["action"], ShellAction)
        assert item["action"].keys() == {"commands", "timeout_ms", "max_output_length"}
        assert item["environment"] == {"type": "local"}
    elif name == "apply_patch":
        check_members(item["operation"], OPERATIONS[item["operation"]["type"]])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
members = st.sampled_from(
    "type command commands env user timeout_ms working_directory max_output_length path diff input invented".split()
)
types = st.sampled_from(["create_file", "update_file", "delete_file", "exec", "mystery"])
objects = st.dictionaries(members, values, max_size=6) | st.builds(
    lambda rest, kind: {**rest, "type": kind}, st.dictionaries(members, values, max_size=6), types
)


@given(st.sampled_from(list(SDK_ITEMS)), (objects | values).map(json.dumps) | st.text(max_size=20))
def test_whatever_a_model_writes_the_item_is_one_that_the_sdk_reads(name: str, arguments: str) -> None:
    for reason in ("tool_calls", "length"):
        check_item(name, item_of(name, arguments, reason=reason))


def test_members_that_the_model_invented_are_dropped() -> None:
    shell = item_of("shell", '{"commands": ["ls", 3], "mood": "good", "timeout_ms": "soon"}')
    assert shell["action"] == {"commands": ["ls", "3"], "timeout_ms": None, "max_output_length": None}
    local = item_of("local_shell", '{"command": "ls", "mood": "good", "env": {"A": 1}, "user": "me"}')
    assert item_of("shell", '{"timeout_ms": 5e3, "max_output_length": true}')["action"]["timeout_ms"] == 5000
    assert local["action"] == {"type": "exec", "command": ["bash", "-lc", "ls"], "env": {"A": "1"}, "user": "me"}


def test_only_an_operation_that_writes_has_a_diff() -> None:
    deleted = item_of("apply_patch", '{"type": "delete_file", "path": "a", "diff": "", "mood": "good"}')
    assert deleted["operation"] == {"type": "delete_file", "path": "a"}
    created = item_of("apply_patch", '{"type": "create_file", "path": "a"}')
    assert created["operation"] == {"type": "create_file", "path": "a", "diff": ""}


def test_a_patch_is_added_once_it_is_known() -> None:
    pieces = ['{"type": "create_file", ', '"path": "a", "diff": "+hi"}']
    deltas: list[Delta] = [CallDelta(0, "c1", "apply_patch"), *(CallDelta(0, arguments=piece) for piece in pieces)]
    events = run_deltas(*deltas, Finished("tool_calls"), request=structs.replace(REQUEST, tools=TOOLS))
    items = [event["item"] for event in events if "item" in event]
    assert [item["operation"] for item in items] == [{"type": "create_file", "path": "a", "diff": "+hi"}] * 2
    assert [item["status"] for item in items] == ["in_progress", "completed"]


def test_a_patch_that_was_cut_off_is_not_completed() -> None:
    cut = item_of("apply_patch", '{"type": "create_file", "path": "a", "diff": "+rm', reason="length")
    assert (cut["status"], cut["operation"]["diff"]) == ("in_progress", "")
    assert item_of("shell", '{"commands": ["rm -rf /tm', reason="length")["action"]["commands"] == []


# ---- brackets that an engine lost ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "end"),
    [
        ("", "{}"),
        (" ", "{}"),
        ('{"a": 1}', ""),
        ('{"a": "x"', "}"),
        ('{"a": [{"b": "}"}', "]}"),
        ('{"a": "half of', ""),
        ('{"a": "half of \\"', ""),
        ('{"a":', ""),
        ('{"a": 1,', ""),
        ("[1", ""),
        ("not JSON {", ""),
    ],
)
def test_arguments_are_completed_only_by_the_brackets_that_they_lack(written: str, end: str) -> None:
    assert missing_end(written) == end


def test_a_long_string_that_was_cut_off_is_recognized_in_linear_time() -> None:
    assert missing_end('{"diff": "' + '\\"quoted\\" ' * 100_000) == ""


def test_lost_brackets_are_added_to_what_was_streamed() -> None:
    deltas: list[Delta] = [CallDelta(0, "c1", "f", '{"a": '), CallDelta(0, arguments='["x"]'), Finished("tool_calls")]
    events = run_deltas(*deltas, request=structs.replace(REQUEST, tools=TOOLS))
    assert [event["delta"] for event in events if event["type"].endswith("arguments.delta")] == ['{"a": ', '["x"]', "}"]
    assert item_of("shell", '{"commands": ["ls"')["action"]["commands"] == ["ls"]
    assert item_of("f", '{"a": "x"', reason="length")["arguments"] == '{"a": "x"'
