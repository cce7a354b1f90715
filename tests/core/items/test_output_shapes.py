"""Every output item has the members that OpenAI's document requires of it, whole or cut off."""

import json
from typing import Any

import pytest
from msgspec import structs
from support.exchanges import REQUEST, run_answers, run_deltas
from support.streams import Event

from antiphon.core.events.deltas import CallDelta, Delta, Finished, ReasoningDelta, RefusalDelta, TextDelta

F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CALL = {"id", "call_id", "status"}
# Type → its required members, besides `type`.
REQUIRED: dict[str, set[str]] = {
    "message": {"id", "role", "content", "status"},
    "output_text": {"text", "annotations", "logprobs"},
    "refusal": {"refusal"},
    "reasoning": {"id", "summary"},
    "reasoning_text": {"text"},
    "function_call": {*CALL, "name", "arguments"},
    "custom_tool_call": {*CALL, "name", "input"},
    "tool_search_call": {*CALL, "execution", "arguments"},
    "local_shell_call": {*CALL, "action"},
    "exec": {"command", "env"},
    "shell_call": {*CALL, "action", "environment"},
    "apply_patch_call": {*CALL, "operation"},
    "create_file": {"path", "diff"},
    "update_file": {"path", "diff"},
}
# (the tool, the name of its function, the arguments)
CALLS: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (F, "f", {"a": 1}),
    ({"type": "custom", "name": "run"}, "run", {"input": "1 + 1"}),
    ({"type": "tool_search", "execution": "client"}, "tool_search", {"query": "x"}),
    ({"type": "local_shell"}, "local_shell", {"command": ["ls"]}),
    ({"type": "shell"}, "shell", {"commands": ["ls"]}),
    ({"type": "apply_patch"}, "apply_patch", {"type": "create_file", "path": "a.txt", "diff": "+hi"}),
]


def parts_of(value: Any) -> list[dict[str, Any]]:
    """Every object with a `type` inside the value, itself included."""
    if isinstance(value, list):
        return [part for each in value for part in parts_of(each)]
    if not isinstance(value, dict):
        return []
    inner = [part for each in value.values() for part in parts_of(each)]
    return [value, *inner] if "type" in value else inner


def check(events: list[Event]) -> None:
    shown = [event.get("item") or event.get("part") for event in events] + [
        event["response"]["output"] for event in events[-1:]
    ]
    parts = [part for each in shown for part in parts_of(each)]
    assert parts
    for part in parts:
        assert REQUIRED.get(part["type"], set()) <= part.keys(), part


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("deltas", [[ReasoningDelta("hm"), TextDelta("Yes")], [RefusalDelta("No.")]])
def test_text_and_reasoning(deltas: list[Delta], reason: str) -> None:
    check(run_deltas(*deltas, Finished(reason)))


@pytest.mark.parametrize(("tool", "name", "arguments"), CALLS)
@pytest.mark.parametrize("cut", [False, True])
def test_calls(tool: dict[str, Any], name: str, arguments: dict[str, Any], cut: bool) -> None:
    written = json.dumps(arguments)
    pieces = [CallDelta(0, "c1", name), CallDelta(0, arguments=written[: len(written) // 2])]
    rest = [Finished("length")] if cut else [CallDelta(0, arguments=written[len(written) // 2 :]), Finished("tool_calls")]
    events = run_deltas(*pieces, *rest, request=structs.replace(REQUEST, tools=[tool]))
    check(events)
    (item,) = events[-1]["response"]["output"]
    assert item["type"] in REQUIRED
    assert (item["status"] == "completed") is not cut


def test_the_response_has_its_text_once_it_has_ended() -> None:
    answer = b'data: {"choices":[{"delta":{"content":"Yes"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    events = run_answers({}, answer)
    assert [event["response"].get("output_text") for event in events if "response" in event] == [None, None, "Yes"]
