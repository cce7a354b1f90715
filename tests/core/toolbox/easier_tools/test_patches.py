"""Patches as easy functions: what is written, what goes in again, and what is required."""

import json

import pytest
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.easy_tools import (
    BUILT_IN,
    CASES,
    EDITS,
    PATCH_CHOICE,
    TWO_FILES,
    USER,
    Item,
    called,
    convert,
    events_of,
    last_call,
    output_of,
    patched,
    written,
)
from support.engine import call, text
from support.exchanges import Recorder, run_answers

from antiphon.core.knowledge.dialects import LLAMACPP
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model


def test_the_events_of_a_call_are_those_of_the_clients_tool() -> None:
    events = events_of([APPLY_PATCH], called(call("delete_file", '{"path": "a"}')))
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
    assert [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"] == [patch]
    assert [event["input"] for event in events if event["type"] == "response.custom_tool_call_input.done"] == [patch]


def test_parallel_calls_of_two_functions_are_two_calls_of_the_tool() -> None:
    one = call("delete_file", '{"path": "a"}', id="c1", index=0)
    two = call("write_file", '{"path": "b", "content": "x"}', id="c2", index=1)
    items = output_of([APPLY_PATCH], called(one, two))
    assert [item["call_id"] for item in items] == ["c1", "c2"]
    assert [item["input"].splitlines()[1] for item in items] == ["*** Delete File: a", "*** Add File: b"]


@pytest.mark.parametrize(
    ("function", "arguments", "lines"),
    [
        ("write_file", {"path": "a", "content": ""}, ["*** Add File: a", "+"]),
        ("write_file", {"path": "a", "content": "\n\n"}, ["*** Add File: a", "+", "+"]),
        ("write_file", {"path": "a", "content": ["one", "", "two\n"]}, ["*** Add File: a", "+one", "+", "+two"]),
        ("write_file", {"path": "a", "content": {"b": 1}}, ["*** Add File: a", "+{", '+  "b": 1', "+}"]),
        ("write_file", {"path": "a", "content": 8080}, ["*** Add File: a", "+8080"]),
        ("write_file", {"path": "a", "content": "*** End Patch\n@@"}, ["*** Add File: a", "+*** End Patch", "+@@"]),
        ("write_file", {"path": "a", "content": "\ta\\n\u2028é\x0c"}, ["*** Add File: a", "+\ta\\n\u2028é\x0c"]),
        ("edit_file", {"path": "a", "old_lines": "x", "new_lines": "x"}, ["*** Update File: a", "@@", "-x", "+x"]),
        ("edit_file", {"path": "a", "old_lines": "\n", "new_lines": ""}, ["*** Update File: a", "@@", "-"]),
        ("edit_file", {"path": "a", "old_lines": "", "new_lines": ""}, ["*** Update File: a", "@@"]),
        ("edit_file", {"path": "a", "old_lines": "-a\r\n+b", "new_lines": []}, ["*** Update File: a", "@@", "--a", "-+b"]),
    ],
)
def test_what_is_written_becomes_whole_lines(function: str, arguments: Item, lines: list[str]) -> None:
    (item,) = output_of([APPLY_PATCH], called(call(function, json.dumps(arguments))))
    assert item["input"] == patched(*lines)["input"]


def test_a_bad_call_of_the_built_in_tool_is_passed_on_as_a_diff_that_is_none() -> None:
    bad = called(call("write_file", '{"path": "a"}'))
    (item,) = output_of([BUILT_IN], bad, bad)
    assert item["operation"] == {"type": "update_file", "path": "", "diff": 'write_file({"path": "a"})'}
    made = last_call(convert([USER, item], [BUILT_IN])).function
    assert (made.name, made.arguments) == ("write_file", '{"path": "a"}')


def test_a_call_by_the_tools_own_name_is_still_checked_by_its_grammar() -> None:
    wrong = called(call("apply_patch", '{"input": "nonsense"}'))
    (item,) = output_of([APPLY_PATCH], wrong, called(call("delete_file", '{"path": "a"}')))
    assert item["input"] == patched("*** Delete File: a")["input"]


@pytest.mark.parametrize(
    ("patch", "name", "arguments"),
    [
        (
            "*** Begin Patch\n*** Update File: a\n one\n-two\n+zwei\n three\n*** End Patch",
            "edit_file",
            {"path": "a", "old_lines": "one\ntwo\nthree\n", "new_lines": "one\nzwei\nthree\n"},
        ),
        (TWO_FILES, "apply_patch", {"input": TWO_FILES}),
        *(
            (patched(*lines)["input"], "apply_patch", {"input": patched(*lines)["input"]})
            for lines in (
                ("*** Update File: a", "@@", "-x", "+y", "@@", "-z"),
                ("*** Update File: a", "@@ def f():", "-x"),
                ("*** Update File: a", "*** Move to: b", "@@", "-x"),
                ("*** Update File: a", "@@", "-x", "*** End of File"),
                ("*** Update File: a",),
                ("*** Add File: a",),
                ("*** Add File:  a", "+x"),
            )
        ),
    ],
)
def test_a_patch_that_no_function_expresses_stays_a_patch(patch: str, name: str, arguments: Item) -> None:
    item = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": patch}
    function = last_call(convert([USER, item], [APPLY_PATCH])).function
    assert (function.name, json.loads(function.arguments)) == (name, arguments)


def test_a_required_patch_is_made_by_any_of_its_functions() -> None:
    asked = Recorder()
    wrong, right = call("shell", '{"command": "ls"}'), call("edit_file", written(CASES["edit"].arguments))
    tools = [EXEC_COMMAND, APPLY_PATCH]
    (item,) = output_of(tools, called(wrong), called(right), tool_choice=PATCH_CHOICE, on_ask=asked)
    assert item["name"] == "apply_patch"
    assert "delete_file, edit_file, write_file" in asked.chats[1]["messages"][-1]["content"]


def test_a_required_patch_is_constrained_to_a_call_of_its_functions() -> None:
    asked = Recorder()
    small = EngineKnowledge(LLAMACPP, [Model("m-1.5B", 1, "us")])
    request = {"tools": [EXEC_COMMAND, APPLY_PATCH], "tool_choice": PATCH_CHOICE}
    said = text('{"name": "delete_file", "arguments": {"path": "a"}}')
    (item,) = run_answers(request, said, engines=[small], on_ask=asked)[-1]["response"]["output"]
    assert item["input"] == patched("*** Delete File: a")["input"]
    constraint = json.dumps(asked.chats[0].get("response_format") or asked.chats[0]["grammar"])
    assert all(name in constraint for name in EDITS)
    assert "shell" not in constraint


def test_limits_count_the_functions_of_one_tool_together() -> None:
    one = call("delete_file", '{"path": "a"}', id="c1", index=0)
    two = call("write_file", '{"path": "b", "content": "x"}', id="c2", index=1)
    items = output_of([APPLY_PATCH], called(one, two), parallel_tool_calls=False)
    assert [item["call_id"] for item in items] == ["c1"]
