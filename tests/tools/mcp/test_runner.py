"""The runner of MCP tools: whose sessions are whose, how long they live, and what becomes of failures."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support import bad_mcp_server
from support.bad_mcp_server import BadMcpServer

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.mcp_servers import Listing, McpDefinition, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.runner import McpRunner
from antiphon.tools.mcp.targets import HttpServer, McpLimits, OperatorServer, StdioServer
from antiphon.tools.runner import ToolContext
from antiphon.wire.hosted_items import McpHttpError, McpProtocolError, McpToolExecutionError
from antiphon.wire.responses import CreateResponse

LOCAL = AddressPolicy("public", loopback=True, https=True)
LIMITS = McpLimits(connect=20, call=20, answer_bytes=1_000_000)


def operator(name: str = "local", **options: Any) -> OperatorServer:
    """A program that says which process it is."""
    return OperatorServer(name, StdioServer(sys.executable, (bad_mcp_server.__file__,)), **options)


@asynccontextmanager
async def runner_of(*servers: OperatorServer, limits: McpLimits = LIMITS, **options: Any) -> AsyncIterator[McpRunner]:
    runner = McpRunner({server.name: server for server in servers}, LOCAL, limits, **options)
    try:
        yield runner
    finally:
        await runner.close()
        assert runner.pool.count == 0


class Response:
    """A response that calls tools."""

    def __init__(self, runner: McpRunner, owner: str = "ada", *tools: dict[str, Any]) -> None:
        self._runner = runner
        request = CreateResponse(input="Hi", tools=list(tools))
        self.context = ToolContext(owner, f"resp_{id(self)}", request, server_of=self._server_of)

    async def __aenter__(self) -> "Response":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.context.resources.aclose()

    async def run(self, label: str, name: str, **arguments: Any) -> ToolResult:
        return await self._runner.run(ToolCall("call_1", "mcp", name, label, json.dumps(arguments)), self.context)

    def _server_of(self, label: str) -> McpServer:
        tools = [tool for tool in self.context.request.tools or () if tool["server_label"] == label]
        return msgspec.convert(tools[0], McpDefinition).server if tools else McpServer(label)

    async def process(self, label: str = "local") -> int:
        pid: int = json.loads((await self.run(label, "process")).output)["pid"]
        return pid

    async def list(self, label: str) -> Listing:
        tools = [tool for tool in self.context.request.tools or () if tool["server_label"] == label]
        url = tools[0]["server_url"] if tools else None
        return await self._runner.list_tools(McpServer(label, url), self.context)


def tool(server: BadMcpServer, path: str = "/mcp", **members: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": "bad", "server_url": server.url + path, **members}


# ---- sessions --------------------------------------------------------------------------------------------------------


async def test_responses_of_one_owner_share_a_session_and_others_do_not() -> None:
    async with runner_of(operator()) as runner:
        async with Response(runner) as first, Response(runner) as second, Response(runner, "bob") as other:
            processes = await asyncio.gather(first.process(), first.process(), second.process(), other.process())
        async with Response(runner) as later:
            assert await later.process() == processes[0]
    assert processes[0] == processes[1] == processes[2] != processes[3]


async def test_a_server_that_is_shared_is_one_process_for_all() -> None:
    async with runner_of(operator(shared=True)) as runner, Response(runner) as first, Response(runner, "bob") as other:
        assert await first.process() == await other.process()


async def test_responses_that_wait_for_the_same_server_wait_together() -> None:
    async with BadMcpServer() as server, runner_of(limits=replace(LIMITS, connect=0.5)) as runner:
        responses = [Response(runner, "ada", tool(server, "/silent")) for _ in range(5)]
        listings = await asyncio.gather(*(response.list("bad") for response in responses))
        assert listings == [Listing(error=McpListError("The server did not answer within 0.5 seconds."))] * 5
        assert len(server.paths) == 1
        for response in responses:
            await response.context.resources.aclose()


async def test_other_headers_are_another_session() -> None:
    async with BadMcpServer() as server, runner_of() as runner:
        for token in ("one", "two", "one"):
            async with Response(runner, "ada", tool(server, authorization=token)) as response:
                assert (await response.run("bad", "echo")).output == "{}"
        assert runner.pool.count == 2
        initialized = server.tools.methods.count("initialize")
    assert initialized == 2
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer one", "Bearer two"}


async def test_a_session_that_nobody_uses_is_closed() -> None:
    async with BadMcpServer() as server, runner_of(limits=replace(LIMITS, idle=0.01)) as runner:
        async with Response(runner, "ada", tool(server)) as response:
            await response.run("bad", "echo")
        assert await asyncio.wait_for(server.next_end(), 10) == "session-1"
        assert runner.pool.count == 0


async def test_new_limits_count_for_sessions_that_are_open() -> None:
    async with BadMcpServer() as server, runner_of() as runner:
        async with Response(runner, "ada", tool(server)) as response:
            await response.run("bad", "echo")
            runner.change({}, LOCAL, replace(LIMITS, idle=0.01, call=0.3))
            result = await response.run("bad", "slow")
            assert result.data == McpProtocolError(-32001, "The server did not answer within 0.3 seconds.")
        assert await asyncio.wait_for(server.next_end(), 10) == "session-1"
        assert runner.pool.count == 0


async def test_a_session_stays_open_as_long_as_a_response_may_use_it() -> None:
    async with BadMcpServer() as server, runner_of(limits=replace(LIMITS, idle=0.01)) as runner:
        async with Response(runner, "ada", tool(server)) as long:
            await long.run("bad", "echo")
            async with Response(runner, "ada", tool(server)) as short:
                await short.run("bad", "echo")
            await long.run("bad", "echo")
        assert server.tools.methods.count("initialize") == 1


async def test_only_so_many_sessions_are_kept() -> None:
    async with runner_of(operator(), limits=replace(LIMITS, sessions=1)) as runner:
        for owner in ("ada", "bob", "eve"):
            async with Response(runner, owner) as response:
                await response.process()
        assert runner.pool.count == 1


async def test_a_program_that_has_died_is_started_again_for_the_next_call() -> None:
    async with runner_of(operator()) as runner, Response(runner) as response:
        first = await response.process()
        died = await response.run("local", "die")
        assert died.data == McpProtocolError(-32000, "The server has ended, with exit code 7.")
        assert await response.process() != first


@pytest.mark.parametrize("says_400", [False, True])
async def test_a_session_that_the_server_has_forgotten_is_replaced_and_the_call_made_once(says_400: bool) -> None:
    async with BadMcpServer() as server, runner_of() as runner, Response(runner, "ada", tool(server)) as response:
        server.says_400 = says_400
        assert (await response.run("bad", "echo")).output == "{}"
        server.sessions.clear()
        assert (await response.run("bad", "echo", a=1)).output == '{"a": 1}'
        assert server.tools.called == ["echo", "echo"]
        assert server.tools.methods.count("initialize") == 2
        server.sessions.clear()
        assert (await response.list("bad")).error is None
        assert server.tools.methods.count("initialize") == 3


async def test_a_server_that_forgets_every_session_is_asked_twice_at_most() -> None:
    async with BadMcpServer() as server, runner_of() as runner, Response(runner, "ada", tool(server)) as response:
        server.forgets = True
        result = await response.run("bad", "echo")
        assert result.data == McpHttpError(404, "The server answered with HTTP status 404 (Not Found).")
        assert server.tools.methods.count("initialize") == 2


# ---- what becomes of calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rpc_error", McpProtocolError(-32050, "No such luck.")),
        ("tool_error", McpToolExecutionError([{"type": "text", "text": "The disk is full."}])),
        ("status", McpHttpError(503, "The server answered with HTTP status 503 (Service Unavailable).")),
        ("die", McpProtocolError(-32000, "The server closed the connection.")),
        ("huge", McpProtocolError(-32603, "The server's answer has more than 1,000,000 bytes.")),
        ("missing", McpProtocolError(-32602, "There is no tool missing.")),
    ],
)
async def test_a_failure_is_what_it_is(name: str, data: Any) -> None:
    async with BadMcpServer() as server, runner_of() as runner, Response(runner, "ada", tool(server)) as response:
        result = await response.run("bad", name)
        assert (result.failed, result.data) == (True, data)
        assert result.output
        # The others are not harmed.
        assert (await response.run("bad", "echo")).output == "{}"


@pytest.mark.parametrize("members", [{"authorization": "a-long-secret"}, {"server_url": "{url}/mcp?token=a-long-secret"}])
async def test_an_error_of_a_tool_does_not_repeat_what_the_server_was_sent(members: dict[str, str]) -> None:
    async with BadMcpServer() as server, runner_of() as runner:
        named = tool(server) | {name: value.format(url=server.url) for name, value in members.items()}
        async with Response(runner, "ada", named) as response:
            result = await response.run("bad", "leaking_error", key="a-long-secret")
            assert result.data == McpToolExecutionError([{"type": "text", "text": "Wrong key …."}])
            assert result.output == "Wrong key …."
            # A result is what the tool was called for.
            assert (await response.run("bad", "echo", key="a-long-secret")).output == '{"key": "a-long-secret"}'


async def test_a_call_of_an_operators_server_has_its_own_time() -> None:
    async with runner_of(operator(timeout=0.3)) as runner, Response(runner) as response:
        result = await response.run("local", "slow")
    assert result.data == McpProtocolError(-32001, "The server did not answer within 0.3 seconds.")


# ---- what the operator allows ----------------------------------------------------------------------------------------


async def test_tools_that_the_operator_does_not_allow_are_neither_listed_nor_called() -> None:
    server = operator(allowed_tools=frozenset({"echo"}))
    async with runner_of(server) as runner, Response(runner) as response:
        assert [tool.name for tool in (await response.list("local")).tools] == ["echo"]
        assert (await response.run("local", "process")).data == McpProtocolError(-32000, "The tool process is not allowed.")
        assert (await response.run("local", "echo")).output == "{}"


async def test_a_server_is_for_the_keys_that_the_operator_names() -> None:
    server = operator(keys=frozenset({"ada"}))
    async with runner_of(server) as runner, Response(runner) as allowed, Response(runner, "bob") as other:
        assert (await allowed.list("local")).error is None
        error = McpListError("There is no MCP server with the label local.")
        assert await other.list("local") == Listing(error=error)
        assert (await other.run("local", "echo")).failed


async def test_a_url_that_is_not_allowed_is_refused_when_it_is_used() -> None:
    refused = {"type": "mcp", "server_label": "bad", "server_url": "http://10.0.0.1/mcp"}
    async with runner_of() as runner, Response(runner, "ada", refused) as response:
        listing = await response.list("bad")
        assert listing.error is not None
        assert listing.error.message == (
            "The URL cannot be used: 10.0.0.1 is not on the public internet, and may not be connected to."
        )
        assert (await response.run("bad", "echo")).failed


async def test_a_list_that_fails_has_the_servers_status() -> None:
    error = McpListError("The server answered with HTTP status 401 (Unauthorized).", 401)
    async with BadMcpServer() as server, runner_of() as runner:
        response = Response(runner, "ada", tool(server, "/status/401"))
        assert await response.list("bad") == Listing(error=error)
        await response.context.resources.aclose()


async def test_a_list_shows_what_the_server_has_now() -> None:
    async with BadMcpServer("changing") as server, runner_of() as runner, Response(runner, "ada", tool(server)) as response:
        assert [tool.name for tool in (await response.list("bad")).tools] == ["tool_1"]
        assert [tool.name for tool in (await response.list("bad")).tools] == ["tool_2"]


async def test_the_list_of_an_operators_server_is_used_again_until_it_changes() -> None:
    """It may be attached to every request, and each would wait for the list."""
    changing = OperatorServer("local", StdioServer(sys.executable, (bad_mcp_server.__file__, "changing")))

    async def names(response: Response) -> list[str]:
        return [tool.name for tool in (await response.list("local")).tools]

    async with runner_of(changing) as runner, Response(runner) as response, Response(runner) as later:
        assert await names(response) == ["tool_1"]
        assert await names(later) == ["tool_1"]
        await response.run("local", "change")
        assert await names(later) == ["tool_2"]
    async with runner_of(changing, list_lifetime=0) as runner, Response(runner) as response:
        assert [await names(response), await names(response)] == [["tool_1"], ["tool_2"]]


async def test_an_operators_server_that_cannot_be_used_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    broken = OperatorServer("broken", StdioServer(sys.executable, (bad_mcp_server.__file__, "exits")))
    async with runner_of(broken) as runner, Response(runner) as response:
        assert (await response.list("broken")).error is not None
        assert (await response.run("broken", "echo")).failed
    members = [vars(record)["members"] for record in caplog.records if record.message == "mcp server failed"]
    assert members == [{"server": "broken", "reason": "The server has ended, with exit code 3."}]


async def test_what_a_server_says_of_a_call_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with runner_of(operator()) as runner, Response(runner) as response:
        assert (await response.run("local", "rpc_error")).failed
    assert "No such luck" not in caplog.text + str([vars(record) for record in caplog.records])


async def test_a_server_that_cannot_be_reached_is_not_tried_for_every_request() -> None:
    async with BadMcpServer() as server:
        broken = OperatorServer("broken", HttpServer(server.url + "/status/500", is_trusted=True))
        async with runner_of(broken, retry_interval=1000) as runner, Response(runner) as response:
            first = await response.list("broken")
            asked = len(server.paths)
            assert await response.list("broken") == first
            assert len(server.paths) == asked
        async with runner_of(broken, retry_interval=0) as runner, Response(runner) as response:
            await response.list("broken")
            await response.list("broken")
            assert len(server.paths) == 3 * asked


@pytest.mark.parametrize("mode", ["list_slow", "list_error"])
async def test_a_server_that_does_not_list_its_tools_is_not_asked_for_every_request(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with BadMcpServer(mode) as server:
        broken = OperatorServer("broken", HttpServer(server.url + "/mcp", is_trusted=True))
        limits = replace(LIMITS, connect=1)
        async with runner_of(broken, limits=limits, retry_interval=1000) as runner, Response(runner) as response:
            first = await response.list("broken")
            assert first.error is not None
            assert await response.list("broken") == first
            assert server.tools.lists == 1
            # Its tools may be in order.
            assert (await response.run("broken", "echo")).output == "{}"
        failures = [record for record in caplog.records if record.message == "mcp server failed"]
        assert len(failures) == 1
        async with runner_of(broken, limits=limits, retry_interval=0) as runner, Response(runner) as response:
            await response.list("broken")
            await response.list("broken")
            assert server.tools.lists == 3
