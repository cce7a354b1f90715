"""MCP servers that others wrote, behind a gateway: over stdio, streamable HTTP and the older SSE."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from support.clients import node_packages, program, python_environment
from support.engine import MockEngine, answer, call, text
from support.gateway import running_gateway
from support.servers import running_app

from antiphon.settings.tables import McpServerSettings, McpSettings
from bench.processes import free_port

ITEMS = ["mcp_list_tools", "mcp_call", "message"]
SUM = '{"a": 2, "b": 40}'


def python_server(name: str, *args: str, **options: Any) -> McpServerSettings:
    command = python_environment("mcp").with_name(f"mcp-server-{name}")
    return McpServerSettings(command=str(command), args=args, **options)


def everything() -> tuple[str, str]:
    """The command of the server that has one of everything."""
    return program("node"), str(node_packages() / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")


@asynccontextmanager
async def everything_over(transport: str) -> AsyncIterator[McpServerSettings]:
    """`transport`: "stdio", "streamableHttp" or "sse"."""
    node, script = everything()
    if transport == "stdio":
        yield McpServerSettings(command=node, args=(script, "stdio"))
        return
    port = free_port()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(node, script, transport),
        env={"PATH": os.environ["PATH"], "PORT": str(port)},
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            await process.stdout.readuntil(str(port).encode())
        # It writes a line for each request, which nobody reads.
        reading = asyncio.create_task(process.stdout.read())
        yield McpServerSettings(url=f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}")
    finally:
        process.kill()
        await process.wait()
        await reading


def calling(label: str, name: str, arguments: str) -> bytes:
    return answer(call(f"{label}__{name}", arguments, id="a"), finish="tool_calls")


async def output_of(
    engine: MockEngine, server: McpServerSettings, name: str, arguments: dict[str, Any], *, failed: bool = False
) -> str:
    """What the model gets of a call of this tool, in a whole response."""
    engine.will(calling("real", name, json.dumps(arguments)), text("Done."))
    tool = {"type": "mcp", "server_label": "real", "require_approval": "never"}
    async with running_gateway(engine, mcp=McpSettings(servers={"real": server})) as gateway:
        response = await gateway.create(tools=[tool])
    assert [item["type"] for item in response["output"]] == ITEMS
    assert response["output"][1]["status"] == ("failed" if failed else "completed")
    output: str = engine.last["messages"][-1]["content"]
    assert failed or response["output"][1]["output"] == output
    return output


# ---- time and fetch --------------------------------------------------------------------------------------------------


async def test_the_time_is_told(engine: MockEngine) -> None:
    server = python_server("time", "--local-timezone=UTC")
    output = await output_of(engine, server, "get_current_time", {"timezone": "Europe/Paris"})
    assert json.loads(output)["timezone"] == "Europe/Paris"
    offered = engine.requests[0]["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["real__get_current_time", "real__convert_time"]
    assert offered[0]["function"]["parameters"]["required"] == ["timezone"]


async def test_a_wrong_time_zone_is_an_error_that_the_model_sees(engine: MockEngine) -> None:
    server = python_server("time", "--local-timezone=UTC")
    output = await output_of(engine, server, "get_current_time", {"timezone": "Nowhere/Land"}, failed=True)
    assert "Nowhere/Land" in output


async def test_a_page_is_fetched(engine: MockEngine) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<article><h1>News</h1><p>The cat is back.</p></article>", content_type="text/html")

    app = web.Application()
    app.add_routes([web.get("/page", page)])
    async with running_app(app) as site:
        url = f"{site}/page"
        output = await output_of(engine, python_server("fetch", "--allow-private-ips"), "fetch", {"url": url})
        assert "The cat is back." in output
        refused = await output_of(engine, python_server("fetch"), "fetch", {"url": url}, failed=True)
        assert "not a public address" in refused


# ---- everything, over every transport --------------------------------------------------------------------------------


@pytest.fixture(params=["stdio", "streamableHttp", "sse"])
async def real(request: pytest.FixtureRequest) -> AsyncIterator[McpServerSettings]:
    async with everything_over(request.param) as server:
        yield server


async def test_a_server_is_called_over_every_transport(engine: MockEngine, real: McpServerSettings) -> None:
    assert await output_of(engine, real, "get-sum", json.loads(SUM)) == "The sum of 2 and 40 is 42."


async def test_a_server_is_listed_and_called_in_a_stream(engine: MockEngine, real: McpServerSettings) -> None:
    engine.will(calling("real", "get-sum", SUM), text("42."))
    async with running_gateway(engine, mcp=McpSettings(servers={"real": real})) as gateway:
        events = await gateway.stream(tools=[{"type": "mcp", "server_label": "real", "require_approval": "never"}])
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[2:6] == ["output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"]
    assert [kind for kind in kinds if kind.startswith("mcp_call.")] == ["mcp_call.in_progress", "mcp_call.completed"]
    assert events[-1]["response"]["output"][1]["output"] == "The sum of 2 and 40 is 42."


@pytest.mark.parametrize(
    ("name", "arguments", "output"),
    [
        ("echo", {"message": "hi"}, "Echo: hi"),
        ("get-tiny-image", {}, "[image of type image/png, "),
        ("get-structured-content", {"location": "New York"}, '{"temperature":'),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "[resource demo://resource/dynamic/text/1]\n"),
        ("get-resource-links", {"count": 1}, "[resource "),
    ],
)
async def test_every_kind_of_result_becomes_text(engine: MockEngine, name: str, arguments: dict[str, Any], output: str) -> None:
    async with everything_over("stdio") as server:
        assert output in await output_of(engine, server, name, arguments)


async def test_a_real_server_does_not_see_the_gateways_environment(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_UPSTREAM_KEY", "a-long-secret")
    async with everything_over("stdio") as server:
        assert "a-long-secret" not in await output_of(engine, server, "get-env", {})


async def test_an_attached_server_is_used_by_who_does_not_know_of_it(engine: MockEngine) -> None:
    server = python_server("time", "--local-timezone=UTC", always=True)
    engine.will(calling("time", "get_current_time", '{"timezone": "Asia/Tokyo"}'), text("Late."))
    async with running_gateway(engine, mcp=McpSettings(servers={"time": server})) as gateway:
        response = await gateway.create("What time is it in Tokyo?")
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    assert json.loads(response["output"][0]["output"])["timezone"] == "Asia/Tokyo"
