"""code_interpreter on a real MCP server, which the settings start: the client sees nothing of MCP."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support import bad_mcp_server
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.app.hosted_tools import check_tools
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings
from antiphon.settings.tables import CodeInterpreterSettings, McpServerSettings, McpSettings, ToolSettings

TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}
CODED = answer(call("python", '{"code": "1 + 1"}'), finish="tool_calls")


@asynccontextmanager
async def interpreting(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    server = McpServerSettings(command=sys.executable, args=(bad_mcp_server.__file__,))
    tools = ToolSettings(code_interpreter=CodeInterpreterSettings(mcp="bad", tool="echo", argument="program"))
    async with running_gateway(engine, mcp=McpSettings(servers={"bad": server}), tools=tools) as gateway:
        yield gateway


async def test_a_tool_of_an_mcp_server_runs_the_code_and_the_item_is_the_native_one(engine: MockEngine) -> None:
    engine.will(CODED, text("Two."), CODED, text("Two."))
    async with interpreting(engine) as gateway:
        events = await gateway.stream(tools=[TOOL], include=["code_interpreter_call.outputs"])
        first = events[-1]["response"]
        second = await gateway.create("Again.", tools=[TOOL], previous_response_id=first["id"])
    item = first["output"][0]
    assert (item["type"], item["status"], item["code"]) == ("code_interpreter_call", "completed", "1 + 1")
    (output,) = item["outputs"]
    assert json.loads(output["logs"]) == {"program": "1 + 1"}
    assert second["output"][0]["container_id"] == item["container_id"]
    assert not any("mcp" in event["type"] for event in events)


@pytest.mark.parametrize(
    ("container", "param"),
    [("cntr_1", "tools[0].container"), ({"type": "auto", "file_ids": ["file-1"]}, "tools[0].container.file_ids")],
)
async def test_what_a_server_does_not_have_is_refused(engine: MockEngine, container: Any, param: str) -> None:
    async with interpreting(engine) as gateway:
        tool = {"type": "code_interpreter", "container": container}
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [tool]})
    assert (status, body["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (CodeInterpreterSettings(mcp="python"), "tools.code_interpreter.tool is missing"),
        (CodeInterpreterSettings(tool="run"), "tools.code_interpreter.mcp is missing"),
        (CodeInterpreterSettings(mcp="python", tool="run"), "there is no [mcp.servers.python]"),
    ],
)
def test_settings_that_cannot_be_used_say_what_is_missing(chosen: CodeInterpreterSettings, words: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        check_tools(Settings(tools=ToolSettings(code_interpreter=chosen)))
    assert words in str(wrong.value)
