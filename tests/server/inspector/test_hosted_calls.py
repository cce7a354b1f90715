"""Calls of tools that the gateway runs, as the inspector shows and hides them."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.inspector import opened, rows
from support.mcp_tools import WEATHER as MCP
from support.mcp_tools import FakeServers
from support.toy_tool import DICE, Dice

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.server.inspector.redaction import redacted
from antiphon.server.inspector.rows import Row
from antiphon.tools.runner import ToolContext
from antiphon.wire.hosted_items import (
    FileSearchCall,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    ToolSearchOutput,
    WebSearchCall,
)
from antiphon.wire.responses import FunctionCall, Response, ToolSearchCall

TWO_ROLLS = answer(call("roll", '{"sides": 6}', id="a"), call("roll", '{"sides": 1}', id="b", index=1), finish="tool_calls")


class OneSided(Dice):
    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        return ToolResult("There is no such die.", failed=True) if "1" in call.arguments else ToolResult("6")


BODY = {"model": "mock", "input": "Roll", "tools": [DICE]}
EXTENSIONS = Extensions(tools={"dice": OneSided()}, checker=CHECKER)


async def test_the_timeline_has_the_calls_their_results_and_their_times(engine: MockEngine) -> None:
    engine.will(TWO_ROLLS, text("A six."))
    async with running_gateway(engine, extensions=EXTENSIONS) as gateway:
        await gateway.post(BODY)
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
    assert (row["tool_calls"], row["asks"], view["exact"]) == (2, 2, True)
    begun, first, second = (moment for moment in view["timeline"] if moment["kind"] == "tool")
    assert begun["note"] == "Runs dice roll, dice roll."
    notes = {first["note"].partition(" after ")[0], second["note"].partition(" after ")[0]}
    assert notes == {"dice roll ended", "dice roll failed"}
    assert {first["note"].rpartition(" s: ")[2], second["note"].rpartition(" s: ")[2]} == {"6", "There is no such die."}
    kinds = [moment["kind"] for moment in view["timeline"]]
    asks = [at for at, kind in enumerate(kinds) if kind == "ask"]
    assert asks[0] < kinds.index("tool") < asks[1]
    assert [ask["purpose"] for ask in view["asks"]] == ["answer", "tools"]


async def test_texts_of_tools_are_hidden_where_texts_are(engine: MockEngine) -> None:
    engine.will(TWO_ROLLS, text("A six."))
    async with running_gateway(engine, extensions=EXTENSIONS, inspector_bodies=False) as gateway:
        await gateway.post(BODY)
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
    assert "no such die" not in str(view)
    assert "sides" not in str([ask["chat"]["messages"] for ask in view["asks"]])
    assert [moment["note"] for moment in view["timeline"] if moment["kind"] == "tool"] == [None] * 3


def mcp_gateway(engine: MockEngine, **settings: Any) -> AbstractAsyncContextManager[GatewayUnderTest]:
    engine.will(answer(call("weather__forecast", '{"city": "Zanzibar"}', id="a"), finish="tool_calls"), text("Sunny."))
    return running_gateway(engine, extensions=Extensions(tools={"mcp": FakeServers()}, checker=CHECKER), **settings)


async def test_the_timeline_says_which_servers_listed_what_and_which_of_their_tools_ran(engine: MockEngine) -> None:
    async with mcp_gateway(engine) as gateway:
        events = await gateway.stream("Warm?", tools=[MCP])
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
    assert (row["tool_calls"], view["exact"]) == (1, True)
    notes = [moment["note"].partition(" after ")[0] for moment in view["timeline"] if moment["kind"] == "tool"]
    assert notes == [
        "Lists the tools of weather.",
        "weather listed 2 tools.",
        "Runs mcp weather/forecast.",
        "mcp weather/forecast ended",
    ]
    assert [moment["event"] for moment in view["timeline"] if moment["kind"] == "event"] == events


async def test_a_server_that_lists_nothing_is_in_the_timeline(engine: MockEngine) -> None:
    async with mcp_gateway(engine) as gateway:
        status, _ = await gateway.post({"model": "mock", "input": "Warm?", "tools": [MCP | {"server_label": "gone"}]})
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
    assert status == 424
    notes = [moment["note"] for moment in view["timeline"] if moment["kind"] == "tool"]
    assert notes[-1] == "gone did not list its tools: It is not there."


async def test_texts_of_mcp_servers_are_hidden_where_texts_are(engine: MockEngine) -> None:
    async with mcp_gateway(engine, inspector_bodies=False) as gateway:
        await gateway.stream("Warm?", tools=[MCP])
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
    assert [item["name"] for item in view["response"]["output"] if item["type"] == "mcp_call"] == ["forecast"]
    for hidden in ("Zanzibar", "sunny", "Sunny", "The weather of a city", "weather.example"):
        assert hidden not in str(view)


SECRET = "Zanzibar"
# What may be seen of each → what is hidden.
HOSTED_ITEMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "mcp_call", "id": "mcp_1", "server_label": "maps", "name": "find", "status": "failed"},
        {
            "arguments": f'{{"place": "{SECRET}"}}',
            "output": SECRET,
            "error": {
                "type": "mcp_tool_execution_error",
                "content": [{"type": "text", "name": SECRET, "text": SECRET, "id": SECRET}],
            },
        },
    ),
    (
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "maps"},
        {
            "error": SECRET,
            "tools": [
                {"description": SECRET, "input_schema": {"type": SECRET, "name": SECRET}, "annotations": {"title": SECRET}}
            ],
        },
    ),
    (
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "maps", "name": "find"},
        {"arguments": SECRET},
    ),
    ({"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}, {"reason": SECRET}),
    (
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {
            "action": {"type": "search", "query": SECRET, "queries": [SECRET], "sources": [{"type": "url", "url": SECRET}]},
            "results": [{"name": SECRET, "url": SECRET, "title": SECRET, "id": SECRET}],
        },
    ),
    (
        {"type": "file_search_call", "id": "fs_1", "status": "completed"},
        {
            "queries": [SECRET],
            "results": [{"file_id": SECRET, "filename": SECRET, "score": 0.5, "text": SECRET, "attributes": {"name": SECRET}}],
        },
    ),
    ({"type": "tool_search_call", "id": "tsc_1", "execution": "server"}, {"arguments": {"name": SECRET, "paths": [SECRET]}}),
    (
        {"type": "tool_search_output", "id": "tso_1", "execution": "server"},
        {"tools": [{"description": SECRET, "parameters": {"type": SECRET}}]},
    ),
    (
        {"type": "mcp", "server_label": "maps", "require_approval": "never"},
        {"server_url": SECRET, "authorization": SECRET, "headers": {"name": SECRET, "id": SECRET}, "allowed_tools": [SECRET]},
    ),
    (
        {"type": "web_search", "search_context_size": "low"},
        {"filters": {"allowed_domains": [SECRET]}, "user_location": {"type": "approximate", "city": SECRET}},
    ),
    ({"type": "url_citation", "start_index": 3, "end_index": 7}, {"url": SECRET, "title": SECRET}),
    ({"type": "file_citation", "index": 3}, {"filename": SECRET}),
    (
        {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "status": "completed"},
        {"code": SECRET, "outputs": [{"type": "logs", "logs": SECRET}, {"type": "image", "url": SECRET}]},
    ),
    ({"type": "response.code_interpreter_call_code.done", "item_id": "ci_1", "output_index": 0}, {"code": SECRET}),
    (
        {"type": "image_generation_call", "id": "ig_1", "status": "failed"},
        {"revised_prompt": SECRET, "result": SECRET, "error": {"type": "image_generation_error", "message": SECRET}},
    ),
    ({"type": "container_file_citation", "container_id": "cntr_1", "start_index": 3, "end_index": 7}, {"filename": SECRET}),
]


@pytest.mark.parametrize(("shown", "hidden"), HOSTED_ITEMS, ids=[shown["type"] for shown, _ in HOSTED_ITEMS])
def test_of_hosted_items_and_tools_only_kinds_and_names_are_shown(shown: dict[str, Any], hidden: dict[str, Any]) -> None:
    left = redacted({**shown, **hidden})
    assert left.keys() == {**shown, **hidden}.keys()
    assert {name: left[name] for name in shown} == shown
    assert SECRET not in str(left)


def test_the_row_counts_calls_whoever_runs_them() -> None:
    response = Response(
        id="resp_1",
        created_at=1,
        model="m",
        status="completed",
        output=[
            McpListTools("mcpl_1", "maps", []),
            McpCall("mcp_1", "maps", "find", "{}"),
            McpApprovalRequest("mcpr_1", "maps", "find", "{}"),
            WebSearchCall("ws_1", "completed", {"type": "search"}),
            FileSearchCall("fs_1", ["rivers"], "completed"),
            ToolSearchCall("tsc_1", None, {}, "completed", "server"),
            ToolSearchOutput("tso_1", None, [], "completed"),
            FunctionCall("fc_1", "call_1", "f", "{}", "completed"),
        ],
    )
    row = Row(number=1, at=0.0, channel="http", owner="")
    row.finish(response)
    assert row.tool_calls == 5
