"""A server that the SDK itself makes, with the version of the protocol that has no handshake."""

from support.engine import MockEngine, answer, call, text
from support.gateway import running_gateway
from support.mcp_over_http import adding_server

from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.session import McpSession
from antiphon.tools.mcp.targets import HttpServer, McpLimits


async def test_the_newest_version_of_the_protocol_is_spoken() -> None:
    async with adding_server() as url:
        session = McpSession(HttpServer(url), AddressPolicy("any"), McpLimits())
        await session.open()
        assert session.protocol_version == "2026-07-28"
        result = await session.call("add", {"a": 2, "b": 40})
        assert result["structuredContent"] == {"result": 42}
        assert [tool["name"] for tool in (await session.list_tools()).tools] == ["add"]
        await session.close()


async def test_a_gateway_calls_it(engine: MockEngine) -> None:
    engine.will(answer(call("adding__add", '{"a": 2, "b": 40}', id="a"), finish="tool_calls"), text("42."))
    async with adding_server() as url, running_gateway(engine) as gateway:
        tool = {"type": "mcp", "server_label": "adding", "server_url": url, "require_approval": "never"}
        response = await gateway.create(tools=[tool])
    assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_call", "message"]
    assert response["output"][1]["output"] == "42"
