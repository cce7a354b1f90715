"""MCP servers over HTTP that the SDK itself makes. One of them adds two numbers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.server.mcpserver import MCPServer


@asynccontextmanager
async def adding_server() -> AsyncIterator[str]:
    server = MCPServer("adding", log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    async with over_http(server) as url:
        yield url


@asynccontextmanager
async def over_http(server: MCPServer) -> AsyncIterator[str]:
    """Where it is reached. It runs in this process: one of its own would take half a second to start."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical"))
        # Who connects before it runs waits for it.
        running = asyncio.create_task(serving.serve(sockets=[listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        serving.should_exit = True
        await running
