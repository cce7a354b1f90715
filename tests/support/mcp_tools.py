"""MCP without servers: lists and results that a test gives, for an exchange and for a gateway; and a server of the operator."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.mcp.tools import McpTools
from antiphon.core.toolbox.mcp_servers import Listing, McpListError, McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.settings.tables import McpServerSettings, McpSettings
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.hosted_items import McpTool
from support import bad_mcp_server
from support.exchanges import Event, Recorder, ScriptedAnswer, run_answers

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORECAST = McpTool("forecast", CITY, "The weather of a city.", {"readOnlyHint": True, "read_only": True})
REPORT = McpTool("report", CITY, "Reports the weather of a city.", {"read_only": False})
URL = "https://weather.example/mcp"
WEATHER: dict[str, Any] = {"type": "mcp", "server_label": "weather", "server_url": URL, "require_approval": "never"}
LISTS = {"weather": Listing([FORECAST, REPORT])}


def sunny(call: ToolCall) -> ToolResult:
    return ToolResult("It is sunny.")


class FakeServers(McpTools, ToolRunner):
    """Runs and lists what a test says, and remembers what it was asked."""

    def __init__(
        self,
        lists: Mapping[str, Listing] = LISTS,
        result: Callable[[ToolCall], ToolResult] = sunny,
        labels: Sequence[str] = (),
        check_url: Callable[[str], str | None] = lambda url: None,
    ) -> None:
        super().__init__(labels, check_url)
        self._lists = lists
        self._result = result
        self.listed: list[McpServer] = []
        self.calls: list[ToolCall] = []
        # The servers that the calls went to.
        self.servers: list[McpServer] = []

    def to_listing(self, server: McpServer) -> Listing:
        self.listed.append(server)
        return self._lists.get(server.label) or Listing(error=McpListError("It is not there.", 404))

    def to_result(self, call: ToolCall) -> ToolResult:
        self.calls.append(call)
        return self._result(call)

    async def list_tools(self, server: McpServer, context: ToolContext) -> Listing:
        return self.to_listing(server)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        assert call.namespace is not None
        self.servers.append(context.server_of(call.namespace))
        return self.to_result(call)


class Conversation:
    """One exchange after another with the same servers. `chats` are the chat requests that the engine got."""

    def __init__(self, servers: FakeServers | None = None, **options: Any) -> None:
        self.servers = servers or FakeServers()
        self._asked = Recorder()
        self._options = options

    @property
    def chats(self) -> list[dict[str, Any]]:
        return self._asked.chats

    def run(self, request: dict[str, Any], *answers: ScriptedAnswer, **options: Any) -> list[Event]:
        return run_answers(
            {"tools": [WEATHER], **request},
            *answers,
            run_tool=self.servers.to_result,
            list_tools=self.servers.to_listing,
            on_ask=self._asked,
            tools={"mcp": self.servers},
            for_sdk=True,
            **{**self._options, **options},
        )


def output_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = events[-1]["response"]["output"]
    return output


def kinds(events: Sequence[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def added_server(**options: Any) -> McpSettings:
    """The misbehaving server as one that the operator adds to every request."""
    server = McpServerSettings(command=sys.executable, args=(bad_mcp_server.__file__, ""), always=True, **options)
    return McpSettings(connect_timeout=20, servers={"bad": server})
