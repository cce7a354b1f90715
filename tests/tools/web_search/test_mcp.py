"""web_search on a real MCP server, which the settings start: the client sees nothing of MCP."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support import search_mcp_server
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.settings.tables import McpServerSettings, McpSettings, ToolSettings, WebSearchSettings

TOOL = {"type": "web_search"}


def searched(words: str) -> bytes:
    return answer(call("web_search", f'{{"query": "{words}"}}'), finish="tool_calls")


@asynccontextmanager
async def searching(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    server = McpServerSettings(command=sys.executable, args=(search_mcp_server.__file__,))
    tools = ToolSettings(web_search=WebSearchSettings(mcp="finder", tool="search", argument="q", pages=False))
    async with running_gateway(engine, mcp=McpSettings(servers={"finder": server}), tools=tools) as gateway:
        yield gateway


async def test_a_tool_of_an_mcp_server_searches_and_the_item_is_the_native_one(engine: MockEngine) -> None:
    engine.will(searched("capital"), text("It is Rome [1]."))
    async with searching(engine) as gateway:
        events = await gateway.stream(tools=[TOOL], include=["web_search_call.action.sources"])
    item, message = events[-1]["response"]["output"]
    sources = [{"type": "url", "url": url} for url in ("https://rome.example/", "https://milan.example/")]
    assert (item["type"], item["status"], item["action"]["sources"]) == ("web_search_call", "completed", sources)
    assert message["content"][0]["annotations"][0]["url"] == "https://rome.example/"
    assert not any("mcp" in event["type"] for event in events)


async def test_its_results_are_filtered_by_domain(engine: MockEngine) -> None:
    engine.will(searched("capital"), text("It is Rome."))
    async with searching(engine) as gateway:
        await gateway.create(tools=[{**TOOL, "filters": {"allowed_domains": ["rome.example"]}}])
    found = engine.last["messages"][-1]["content"]
    assert "rome.example" in found
    assert "milan.example" not in found


async def test_a_server_of_the_request_cannot_take_its_place(engine: MockEngine) -> None:
    engine.will(searched("capital"), text("It is Rome."))
    own = {"type": "mcp", "server_label": "finder", "require_approval": "never"}
    async with searching(engine) as gateway:
        await gateway.create(tools=[TOOL, own])
    assert "rome.example" in engine.last["messages"][-1]["content"]


async def test_its_failure_is_a_failed_search(engine: MockEngine) -> None:
    engine.will(searched("fail"), text("I cannot search."))
    async with searching(engine) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert "the MCP server finder failed" in engine.last["messages"][-1]["content"]
