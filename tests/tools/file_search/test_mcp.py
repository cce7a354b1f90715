"""file_search on a real MCP server, which the settings start: the client sees nothing of MCP."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support import file_mcp_server
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.settings.tables import FileSearchSettings, McpServerSettings, McpSettings, ToolSettings

TOOL = {"type": "file_search", "vector_store_ids": ["manuals"]}


def searched(*queries: str) -> bytes:
    words = ", ".join(f'"{each}"' for each in queries)
    return answer(call("file_search", f'{{"queries": [{words}]}}'), finish="tool_calls")


@asynccontextmanager
async def searching(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    server = McpServerSettings(command=sys.executable, args=(file_mcp_server.__file__,))
    chosen = FileSearchSettings(mcp="docs", tool="find", argument="q", stores_argument="stores")
    settings = McpSettings(servers={"docs": server})
    async with running_gateway(engine, mcp=settings, tools=ToolSettings(file_search=chosen)) as gateway:
        yield gateway


async def test_a_tool_of_an_mcp_server_searches_and_the_item_is_the_native_one(engine: MockEngine) -> None:
    engine.will(searched("capital", "Rome"), text("It is Rome [1]."))
    async with searching(engine) as gateway:
        events = await gateway.stream(tools=[TOOL], include=["file_search_call.results"])
    item, message = events[-1]["response"]["output"]
    assert (item["type"], item["status"], item["queries"]) == ("file_search_call", "completed", ["capital", "Rome"])
    assert [each["filename"] for each in item["results"]] == ["rome.pdf", "tiber.txt"], "each once, the best first"
    assert item["results"][0] == {
        "attributes": {"stores": "manuals"},
        "file_id": "doc-1",
        "filename": "rome.pdf",
        "score": 0.9,
        "text": "Rome is the capital of Italy.",
    }
    (part,) = message["content"]
    assert part["text"] == "It is Rome."
    assert part["annotations"] == [{"type": "file_citation", "index": 10, "file_id": "doc-1", "filename": "rome.pdf"}]
    assert not any("mcp" in event["type"] for event in events)


async def test_prose_is_shown_and_cannot_be_cited(engine: MockEngine) -> None:
    engine.will(searched("prose"), text("It is Rome [1]."))
    async with searching(engine) as gateway:
        response = await gateway.create(tools=[TOOL], include=["file_search_call.results"])
    assert engine.last["messages"][-1]["content"] == 'Passages for "prose":\n\nRome is the capital of Italy.'
    item, message = response["output"]
    assert (item["status"], item["results"]) == ("completed", [])
    assert message["content"][0]["text"] == "It is Rome [1]."


async def test_its_failure_is_a_failed_search(engine: MockEngine) -> None:
    engine.will(searched("fail"), text("I cannot search."))
    async with searching(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert "the MCP server docs failed" in engine.last["messages"][-1]["content"]


async def test_what_the_server_ignores_is_said(engine: MockEngine) -> None:
    async with searching(engine) as gateway:
        await gateway.create(tools=[{**TOOL, "filters": {"type": "eq", "key": "year", "value": 2026}}])
        assert gateway.notice == "filters of tool file_search has no effect: an MCP server searches"
