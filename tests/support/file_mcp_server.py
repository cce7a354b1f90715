"""An MCP server with a tool that searches files, over stdio: `python file_mcp_server.py`."""

import json

from mcp.server.mcpserver import MCPServer

server = MCPServer("files")
ROWS = [
    {"id": "doc-2", "title": "tiber.txt", "content": "The Tiber flows through Rome.", "score": 0.5},
    {"id": "doc-1", "title": "rome.pdf", "content": "Rome is the capital of Italy.", "score": 0.9},
]


@server.tool()
def find(q: str, stores: list[str]) -> str:
    """Searches files."""
    if q == "fail":
        raise ValueError("no index")
    if q == "prose":
        return "Rome is the capital of Italy."
    return json.dumps({"query": q, "results": [{**row, "attributes": {"stores": ", ".join(stores)}} for row in ROWS]})


if __name__ == "__main__":
    server.run()
