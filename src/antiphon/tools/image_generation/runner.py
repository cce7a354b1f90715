"""Runs the calls of `image_generation`."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.image_generation import (
    KIND,
    MADE,
    ImageData,
    ImageGeneration,
    MadeImage,
    content_to_image,
    offered_tool,
    passed_options,
    prompt_of,
    takes,
)
from antiphon.core.toolbox.mcp_servers import McpServer
from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.mcp.runner import McpRunner
from antiphon.tools.mcp.targets import NO_SERVERS, operators_call, operators_context
from antiphon.tools.runner import ToolContext, ToolRunner

# ---- A tool of an MCP server that makes images -----------------------------------------------------------------------

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


NEEDS = "The call needs `prompt`: a description of the image."
NOT_TAKEN = "{names} of tool {tool} {has} no effect: the tool that makes the images does not take {them}"


class ImageGenerationRunner(ImageGeneration, ToolRunner):
    # Those of the server count.
    has_own_timeouts = True

    def __init__(self, server: McpImageServer) -> None:
        self._server = server

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        prompt = prompt_of(msgspec.json.decode(call.arguments, type=dict[str, Any]))
        if not prompt:
            return ToolResult(NEEDS, failed=True)
        options = passed_options(offered_tool(context.request.tools or ()))
        taken = await self._server.taken(options, context)
        made = await self._server.make(prompt, taken, context)
        if made.image is None:
            return ToolResult(made.problem, failed=True)
        data = _to_data(made.image, taken)
        # An image that is as it was wanted needs no words.
        missed = [name for name, value in options.items() if name not in taken and getattr(data, name, None) != value]
        return ToolResult(MADE, data=data, notice=_notice(missed))


def _to_data(image: MadeImage, taken: Mapping[str, Any]) -> ImageData:
    data = ImageData(image.data, output_format=image.format, size=image.size or taken.get("size"))
    return structs.replace(data, **{name: taken[name] for name in ("background", "quality") if name in taken})


def _notice(missed: Collection[str]) -> str:
    if not missed:
        return ""
    one = len(missed) == 1
    return NOT_TAKEN.format(names=", ".join(missed), tool=KIND, has="has" if one else "have", them="it" if one else "them")
