"""An MCP server with a tool that searches, over stdio: `python search_mcp_server.py`."""

import json

from mcp.server.mcpserver import MCPServer

server = MCPServer("search")
ROWS = [
    {"url": "https://rome.example/", "title": "Rome", "snippet": "The capital of Italy."},
    {"url": "https://milan.example/", "title": "Milan", "snippet": "Not the capital."},
]


@server.tool()
def search(q: str) -> str:
    """Searches the web."""
    if q == "fail":
        raise ValueError("no index")
    return json.dumps({"query": q, "results": ROWS})


if __name__ == "__main__":
    server.run()
