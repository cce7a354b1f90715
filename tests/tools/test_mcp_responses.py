"""MCP tools in a gateway, over sockets: streamed, whole, WebSocket, background, stored, continued."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.mcp_tools import LISTS, WEATHER, FakeServers, kinds
from support.sockets import connected
from support.streams import check_stream

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.mcp_servers import Listing, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.store import open_store
from antiphon.tools.runner import ToolContext
from antiphon.wire.hosted_items import McpProtocolError

PARIS = '{"city": "Paris"}'
ASKS = answer(call("weather__forecast", PARIS, id="a"), finish="tool_calls")
BOUND = {**WEATHER, "require_approval": "always"}
ITEMS = ["mcp_list_tools", "mcp_call", "message"]
SECRET = {**WEATHER, "authorization": "s3cret-token", "headers": {"X-Key": "s3cret-key"}, "server_url": "https://h/s3cret-path"}


@asynccontextmanager
async def gateway_of(
    engine: MockEngine, servers: FakeServers | None = None, **settings: Any
) -> AsyncIterator[GatewayUnderTest]:
    extensions = Extensions(tools={"mcp": servers or FakeServers()}, checker=CHECKER)
    async with running_gateway(engine, extensions=extensions, **settings) as gateway:
        yield gateway


def types_of(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


# ---- every way in ----------------------------------------------------------------------------------------------------


async def test_a_streamed_response_lists_calls_and_goes_on(engine: MockEngine) -> None:
    engine.will(ASKS, text("Sunny."))
    async with gateway_of(engine) as gateway:
        events = await gateway.stream(tools=[WEATHER])
    assert types_of(events[-1]["response"]) == ITEMS
    assert kinds(events)[2:6] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
    ]
    assert [kind for kind in kinds(events) if kind.startswith("mcp_call")] == [
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
    ]
    assert events[-1]["response"]["tools"][0] == {
        "type": "mcp",
        "server_label": "weather",
        "server_url": "https://weather.example/<redacted>",
        "require_approval": "never",
        "allowed_tools": None,
        "headers": None,
    }
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]


async def test_a_whole_response_has_the_same_items(engine: MockEngine) -> None:
    engine.will(ASKS, text("Sunny."))
    async with gateway_of(engine) as gateway:
        response = await gateway.create(tools=[WEATHER])
    assert types_of(response) == ITEMS
    assert response["output"][1]["output"] == "It is sunny."
    assert response["usage"]["total_tokens"] == 2 * 17


async def test_over_a_websocket_it_is_the_same(engine: MockEngine) -> None:
    engine.will(ASKS, text("Sunny."), text("Rainy."))
    servers = FakeServers()
    async with gateway_of(engine, servers) as gateway, connected(gateway) as socket:
        await socket.send(tools=[WEATHER], store=False)
        first = check_stream(await socket.turn())
        assert types_of(first) == ITEMS
        await socket.send("And tomorrow?", tools=[WEATHER], store=False, previous_response_id=first["id"])
        assert types_of(check_stream(await socket.turn())) == ["message"]
    assert len(servers.listed) == 1


async def test_in_the_background_it_is_the_same(engine: MockEngine) -> None:
    engine.will(ASKS, text("Sunny."))
    servers = FakeServers()
    async with gateway_of(engine, servers) as gateway:
        background = Background(gateway)
        made = await background.made(tools=[SECRET])
        assert types_of(made) == ITEMS
        assert check_stream(await background.follow(made["id"]))["output"] == made["output"]
    assert servers.servers == [McpServer("weather", SECRET["server_url"], SECRET["headers"], SECRET["authorization"])]


async def test_a_call_that_fails_fails_no_response(engine: MockEngine) -> None:
    def fails(call: ToolCall) -> ToolResult:
        return ToolResult("Unknown city.", failed=True, data=McpProtocolError(-32602, "Unknown city."))

    engine.will(ASKS, text("Sorry."))
    async with gateway_of(engine, FakeServers(result=fails)) as gateway:
        events = await gateway.stream(tools=[WEATHER])
    assert "mcp_call.failed" in kinds(events)
    error = {"type": "mcp_protocol_error", "code": -32602, "message": "Unknown city."}
    assert events[-1]["response"]["output"][1]["error"] == error
    assert engine.last["messages"][-1]["content"] == "Unknown city."


# ---- lists that cannot be made ---------------------------------------------------------------------------------------

AWAY = FakeServers({"weather": Listing(error=McpListError("It said no.", 401))})


async def test_without_a_list_a_whole_response_is_a_424(engine: MockEngine) -> None:
    async with gateway_of(engine, AWAY) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [WEATHER]})
    assert status == 424
    message = "Error retrieving tool list from MCP server: 'weather'. Http status code: 401. It said no."
    assert body["error"] == {"message": message, "type": "external_connector_error", "param": "tools", "code": "http_error"}
    assert not engine.requests


async def test_without_a_list_a_streamed_response_fails(engine: MockEngine) -> None:
    async with gateway_of(engine, AWAY) as gateway:
        events = await gateway.stream(tools=[WEATHER])
        made = await Background(gateway).made(tools=[WEATHER])
    assert kinds(events)[3:] == ["mcp_list_tools.in_progress", "mcp_list_tools.failed", "output_item.done", "failed"]
    assert events[-1]["response"]["output"][0]["error"] == "It said no."
    assert (made["status"], types_of(made)) == ("failed", ["mcp_list_tools"])


async def test_a_runner_that_breaks_while_it_lists_fails_the_response_alone(
    engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeServers):
        async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
            raise RuntimeError("it fell over")

    async with gateway_of(engine, Broken()) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [WEATHER]})
    assert (status, body["error"]["type"]) == (424, "external_connector_error")
    assert "it fell over" in body["error"]["message"]
    assert "listing_failed" in caplog.text


async def test_a_client_that_leaves_while_servers_are_listed_stops_that(engine: MockEngine) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    class Slow(FakeServers):
        async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            raise AssertionError

    async with gateway_of(engine, Slow(), heartbeat=0.02) as gateway:
        body = {"model": "mock", "input": "Hi", "tools": [WEATHER], "stream": True, "store": False}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            await begun.wait()
            for _ in range(3):
                await answered.content.readuntil(b"event: response.in_progress\n")
        await stopped.wait()
        await gateway.gateway.in_flight.drain(30)


# ---- stored and continued --------------------------------------------------------------------------------------------


async def test_a_continued_response_lists_nothing_again_and_its_prompt_only_grows(engine: MockEngine) -> None:
    engine.will(ASKS, text("Sunny."), text("Rainy."), text("Cold."))
    servers = FakeServers()
    async with gateway_of(engine, servers) as gateway:
        first = await gateway.create(tools=[WEATHER])
        second = await gateway.create("And tomorrow?", tools=[WEATHER], previous_response_id=first["id"])
        assert types_of(second) == ["message"]
        live = engine.requests[1]["messages"]
        assert engine.last["messages"][: len(live)] == live
        # As a client would send it that stores nothing.
        await gateway.create([{"role": "user", "content": "Hi"}, *first["output"], {"role": "user", "content": "?"}])
        assert engine.last["messages"][: len(live)] == live
        _, stored = await gateway.get(f"/v1/responses/{first['id']}")
        assert stored["output"] == first["output"]
    assert len(servers.listed) == 1


@pytest.mark.parametrize("way", ["previous_response_id", "conversation", "sent"])
async def test_an_approval_in_the_next_request_runs_the_call(engine: MockEngine, way: str) -> None:
    engine.will(ASKS, text("Sunny."))
    servers = FakeServers()
    async with gateway_of(engine, servers) as gateway:
        fields: dict[str, Any] = {"tools": [BOUND]}
        if way == "conversation":
            _, conversation = await gateway.post({}, "/v1/conversations")
            fields["conversation"] = conversation["id"]
        first = await gateway.create(**fields)
        request = first["output"][1]
        assert (request["type"], servers.calls) == ("mcp_approval_request", [])
        if way == "previous_response_id":
            fields["previous_response_id"] = first["id"]
        before = [{"role": "user", "content": "Hi"}, *first["output"]] if way == "sent" else []
        approval = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        events = await gateway.stream([*before, approval], **fields)
    assert types_of(events[-1]["response"]) == ["mcp_call", "message"]
    assert events[-1]["response"]["output"][0]["approval_request_id"] == request["id"]
    assert len(servers.calls) == 1
    assert engine.last["messages"][-1]["content"] == "It is sunny."


async def test_an_approval_of_nothing_is_a_400(engine: MockEngine) -> None:
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    async with gateway_of(engine) as gateway:
        status, body = await gateway.post({"model": "mock", "input": [approval], "tools": [WEATHER]})
        assert (status, body["error"]["param"]) == (400, "input[0].approval_request_id")
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [WEATHER, WEATHER]})
        assert (status, body["error"]["param"]) == (400, "tools[1].server_label")


async def test_a_required_call_of_a_server_is_made(engine: MockEngine) -> None:
    engine.will(ASKS, text("Sunny."))
    choice = {"type": "mcp", "server_label": "weather", "name": "forecast"}
    async with gateway_of(engine) as gateway:
        response = await gateway.create(tools=[WEATHER], tool_choice=choice)
    assert (types_of(response), response["tool_choice"]) == (ITEMS, choice)
    assert [tool["function"]["name"] for tool in engine.requests[0]["tools"]] == ["weather__forecast"]


async def test_counting_a_prompt_asks_no_server_and_runs_no_call(engine: MockEngine) -> None:
    servers = FakeServers()
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "weather", "name": "forecast", "arguments": "{}"}
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    async with gateway_of(engine, servers) as gateway:
        body = {"model": "mock", "input": [request, approval, {"role": "user", "content": "Hi"}], "tools": [WEATHER]}
        status, counted = await gateway.post(body, "/v1/responses/input_tokens")
        assert (status, counted["object"]) == (200, "response.input_tokens")
        assert "the tools of MCP server weather were not counted" in gateway.notice
    assert (servers.listed, servers.calls) == ([], [])


# ---- secrets ---------------------------------------------------------------------------------------------------------


async def test_secrets_are_neither_stored_nor_logged_nor_recorded_nor_shown(
    engine: MockEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    stored = tmp_path / "store.db"
    servers = FakeServers()
    shown: list[bytes] = []
    in_store: list[bytes] = []

    def store_bytes() -> bytes:
        return b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))

    class Waiting(FakeServers):
        async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
            # While it runs, its request is in the queue.
            in_store.append(store_bytes())
            return servers.to_listing(server)

    running = Waiting()
    async with gateway_of(engine, running, store=f"sqlite:{stored}") as gateway:
        engine.otherwise = lambda body: text("Fine.") if body["messages"][-1]["role"] == "tool" else ASKS
        found = {"type": "additional_tools", "role": "developer", "tools": [{**SECRET, "server_label": "found"}]}
        running._lists = servers._lists = {**LISTS, "found": LISTS["weather"]}
        items = [found, {"role": "user", "content": "Hi"}]
        background = Background(gateway)
        made = await background.made(items, tools=[SECRET])
        assert made["status"] == "completed", made
        shown.append(msgspec.json.encode([made, *await background.follow(made["id"])]))
        shown.append(msgspec.json.encode(await gateway.stream(items, tools=[SECRET])))
        # Refused: a member is wrong, or it is no JSON at all.
        refused = msgspec.json.encode({"model": "mock", "input": "Hi", "tools": [{**SECRET, "require_approval": "?"}]})
        for body in (refused, refused[:-1]):
            status, answered = await gateway.post(body)
            assert status == 400
            shown.append(msgspec.json.encode(answered))
        for number in range(1, 5):
            # Those that were refused have no recording.
            for path, status in (("", 200), ("/recording", 200 if number < 3 else 404)):
                async with gateway.client.get(f"{gateway.url}/inspector/requests/{number}{path}") as opened:
                    assert opened.status == status
                    shown.append(await opened.read())
        _, listed = await gateway.get(f"/v1/responses/{made['id']}/input_items?order=asc")
        shown.append(msgspec.json.encode(listed))
        in_store.append(store_bytes())
    assert {server.authorization for server in servers.listed} == {"s3cret-token"}, "the servers got it"
    assert any(b"mcp_call" in each for each in in_store)
    assert sum(b"server_label" in each for each in shown) >= 8
    logged = str([vars(record) for record in caplog.records]).encode()
    assert b"input_items" in logged
    for each in (*in_store, *shown, logged, store_bytes()):
        assert b"s3cret" not in each


@pytest.mark.parametrize("same", [True, False], ids=["the same key", "another key"])
async def test_another_gateway_runs_a_queued_request_with_secrets_if_it_has_the_seal_key(
    engine: MockEngine, same: bool
) -> None:
    engine.will(ASKS, text("Sunny."))
    servers = FakeServers()
    async with (
        open_store("memory:") as store,
        gateway_of(engine, shares=store, background_workers=0) as idle,
    ):
        made = await Background(idle).create(tools=[SECRET])
        async with gateway_of(engine, servers, shares=store, **({} if same else {"seal_key": "another"})) as gateway:
            ended = await Background(gateway).ended(made["id"])
    assert ended["status"] == ("completed" if same else "failed")
    assert len(servers.calls) == same
    if not same:
        assert "sealed with another key" in ended["error"]["message"]
