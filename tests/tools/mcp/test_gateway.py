"""MCP servers behind a gateway, over sockets: those of requests, and those of the operator."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from support import bad_mcp_server
from support.background import Background
from support.bad_mcp_server import BadMcpServer
from support.commands import ANTIPHON, bare_environment, served
from support.engine import MockEngine, Refusal, answer, call, text
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway
from support.inspector import opened, rows
from support.processes import ended
from support.sockets import connected

from antiphon.settings.settings import Settings
from antiphon.settings.tables import McpServerSettings, McpSettings
from bench.processes import free_port

ECHO = answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls")
ITEMS = ["mcp_list_tools", "mcp_call", "message"]


def tool(server: BadMcpServer, **members: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": "bad", "server_url": server.url + "/mcp", "require_approval": "never", **members}


def operators(**servers: McpServerSettings) -> McpSettings:
    return McpSettings(connect_timeout=20, servers=servers)


def program(mode: str = "", **options: Any) -> McpServerSettings:
    return McpServerSettings(command=sys.executable, args=(bad_mcp_server.__file__, mode), **options)


def types_of(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


def offered(engine: MockEngine) -> list[str]:
    return [tool["function"]["name"] for tool in engine.requests[0].get("tools") or ()]


# ---- servers of requests ---------------------------------------------------------------------------------------------


async def test_a_server_of_a_request_is_listed_and_called(engine: MockEngine) -> None:
    engine.will(ECHO, text("Done."))
    async with BadMcpServer() as server, running_gateway(engine) as gateway:
        response = await gateway.create(tools=[tool(server, authorization="a-long-secret")])
        assert types_of(response) == ITEMS
        assert response["output"][1]["output"] == '{"a": 1}'
        assert "a-long-secret" not in json.dumps(response)
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer a-long-secret"}
    assert engine.last["messages"][-1]["content"] == '{"a": 1}'


@pytest.mark.parametrize("way", ["stream", "websocket", "background"])
async def test_every_way_in_reaches_the_server(engine: MockEngine, way: str) -> None:
    engine.will(ECHO, text("Done."))
    async with BadMcpServer() as server, running_gateway(engine) as gateway:
        response = await WAYS[way](gateway, tool(server))
    assert types_of(response) == ITEMS
    assert (response["status"], response["output"][1]["status"]) == ("completed", "completed")


async def _stream(gateway: GatewayUnderTest, tool: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = (await gateway.stream(tools=[tool]))[-1]["response"]
    return response


async def _websocket(gateway: GatewayUnderTest, tool: dict[str, Any]) -> dict[str, Any]:
    async with connected(gateway) as socket:
        return await socket.create(tools=[tool])


async def _background(gateway: GatewayUnderTest, tool: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps({"model": "mock", "input": "Hi", "background": True, "stream": True, "tools": [tool]}).encode()
    async with gateway.client.post(gateway.url + "/v1/responses", data=body) as answer:
        queued = json.loads((await answer.content.readuntil(b"\n\n")).partition(b"data: ")[2])
        await answer.read()
    _, response = await gateway.get(f"/v1/responses/{queued['response']['id']}")
    return response


WAYS = {"stream": _stream, "websocket": _websocket, "background": _background}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("rpc_error", "mcp_protocol_error"), ("tool_error", "mcp_tool_execution_error"), ("status", "http_error")],
)
async def test_a_call_that_fails_is_told_to_the_model(engine: MockEngine, name: str, kind: str) -> None:
    engine.will(answer(call(f"bad__{name}", "{}", id="a"), finish="tool_calls"), text("A pity."))
    async with BadMcpServer() as server, running_gateway(engine) as gateway:
        response = await gateway.create(tools=[tool(server)])
    failed = response["output"][1]
    assert (failed["status"], failed["output"], failed["error"]["type"]) == ("failed", None, kind)
    assert response["status"] == "completed"
    assert engine.last["messages"][-1]["content"]


async def test_a_server_that_does_not_list_is_a_424_with_its_status(engine: MockEngine) -> None:
    async with BadMcpServer() as server, running_gateway(engine) as gateway:
        refused = {**tool(server), "server_url": server.url + "/status/401"}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [refused]})
    assert (status, body["error"]["type"], body["error"]["code"]) == (424, "external_connector_error", "http_error")
    assert "'bad'" in body["error"]["message"]
    assert "401" in body["error"]["message"]
    assert engine.requests == []


# ---- what requests may not name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/mcp",
        "http://example.com/mcp",
        "https://192.168.0.1/mcp",
        "https://169.254.169.254/latest",
        "https://[::ffff:169.254.169.254]/",
        "https://0xa9fea9fe/",
        "https://2852039166/",
        "https://0.0.0.0/",
        "https://[fe80::1]/",
        "https://ada:a-long-secret@example.com/mcp",
        "stdio:///bin/sh",
        "file:///etc/passwd",
    ],
)
async def test_a_url_that_may_not_be_used_is_a_400(engine: MockEngine, url: str) -> None:
    async with running_gateway(engine) as gateway:
        bad = {"type": "mcp", "server_label": "bad", "server_url": url}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [bad]})
    assert (status, body["error"]["param"]) == (400, "tools[0].server_url")
    assert "a-long-secret" not in json.dumps(body)
    assert engine.requests == []


async def test_the_gateway_never_connects_to_itself(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        for host in ("127.0.0.1", "[::1]", "127.0.0.2", "[::ffff:127.0.0.1]"):
            url = gateway.url.replace("127.0.0.1", host) + "/v1/mcp"
            bad = {"type": "mcp", "server_label": "bad", "server_url": url}
            status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [bad]})
            assert status == 400
            assert "is this gateway itself" in body["error"]["message"]
        # The name is known only when it is resolved.
        bad = {"type": "mcp", "server_label": "bad", "server_url": gateway.url.replace("127.0.0.1", "localhost")}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [bad]})
        assert status == 424
        assert "is this gateway itself" in body["error"]["message"]


async def test_a_redirect_into_a_private_network_is_not_followed(engine: MockEngine) -> None:
    async with BadMcpServer() as server, BadMcpServer() as other, running_gateway(engine) as gateway:
        for target in (f"{other.url}/mcp", "http://169.254.169.254/", "http://10.0.0.1/"):
            bad = {"type": "mcp", "server_label": "bad", "server_url": f"{server.url}/redirect?to={target}"}
            status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [bad]})
            assert status == 424
            assert "Http status code: 307" in body["error"]["message"]
        assert other.headers == []


async def test_where_urls_are_off_only_the_operators_servers_can_be_used(engine: MockEngine) -> None:
    mcp = McpSettings(urls="off", servers={"bad": program()})
    engine.will(text("Hello."))
    async with BadMcpServer() as server, running_gateway(engine, mcp=mcp) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [tool(server)]})
        assert status == 400
        assert "the setting mcp.urls does not allow it" in body["error"]["message"]
        response = await gateway.create(tools=[{"type": "mcp", "server_label": "bad"}])
    assert types_of(response) == ["mcp_list_tools", "message"]


# ---- servers of the operator -----------------------------------------------------------------------------------------


async def test_an_operators_server_is_used_by_its_label(engine: MockEngine) -> None:
    engine.will(ECHO, text("Done."))
    async with running_gateway(engine, mcp=operators(bad=program())) as gateway:
        response = await gateway.create(tools=[{"type": "mcp", "server_label": "bad", "require_approval": "never"}])
    assert types_of(response) == ITEMS
    assert response["output"][1]["output"] == '{"a": 1}'


async def test_an_attached_server_is_there_without_being_asked_for(engine: MockEngine) -> None:
    engine.will(ECHO, text("Done."))
    async with running_gateway(engine, mcp=operators(bad=program(always=True))) as gateway:
        response = await gateway.create()
        assert types_of(response) == ["mcp_call", "message"]
        assert response["tools"] == []
        events = await gateway.stream()
        assert [event["type"] for event in events if "mcp_list" in event["type"]] == []
    assert "bad__echo" in offered(engine)


CHOSEN = {"input": "Hi", "tool_choice": {"type": "mcp", "server_label": "bad"}}


@pytest.mark.parametrize("model", ["mock", "alias"])
async def test_a_background_request_may_choose_an_attached_server(engine: MockEngine, model: str) -> None:
    """It is checked when it is queued, and again when it runs."""
    engine.will(ECHO, text("Done."))
    mcp = operators(bad=program(always=True, models=(model,)))
    async with running_gateway(engine, mcp=mcp, model_names={"alias": "mock"}) as gateway:
        response = await Background(gateway).made(**CHOSEN, model=model)
    assert types_of(response) == ["mcp_call", "message"]


@pytest.mark.parametrize("model", ["mock", "alias"])
async def test_the_tokens_of_a_request_are_counted_with_the_servers_that_are_attached(engine: MockEngine, model: str) -> None:
    """Those that have not been listed are named, as for servers of the request."""
    mcp = operators(bad=program(always=True, models=(model,)))
    async with running_gateway(engine, mcp=mcp, model_names={"alias": "mock"}) as gateway:
        status, body = await gateway.post({"model": model, **CHOSEN}, "/v1/responses/input_tokens")
        assert status == 200, body
        assert "the tools of MCP server bad were not counted" in gateway.notice


@pytest.mark.parametrize(("model", "is_attached"), [("mock", True), ("alias", True), ("other", False)])
async def test_a_server_is_attached_to_the_models_that_the_operator_names(
    engine: MockEngine, model: str, is_attached: bool
) -> None:
    engine.lists("mock", "other")
    mcp = operators(bad=program(always=True, models=("mock",)))
    async with running_gateway(engine, mcp=mcp, model_names={"alias": "mock"}) as gateway:
        await gateway.create(model=model)
    assert ("bad__echo" in offered(engine)) is is_attached


async def test_a_server_in_input_items_gets_no_calls_of_an_attached_one(engine: MockEngine) -> None:
    engine.will(ECHO, text("Done."))
    async with BadMcpServer() as server, running_gateway(engine, mcp=operators(bad=program(always=True))) as gateway:
        found = {"type": "additional_tools", "role": "developer", "tools": [tool(server)]}
        response = await gateway.create([found, {"role": "user", "content": "Hi"}])
        assert types_of(response) == ["mcp_call", "message"]
        assert response["output"][0]["output"] == '{"a": 1}'
        assert (server.tools.called, server.headers) == ([], [])


@pytest.mark.parametrize(("key", "is_attached"), [("for-ada", True), ("for-bob", False)])
async def test_a_server_is_attached_for_the_keys_that_the_operator_names(
    engine: MockEngine, key: str, is_attached: bool
) -> None:
    mcp = operators(bad=program(always=True, keys=("ada",)))
    keys = {"ada": ("for-ada",), "bob": ("for-bob",)}
    async with running_gateway(engine, mcp=mcp, keys=keys) as gateway:
        headers = {"Authorization": f"Bearer {key}"}
        status, _ = await gateway.post({"model": "mock", "input": "Hi"}, headers=headers)
        assert status == 200
        named = {"model": "mock", "input": "Hi", "tools": [{"type": "mcp", "server_label": "bad"}]}
        status, _ = await gateway.post(named, headers=headers)
        assert status == (200 if is_attached else 424)
    assert ("bad__echo" in offered(engine)) is is_attached


async def test_servers_are_added_and_removed_while_the_gateway_runs(engine: MockEngine) -> None:
    async with running_gateway(engine, mcp=McpSettings(urls="off")) as gateway:
        changed = Settings(upstream=(engine.url,), port=0, mcp=operators(bad=program(always=True)), **DEFAULTS)
        await gateway.reload(changed)
        await gateway.create()
        assert "bad__echo" in [tool["function"]["name"] for tool in engine.last["tools"]]
        named = {"type": "mcp", "server_label": "bad", "require_approval": "never"}
        assert types_of(await gateway.create(tools=[named])) == ["mcp_list_tools", "message"]
        await gateway.reload(structs.replace(changed, mcp=McpSettings()))
        await gateway.create()
        assert "tools" not in engine.last
        status, _ = await gateway.post({"model": "mock", "input": "Hi", "tools": [named]})
        assert status == 400


@pytest.mark.parametrize("names_a_url", [True, False])
async def test_a_recording_stays_what_it_was_when_servers_change(engine: MockEngine, names_a_url: bool) -> None:
    async with BadMcpServer() as server, running_gateway(engine, mcp=operators(bad=program())) as gateway:
        named = tool(server) if names_a_url else {"type": "mcp", "server_label": "bad"}
        events = await gateway.stream(tools=[named])
        await gateway.reload(Settings(upstream=(engine.url,), port=0, mcp=McpSettings(urls="off"), **DEFAULTS))
        (row,) = await rows(gateway)
        view = await opened(gateway, row["number"])
    assert view["exact"]
    assert [moment["event"] for moment in view["timeline"] if moment["kind"] == "event"] == events


async def test_the_time_of_a_call_and_the_size_of_schemas_change_while_the_gateway_runs(engine: MockEngine) -> None:
    """Also for sessions that are open."""
    slow = answer(call("bad__slow", "{}", id="a"), finish="tool_calls")
    mcp = operators(bad=program())
    settings = Settings(upstream=(engine.url,), port=0, mcp=mcp, **DEFAULTS)
    bad = {"type": "mcp", "server_label": "bad", "require_approval": "never"}

    def names(response: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in response["output"][0]["tools"]]

    async with running_gateway(engine, mcp=mcp) as gateway:
        assert "echo" in names(await gateway.create(tools=[bad]))
        await gateway.reload(structs.replace(settings, max_schema_bytes=1))
        assert names(await gateway.create(tools=[bad])) == []
        await gateway.reload(structs.replace(settings, tool_timeout=0.3))
        engine.will(slow, text("Done."))
        response = await gateway.create(tools=[bad])
    assert response["output"][1]["error"]["message"] == "The server did not answer within 0.3 seconds."


async def test_an_attached_server_that_is_broken_is_a_notice(engine: MockEngine) -> None:
    async with running_gateway(engine, mcp=operators(bad=program("exits", always=True))) as gateway:
        response = await gateway.create()
        assert types_of(response) == ["message"]
        assert "the tools of MCP server bad are not offered" in gateway.notice
        assert "database" not in gateway.notice


@pytest.mark.parametrize("status", [400, 503])
async def test_what_the_engine_refuses_has_its_status_where_a_server_is_attached(engine: MockEngine, status: int) -> None:
    """A stream, too: the lists of attached servers are no items, so that nothing has to be sent before the engine is asked."""
    async with running_gateway(engine, mcp=operators(bad=program(always=True))) as gateway:
        # The program runs from here on: the stream does not have to begin while it starts.
        await gateway.create()
        engine.will(*[Refusal(status, {"error": {"message": "No."}}, {"Retry-After": "30"})] * 3)
        refused, _ = await gateway.post({"model": "mock", "input": "Hi", "stream": True})
        assert refused == status
        assert gateway.headers["Content-Type"].startswith("application/json")


async def test_a_stream_gets_signs_of_life_while_an_attached_server_starts(engine: MockEngine) -> None:
    engine.will(ECHO, text("Done."))
    async with running_gateway(engine, mcp=operators(bad=program(always=True)), heartbeat=0.02) as gateway:
        events = await gateway.stream()
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.in_progress"]
    assert types_of(events[-1]["response"]) == ["mcp_call", "message"]


async def test_a_stream_begins_before_a_server_of_its_request_is_listed(engine: MockEngine) -> None:
    """Also if another one is attached."""
    engine.will(text("Hello."), Refusal(400, {"error": {"message": "No."}}))
    async with BadMcpServer() as server, running_gateway(engine, mcp=operators(other=program(always=True))) as gateway:
        await gateway.create()
        events = await gateway.stream(tools=[tool(server)])
    kinds = [event["type"] for event in events]
    assert kinds.index("response.created") < kinds.index("response.mcp_list_tools.completed")
    assert kinds[-1] == "response.failed"


async def test_a_server_may_have_more_time_than_other_tools(engine: MockEngine) -> None:
    """And less: the call ends when the time of its server does."""
    slow = answer(call("bad__slow", "{}", id="a"), finish="tool_calls")
    engine.will(slow, text("Done."))
    mcp = operators(bad=program(always=True, timeout=0.5))
    async with running_gateway(engine, mcp=mcp, tool_timeout=0.1) as gateway:
        response = await gateway.create()
    assert response["output"][0]["error"]["message"] == "The server did not answer within 0.5 seconds."


async def test_a_program_ends_with_the_gateway(engine: MockEngine) -> None:
    engine.will(answer(call("bad__process", "{}", id="a"), finish="tool_calls"), text("Done."))
    async with running_gateway(engine, mcp=operators(bad=program(always=True))) as gateway:
        response = await gateway.create()
        watch = os.pidfd_open(json.loads(response["output"][0]["output"])["pid"])
    await ended(watch)


@pytest.mark.parametrize("signal", ["terminate", "kill"])
async def test_a_program_of_a_gateway_that_serves_ends_with_it(engine: MockEngine, tmp_path: Path, signal: str) -> None:
    """Beside the tests, on the loop that it serves with."""
    engine.will(answer(call("bad__process", "{}", id="a"), finish="tool_calls"), text("Done."))
    file, port = tmp_path / "antiphon.toml", free_port()
    arguments = json.dumps([bad_mcp_server.__file__])
    file.write_text(f"[mcp.servers.bad]\nalways = true\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n")
    async with (
        served("--port", str(port), "--upstream", engine.url, "--config", str(file)) as (gateway, _),
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi"}) as answered,
    ):
        response = await answered.json()
        watch = os.pidfd_open(json.loads(response["output"][0]["output"])["pid"])
        getattr(gateway, signal)()
        await ended(watch)


async def test_a_client_that_leaves_stops_the_call(engine: MockEngine) -> None:
    engine.will(answer(call("bad__slow", "{}", id="a"), finish="tool_calls"))
    async with BadMcpServer() as server, running_gateway(engine) as gateway:
        body = json.dumps({"model": "mock", "input": "Hi", "stream": True, "tools": [tool(server)]}).encode()
        async with gateway.client.post(gateway.url + "/v1/responses", data=body) as answered:
            await answered.content.readuntil(b"mcp_call_arguments.done")
            await asyncio.wait_for(server.tools.is_called.wait(), 10)
            answered.close()
        await asyncio.wait_for(server.tools.cancelled.wait(), 10)


async def test_the_sdk_is_not_imported_where_no_server_is_used() -> None:
    """It takes longer to import than the gateway."""
    source = "import sys, antiphon.cli.commands, antiphon.app.app; print([n for n in ('mcp', 'httpx2') if n in sys.modules])"
    process = await asyncio.create_subprocess_exec(
        *(ANTIPHON[0], "-c", source), stdout=asyncio.subprocess.PIPE, env=bare_environment()
    )
    out, _ = await process.communicate()
    assert out == b"[]\n"
