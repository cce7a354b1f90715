"""Tools that are offered from some message on, or no longer."""

from typing import Any

import msgspec
import pytest

from antiphon.core.protocols.messages.read import body_to_request
from antiphon.core.protocols.responses.fields import RequestLimits

Body = dict[str, Any]


def tool(name: str, **members: Any) -> Body:
    return {"name": name, "description": name, "input_schema": {"type": "object"}, **members}


READ, FETCH, PLACEHOLDER = tool("Read"), tool("Fetch", defer_loading=True), tool("Placeholder", defer_loading=True)
WRITE = tool("Write")
ASKED = {"role": "user", "content": "Hello"}
SEARCHED = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "ToolSearch", "input": {}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "call_1",
                "content": [{"type": "tool_reference", "tool_name": "Fetch"}],
            }
        ],
    },
]


def changed(kind: str, **tool: Any) -> Body:
    return {"role": "system", "content": [{"type": "text", "text": "Tools."}, {"type": kind, "tool": tool}]}


def offered(tools: list[Body], *messages: Body) -> list[str]:
    body = msgspec.json.encode({"model": "mock", "max_tokens": 10, "messages": [ASKED, *messages], "tools": tools})
    return [each.get("name", each["type"]) for each in body_to_request(body, {}, RequestLimits()).request.tools or []]


def test_a_deferred_tool_is_not_offered_until_a_result_refers_to_it() -> None:
    tools = [FETCH, READ, PLACEHOLDER, WRITE]
    assert offered(tools) == ["Read", "Write"]
    assert offered(tools, *SEARCHED) == ["Read", "Write", "Fetch"], "the others are where they were"
    assert offered(tools, *SEARCHED, *SEARCHED) == ["Read", "Write", "Fetch"]


def test_a_search_of_the_server_leaves_all_tools_on() -> None:
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert offered([search, FETCH, READ]) == ["tool_search", "Fetch", "Read"]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([changed("tool_addition", type="tool_reference", name="Fetch")], ["Read", "Fetch"]),
        ([changed("tool_addition", type="tool_definition", definition=WRITE)], ["Read", "Write"]),
        ([changed("tool_removal", type="tool_reference", name="Read")], []),
        (
            [
                changed("tool_addition", type="tool_definition", definition=WRITE),
                changed("tool_removal", type="tool_reference", name="Write"),
            ],
            ["Read"],
        ),
        ([changed("tool_addition", type="tool_reference", name="Unknown")], ["Read"]),
    ],
    ids=["loaded", "defined", "removed", "defined and removed", "unknown"],
)
def test_a_message_changes_the_tools(changes: list[Body], names: list[str]) -> None:
    assert offered([READ, FETCH], *changes) == names


def test_a_change_of_tools_says_nothing_to_the_model() -> None:
    change = changed("tool_removal", type="tool_reference", name="Read")
    body = msgspec.json.encode({"model": "mock", "max_tokens": 10, "messages": [ASKED, change], "tools": [READ]})
    items: Any = body_to_request(body, {}, RequestLimits()).request.input
    assert items[-1]["content"] == [{"type": "input_text", "text": "Tools."}]
