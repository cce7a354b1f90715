"""Large answers of MCP servers: what the SDK gets in their place, and that nothing else is different about them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from support import bad_mcp_server
from support.bad_mcp_server import BadMcpServer

from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.mcp.failures import McpFailure
from antiphon.tools.mcp.large_answers import (
    LARGE_ANSWER,
    NEITHER,
    NO_MESSAGE,
    EventBuffer,
    event_to_small,
    large_text,
    to_small,
)
from antiphon.tools.mcp.results import result_to_tool_result
from antiphon.tools.mcp.session import McpSession
from antiphon.tools.mcp.targets import HttpServer, McpLimits

Body = dict[str, Any]
LONG = "x" * LARGE_ANSWER
LIMITS = McpLimits(connect=20, call=20, answer_bytes=900_000)


def small(**message: Any) -> Body:
    made: Body = msgspec.json.decode(to_small(msgspec.json.encode({"jsonrpc": "2.0", **message})))
    return made


# ---- what stands for them --------------------------------------------------------------------------------------------


def test_a_result_is_read_later() -> None:
    result = {"content": [{"type": "text", "text": LONG}], "isError": True, "resultType": "complete"}
    made = small(id=7, result=result)
    assert large_text(made["result"].pop("_meta")) == msgspec.json.encode(result).decode()
    assert made == {"jsonrpc": "2.0", "id": 7, "result": {"content": [], "isError": True, "resultType": "complete"}}


def test_a_list_is_read_later_and_its_cursor_is_not_lost() -> None:
    tools = [{"name": "a", "description": LONG}]
    made = small(id="a", result={"tools": tools, "nextCursor": "2"})
    assert large_text(made["result"].pop("_meta")) == msgspec.json.encode(tools).decode()
    assert made == {"jsonrpc": "2.0", "id": "a", "result": {"tools": [], "nextCursor": "2"}}


def test_an_error_keeps_its_code_and_the_beginning_of_its_message() -> None:
    made = small(id=1, error={"code": -32050, "message": "Lost. " + LONG, "data": LONG})
    assert made["error"]["code"] == -32050
    assert made["error"]["message"].startswith("Lost. x")
    assert len(made["error"]["message"]) < 2_000
    assert "data" not in made["error"]


def test_what_a_server_says_by_itself_has_no_members() -> None:
    assert small(method="notifications/message", params={"data": LONG}) == {"jsonrpc": "2.0", "method": "notifications/message"}


def test_any_other_answer_is_an_error() -> None:
    assert small(id=1, result={"serverInfo": LONG}) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32603, "message": NEITHER},
    }


@pytest.mark.parametrize("message", [b"[" * LARGE_ANSWER, b'{"id": 1', b'{"result": {"content": "\xff"}}', b"[]"])
def test_what_is_no_message_stays_none(message: bytes) -> None:
    assert to_small(message) == NO_MESSAGE


# ---- server-sent events ----------------------------------------------------------------------------------------------

STREAM = b": ping\n\nevent: message\r\ndata: {}\r\n\r\ndata: 1\ndata: 2\n\nid: 3\rdata: 3\r\rdata: cut off"
EVENTS = [
    b": ping\n\n",
    b"event: message\r\ndata: {}\r\n\r\n",
    b"data: 1\ndata: 2\n\n",
    b"id: 3\rdata: 3\r\r",
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_events_are_found_however_they_are_split(size: int) -> None:
    buffer = EventBuffer()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    found = [event for piece in pieces for event in buffer.receive(piece)]
    assert b"".join(found) + buffer.rest == STREAM
    # A line end may be split, too: what is left of it is an empty line before the next event.
    assert [event.strip() for event in found if event.strip()] == [event.strip() for event in EVENTS]


def test_an_event_keeps_what_is_beside_its_message() -> None:
    message = msgspec.json.encode({"jsonrpc": "2.0", "method": "a", "params": [LONG]})
    made = event_to_small(b"id: 9\nevent: message\ndata: " + message + b"\n\n")
    assert made == b'id: 9\nevent: message\ndata: {"jsonrpc":"2.0","method":"a"}\n\n'


def test_another_event_is_passed_on() -> None:
    event = b"event: endpoint\ndata: /" + LONG.encode() + b"\n\n"
    assert event_to_small(event) == event


# ---- in a session ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(form: str, mode: str = "", limits: McpLimits = LIMITS) -> AsyncIterator[McpSession]:
    async with BadMcpServer(mode, answers_as=form.removeprefix("old ")) as server:
        path = "/sse" if form == "old sse" else "/mcp"
        session = McpSession(HttpServer(server.url + path), AddressPolicy("any"), limits)
        await session.open()
        yield session
        await session.close()


@pytest.fixture(params=["json", "sse", "old sse"])
def form(request: pytest.FixtureRequest) -> str:
    made: str = request.param
    return made


def answers(monkeypatch: pytest.MonkeyPatch, **result: Any) -> None:
    monkeypatch.setitem(bad_mcp_server.RESULTS, "large", lambda arguments: result)


async def test_a_large_result_is_what_a_small_one_is(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = [{"type": "text", "text": LONG}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    answers(monkeypatch, content=content, structuredContent={"a": [1, {"b": None}]}, isError=False)
    async with opened(form) as session:
        result = await session.call("large", {})
        assert (result["content"], result["structuredContent"]) == (content, {"a": [1, {"b": None}]})
        # The session is as good as before.
        assert (await session.call("echo", {"a": 1}))["content"] == [{"type": "text", "text": '{"a": 1}'}]


async def test_a_large_error_is_one(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, content=[{"type": "text", "text": LONG}], isError=True)
    async with opened(form) as session:
        result = result_to_tool_result(await session.call("large", {}))
        assert (result.failed, result.output) == (True, LONG)


WRONG: list[Body] = [
    {"content": LONG},
    {"content": [LONG]},
    {"content": [{"type": "unknown", "text": LONG}]},
    {"content": [], "structuredContent": [LONG]},
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_large_answer_that_is_no_result_fails(wrong: Body, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, **wrong)
    async with opened(form) as session:
        with pytest.raises(McpFailure, match="Model Context Protocol"):
            await session.call("large", {})


SAID = {
    6: "[1 part of this result was left out: at most 5 are read]",
    5_000: "[4995 parts of this result were left out: at most 5 are read]",
}


@pytest.mark.parametrize("count", SAID)
async def test_parts_beyond_the_limit_are_left_out_and_that_is_said(
    count: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, content=[{"type": "text", "text": f"part {at}"} for at in range(count)])
    async with opened(form, limits=McpLimits(parts=5, answer_bytes=900_000)) as session:
        output = result_to_tool_result(await session.call("large", {})).output
    assert output.splitlines() == [*(f"part {at}" for at in range(5)), SAID[count]]


async def test_a_large_list_is_what_a_small_one_is(form: str) -> None:
    async with opened(form, "large_pages", McpLimits(answer_bytes=900_000)) as session:
        listed = await session.list_tools()
    assert [tool["name"] for tool in listed.tools] == [f"tool_{at}" for at in range(1, 11)]
    assert {len(tool["description"]) for tool in listed.tools} == {60_000}


async def test_a_large_list_has_as_many_tools_as_any_other(form: str) -> None:
    async with opened(form, "many") as session:
        with pytest.raises(McpFailure, match="lists more than 500 tools"):
            await session.list_tools()
