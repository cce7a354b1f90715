"""Sessions with MCP servers, over HTTP and stdio, and with servers that misbehave."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support import bad_mcp_server
from support.bad_mcp_server import BadMcpServer
from support.processes import ended

from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.failures import McpFailure
from antiphon.tools.mcp.results import result_to_tool_result
from antiphon.tools.mcp.session import McpSession
from antiphon.tools.mcp.targets import HttpServer, McpLimits, StdioServer, Target, secrets_of

LOCAL = AddressPolicy("public", loopback=True, https=True)
LIMITS = McpLimits(connect=20, call=20, answer_bytes=1_000_000)


def program(mode: str = "", **options: Any) -> StdioServer:
    return StdioServer(sys.executable, (bad_mcp_server.__file__, mode), **options)


@asynccontextmanager
async def opened(target: Target, limits: McpLimits = LIMITS, policy: AddressPolicy = LOCAL) -> AsyncIterator[McpSession]:
    session = McpSession(target, policy, limits)
    try:
        await session.open()
        yield session
    finally:
        await session.close()


async def failure_of(target: Target, limits: McpLimits = LIMITS, policy: AddressPolicy = LOCAL) -> McpFailure:
    with pytest.raises(McpFailure) as raised:
        async with opened(target, limits, policy):
            pass
    return raised.value


async def text_of(session: McpSession, name: str, arguments: dict[str, Any] | None = None) -> str:
    result = await session.call(name, arguments or {})
    return result_to_tool_result(result).output


# ---- every transport -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["stdio", "json", "sse", "old sse"])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    if request.param == "stdio":
        yield program()
        return
    async with BadMcpServer(answers_as="sse" if request.param == "sse" else "json") as server:
        yield HttpServer(server.url + ("/sse" if request.param == "old sse" else "/mcp"))


async def test_tools_are_listed_and_called_over_every_transport(target: Target) -> None:
    async with opened(target) as session:
        assert "echo" in [tool["name"] for tool in (await session.list_tools()).tools]
        assert await text_of(session, "echo", {"a": 1}) == '{"a": 1}'
        answers = await asyncio.gather(*(text_of(session, "echo", {"a": at}) for at in range(5)))
        assert answers == [json.dumps({"a": at}) for at in range(5)]
    assert not session.is_alive


async def test_an_error_of_a_server_leaves_the_session_alone(target: Target) -> None:
    async with opened(target) as session:
        with pytest.raises(McpFailure) as raised:
            await session.call("rpc_error", {})
        assert (raised.value.code, raised.value.message, raised.value.status) == (-32050, "No such luck.", None)
        with pytest.raises(McpFailure, match="does not follow the Model Context Protocol"):
            await session.call("not_a_result", {})
        assert session.is_alive
        assert await text_of(session, "echo") == "{}"


async def test_a_call_without_an_answer_ends_in_time(target: Target) -> None:
    async with opened(target) as session:
        with pytest.raises(McpFailure) as raised:
            await session.call("slow", {}, seconds=0.2)
        assert (raised.value.code, raised.value.message) == (-32001, "The server did not answer within 0.2 seconds.")
        assert await text_of(session, "echo") == "{}"


async def test_an_answer_that_is_too_large_is_not_read(target: Target) -> None:
    async with opened(target) as session:
        with pytest.raises(McpFailure, match="The server's answer has more than 1,000,000 bytes") as raised:
            await session.call("huge", {})
        assert raised.value.status is None


async def test_a_server_that_dies_in_a_call_fails_it(target: Target) -> None:
    async with opened(target) as session:
        with pytest.raises(McpFailure, match=r"with exit code 7|closed the connection"):
            await session.call("die", {})
        assert session.is_alive is isinstance(target, HttpServer)


async def test_a_result_counts_also_if_it_does_not_follow_its_schema(target: Target) -> None:
    """Nothing is listed for it: the list of a conversation may be the only one."""
    async with opened(target) as session:
        assert await text_of(session, "wrong_structure") == "as text"


async def test_a_call_that_is_given_up_is_cancelled_at_the_server() -> None:
    async with BadMcpServer() as server, opened(HttpServer(server.url + "/mcp")) as session:
        call = asyncio.create_task(session.call("slow", {}))
        await asyncio.wait_for(server.tools.is_called.wait(), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.tools.cancelled.wait(), 10)


async def test_a_session_says_goodbye() -> None:
    async with BadMcpServer() as server:
        async with opened(HttpServer(server.url + "/mcp")) as session:
            await session.list_tools()
        assert server.ended == ["session-1"]


# ---- what cannot be connected to -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/status/401", 401, "HTTP status 401 (Unauthorized)"),
        ("/status/500", 500, "HTTP status 500 (Internal Server Error)"),
        ("/status/404", 404, "HTTP status 404 (Not Found)"),
        ("/status/405", 405, "HTTP status 405 (Method Not Allowed)"),
        ("/html", None, "Unexpected content type: text/html"),
        ("/redirect?to=http://127.0.0.1:1/mcp", 307, "HTTP status 307"),
        ("/redirect?to=http://169.254.169.254/latest", 307, "HTTP status 307"),
        ("/redirect?to=http://user:password@10.0.0.1/", 307, "HTTP status 307"),
        ("/endless", None, "more than 1,000,000 bytes"),
        ("/bomb", None, "is compressed"),
        ("/endless?type=text/event-stream", None, "more than 1,000,000 bytes"),
    ],
)
async def test_what_is_no_mcp_server_is_said_to_be_none(path: str, status: int | None, words: str) -> None:
    async with BadMcpServer() as server:
        failure = await failure_of(HttpServer(server.url + path))
    assert failure.status == status
    assert words in failure.message
    assert "password" not in failure.message


async def test_a_redirect_within_the_server_is_followed() -> None:
    async with BadMcpServer() as server, opened(HttpServer(f"{server.url}/redirect?to=/mcp")) as session:
        assert await text_of(session, "echo") == "{}"


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async with BadMcpServer() as server:
        failure = await failure_of(HttpServer(server.url + "/silent"), replace(LIMITS, connect=0.3))
    assert failure.message == "The server did not answer within 0.3 seconds."


async def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    async with BadMcpServer() as server:
        url = server.url
    failure = await failure_of(HttpServer(url + "/mcp"))
    assert failure.message.startswith("The server cannot be reached: ")
    assert failure.status is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://169.254.169.254/mcp", "http://[::1]:1/", "http://10.0.0.1/"])
async def test_an_address_that_is_not_allowed_is_not_connected_to(url: str) -> None:
    failure = await failure_of(HttpServer(url), policy=AddressPolicy("public"))
    assert failure.message.startswith("The URL cannot be used: ")


async def test_a_name_of_a_private_address_is_not_connected_to() -> None:
    async with BadMcpServer() as server:
        url = server.url.replace("127.0.0.1", "localhost") + "/mcp"
        failure = await failure_of(HttpServer(url), policy=AddressPolicy("public"))
        assert failure.message == (
            "The server cannot be reached: localhost is not on the public internet, and may not be connected to."
        )
        assert server.headers == []


async def test_an_endpoint_of_another_origin_is_not_used() -> None:
    async with BadMcpServer() as server, BadMcpServer() as other:
        failure = await failure_of(HttpServer(f"{server.url}/sse?endpoint={other.url}/messages"), replace(LIMITS, connect=3))
    assert failure.message
    assert other.headers == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Expect"])
async def test_headers_of_the_connection_cannot_be_set(name: str) -> None:
    failure = await failure_of(HttpServer("http://127.0.0.1:1/mcp", ((name, "1"),)))
    assert failure.message == f"The header {name} cannot be set."


async def test_headers_are_sent_with_every_request_and_never_repeated() -> None:
    secret = "Bearer a-long-secret"
    async with BadMcpServer() as server:
        async with opened(HttpServer(server.url + "/mcp", (("Authorization", secret),))) as session:
            with pytest.raises(McpFailure) as raised:
                await session.call("leak", {"key": "a-long-secret"})
        assert raised.value.message == "Wrong key …."
        assert {headers.get("Authorization") for headers in server.headers} == {secret}


@pytest.mark.parametrize("key", ["a-long-secret", "a long secret", "a%20long+secret"])
@pytest.mark.parametrize("place", ["/mcp?token=a%20long+secret&v=1&key=a-long-secret", "/mcp?a-long-secret&a%20long+secret"])
async def test_what_a_url_has_in_its_query_is_never_repeated(place: str, key: str) -> None:
    async with BadMcpServer() as server, opened(HttpServer(server.url + place)) as session:
        with pytest.raises(McpFailure) as raised:
            await session.call("leak", {"key": key})
    assert raised.value.message == "Wrong key …."


def test_a_long_part_of_a_path_is_a_secret_and_a_name_is_none() -> None:
    assert secrets_of(HttpServer("https://tools.example/services/mcp/s/0123456789abcdef0123")) == ["0123456789abcdef0123"]


async def test_credentials_in_a_url_are_refused_without_repeating_them() -> None:
    failure = await failure_of(HttpServer("https://ada:a-long-secret@example.com/mcp"))
    assert "user name" in failure.message
    assert "secret" not in failure.message


async def test_nothing_of_a_server_is_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level("DEBUG")
    async with BadMcpServer() as server, opened(HttpServer(f"{server.url}/mcp?token=a-long-secret")) as session:
        with pytest.raises(McpFailure):
            await session.call("not_a_result", {})
    assert "a-long-secret" not in caplog.text + "".join(capfd.readouterr())


# ---- lists -----------------------------------------------------------------------------------------------------------


async def names_of(mode: str, limits: McpLimits = LIMITS) -> list[str]:
    async with BadMcpServer(mode) as server, opened(HttpServer(server.url + "/mcp"), limits) as session:
        return [tool["name"] for tool in (await session.list_tools()).tools]


async def test_all_pages_of_a_list_are_read() -> None:
    assert await names_of("pages") == ["tool_0", "tool_1", "tool_2"]


async def test_a_list_that_repeats_its_cursor_ends() -> None:
    assert await names_of("same_cursor") == ["tool_1", "tool_2"]


@pytest.mark.parametrize("mode", ["many", "endless"])
async def test_a_list_that_is_too_long_fails(mode: str) -> None:
    with pytest.raises(McpFailure, match="lists more than 50 tools"):
        await names_of(mode, replace(LIMITS, tools=50))


async def test_a_list_that_is_too_large_fails_however_many_pages_it_has() -> None:
    with pytest.raises(McpFailure, match="list of tools has more than 100,000 bytes"):
        await names_of("large_pages", replace(LIMITS, answer_bytes=100_000))


@pytest.mark.parametrize(
    ("mode", "words"),
    [("list_error", "The list is lost."), ("list_wrong", "Model Context Protocol"), ("old_version", "1999-01-01")],
)
async def test_a_list_that_fails_says_why(mode: str, words: str) -> None:
    with pytest.raises(McpFailure, match=words):
        await names_of(mode)


async def test_a_list_that_does_not_come_ends_in_time() -> None:
    async with BadMcpServer("list_slow") as server:
        session = McpSession(HttpServer(server.url + "/mcp"), LOCAL, replace(LIMITS, connect=1))
        await session.open()
        with pytest.raises(McpFailure, match="did not list its tools within 1 seconds"):
            await session.list_tools()
        await session.close()


# ---- programs --------------------------------------------------------------------------------------------------------


async def test_a_program_gets_its_own_environment_and_not_the_gateways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", "a-long-secret")
    async with opened(program(env=(("TOKEN", "for-the-server"),), cwd=str(tmp_path))) as session:
        found = json.loads(await text_of(session, "environment"))
        assert json.loads(await text_of(session, "process"))["folder"] == str(tmp_path)
    assert found["TOKEN"] == "for-the-server"
    assert found["PATH"] == os.environ["PATH"]
    assert "ANTIPHON_API_KEY" not in found


async def test_lines_that_are_no_messages_are_passed_over() -> None:
    async with opened(program()) as session:
        assert await text_of(session, "noise") == "after some noise"
        assert session.noise == ["DEBUG: about to answer"]


@pytest.mark.parametrize(
    ("target", "message", "detail"),
    [
        (program("exits"), "The server has ended, with exit code 3.", ["Cannot open the database.", "Giving up."]),
        (program("not_mcp"), "The server did not answer within 2 seconds.", ["Welcome! Type help for help."]),
        (StdioServer("no-such-command-at-all"), "The command no-such-command-at-all was not found.", []),
        (StdioServer("/no/such/command"), "The command /no/such/command was not found.", []),
        (StdioServer("sh", cwd="/no/such/folder"), "The folder /no/such/folder does not exist.", []),
    ],
)
async def test_a_program_that_is_no_server_says_what_is_wrong(target: StdioServer, message: str, detail: list[str]) -> None:
    failure = await failure_of(target, replace(LIMITS, connect=2))
    assert (failure.message, failure.detail) == (message, detail)


async def test_a_program_ends_with_everything_that_it_started() -> None:
    async with opened(program()) as session:
        child = json.loads(await text_of(session, "process"))["pid"]
        watches = [os.pidfd_open(pid) for pid in (child, int(await text_of(session, "grandchild")))]
    for watch in watches:
        await ended(watch)


@pytest.mark.parametrize("mode", ["", "stubborn"])
async def test_a_program_ends_when_the_gateway_is_killed(mode: str) -> None:
    """A process that opens a session and is killed, which leaves it no time to end anything."""
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, json.dumps([bad_mcp_server.__file__, mode])), stdout=asyncio.subprocess.PIPE
    )
    assert gateway.stdout is not None
    watches = [os.pidfd_open(pid) for pid in json.loads(await gateway.stdout.readline())]
    gateway.kill()
    await gateway.wait()
    for watch in watches:
        await ended(watch)


KILLED = """
import asyncio, json, sys
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.targets import McpLimits, StdioServer
from antiphon.tools.mcp.session import McpSession

async def main():
    session = McpSession(StdioServer(sys.executable, tuple(json.loads(sys.argv[1]))), AddressPolicy("off"), McpLimits())
    await session.open()
    process = await session.call("process", {})
    grandchild = await session.call("grandchild", {})
    print([json.loads(process["content"][0]["text"])["pid"], int(grandchild["content"][0]["text"])], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
