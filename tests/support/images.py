"""A gateway whose images are made by a real MCP server."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from antiphon.settings.tables import ImageGenerationSettings, McpServerSettings, McpSettings, ToolSettings
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest, running_gateway
from support.image_mcp_server import make_server
from support.mcp_over_http import over_http

TOOL = {"type": "image_generation"}
DRAW = ImageGenerationSettings(mcp="images", tool="draw", argument="description")
PAINT = ImageGenerationSettings(mcp="images", tool="paint")


def wanted(prompt: str, id: str = "a") -> bytes:
    return answer(call("image_generation", json.dumps({"prompt": prompt}), id=id), finish="tool_calls")


@asynccontextmanager
async def drawing(
    engine: MockEngine, chosen: ImageGenerationSettings = DRAW, **settings: Any
) -> AsyncIterator[GatewayUnderTest]:
    tools = ToolSettings(image_generation=chosen)
    async with over_http(make_server()) as url:
        servers = {"images": McpServerSettings(url=url)}
        async with running_gateway(engine, mcp=McpSettings(servers=servers), tools=tools, **settings) as gateway:
            yield gateway
