"""A tool of an MCP server that makes images."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from antiphon.core.hosted.image_generation import takes
from antiphon.core.hosted.made_images import MadeImage, content_to_image
from antiphon.core.toolbox.servers import McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.mcp.operators_calls import NO_SERVERS, operators_call, operators_context
from antiphon.tools.mcp.runner import McpRunner
from antiphon.tools.runner import ToolContext

NO_IMAGE = "The tool made no image."
SAID = "{problem} It said: {text}"
# Characters of what the server says in place of an image.
LONGEST_TEXT = 2000


class Made(NamedTuple):
    """`image` is None: the result says why there is none."""

    image: MadeImage | None
    problem: str = ""


class McpImageServer:
    def __init__(self, mcp: McpRunner | None, server: str, tool: str, argument: str) -> None:
        """`mcp`: None where the gateway has no MCP servers. `argument`: of the tool, for the description of an image."""
        self._mcp = mcp
        self._server = server
        self._tool = tool
        self._argument = argument

    async def taken(self, options: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Those of the options that the tool has arguments for."""
        if not options or self._mcp is None:
            return {}
        listing = await self._mcp.list_tools(McpServer(self._server), operators_context(context))
        schema = next((tool.input_schema for tool in listing.tools if tool.name == self._tool), None)
        return {name: value for name, value in options.items() if name != self._argument and takes(schema, name, value)}

    async def make(self, prompt: str, options: Mapping[str, Any], context: ToolContext) -> Made:
        if self._mcp is None:
            return Made(None, NO_SERVERS)
        call = operators_call(self._server, self._tool, {**options, self._argument: prompt})
        result, content = await self._mcp.run_whole(call, operators_context(context))
        # In a thread: it may have millions of letters.
        image = None if result.failed else await asyncio.to_thread(content_to_image, content)
        return Made(image, "" if image is not None else _problem(result))


def _problem(result: ToolResult) -> str:
    text = result.output[:LONGEST_TEXT]
    if result.failed:
        return text
    return SAID.format(problem=NO_IMAGE, text=text) if text else NO_IMAGE
