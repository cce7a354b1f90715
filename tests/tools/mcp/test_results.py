"""What MCP servers return, as an exchange takes it."""

from typing import Any

import pytest
from support.bad_mcp_server import MIXED, OBJECT, deep

from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.mcp.results import result_to_tool_result, to_tools
from antiphon.tools.mcp.targets import McpLimits
from antiphon.wire.hosted_items import McpTool, McpToolExecutionError

ERROR = [{"type": "text", "text": "The disk is full."}]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "text", "text": '{"a":1}'}], "structuredContent": {"a": 1}}, '{"a":1}'),
        ({"content": [], "structuredContent": {"a": 1}}, '{"a":1}'),
        (
            {"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}], "structuredContent": {"a": 1}},
            '[audio of type audio/wav, 3 bytes, which cannot be shown]\n{"a":1}',
        ),
        ({"content": []}, ""),
        ({"content": [{"type": "hologram", "data": "x"}]}, "[hologram, which cannot be shown]"),
        ({"content": [{"type": "image", "data": "not base64!", "mimeType": "image/png"}]}, "[image of type image/png, 0 bytes"),
        (
            {"content": MIXED},
            "before\n"
            "[image of type image/png, 8 bytes, which cannot be shown]\n"
            "[resource notes at file:///notes.txt: What was noted]\n"
            "[resource file:///a.txt]\ninside\n"
            "[resource file:///b.bin of application/pdf, 8 bytes, which cannot be shown]\n"
            "after",
        ),
    ],
)
def test_text_is_joined_and_the_rest_is_named(result: dict[str, Any], output: str) -> None:
    found = result_to_tool_result(result)
    assert found.output.startswith(output)
    assert (found.failed, found.data) == (False, None)


def test_a_result_that_is_an_error_has_its_content() -> None:
    found = result_to_tool_result({"content": ERROR, "isError": True})
    assert found == ToolResult("The disk is full.", failed=True, data=McpToolExecutionError(ERROR))
    silent = result_to_tool_result({"content": [], "isError": True})
    assert silent == ToolResult("The tool failed, and did not say why.", failed=True, data=McpToolExecutionError([]))


def test_every_tool_has_annotations() -> None:
    listed: list[dict[str, Any]] = [
        {"name": "plain"},
        {"name": "noted", "annotations": {"title": "T"}},
        {"name": "look", "annotations": {"readOnlyHint": True}},
    ]
    assert [tool.annotations for tool in to_tools(listed, McpLimits(), [])] == [
        {"read_only": False},
        {"title": "T", "read_only": False},
        {"readOnlyHint": True, "read_only": True},
    ]


def test_tools_that_are_too_large_or_too_deep_are_left_out() -> None:
    listed = [
        {"name": "good", "inputSchema": OBJECT, "description": "Does good.", "annotations": {"readOnlyHint": True}},
        {"name": "deep", "inputSchema": deep(100)},
        {"name": "large", "inputSchema": {"description": "x" * 1000}},
        {"name": "wordy", "inputSchema": OBJECT, "description": "x" * 1000},
        {"name": "noted", "inputSchema": OBJECT, "annotations": {"title": "x" * 1000}},
        {"name": "nested", "inputSchema": OBJECT, "annotations": deep(100)},
        {"name": "x" * 1000, "inputSchema": OBJECT},
    ]
    left_out: list[str] = []
    tools = list(to_tools(listed, McpLimits(schema_bytes=500, schema_depth=20), left_out))
    assert tools == [McpTool("good", OBJECT, "Does good.", {"readOnlyHint": True, "read_only": True})]
    assert left_out == [
        "The tool deep is left out: its schema is nested more than 20 levels deep.",
        "The tool large is left out: its schema has more than 500 bytes.",
        "The tool wordy is left out: its name, description and annotations have more than 500 bytes.",
        "The tool noted is left out: its name, description and annotations have more than 500 bytes.",
        "The tool nested is left out: its annotations are nested more than 20 levels deep.",
        f"The tool {'x' * 100}… is left out: its name, description and annotations have more than 500 bytes.",
    ]
