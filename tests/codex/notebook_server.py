"""An MCP server with one tool, over standard input and output: it writes a note into its working folder."""

import json
import sys
from pathlib import Path
from typing import Any

KEEP = {
    "name": "keep",
    "description": "Keeps a note.",
    "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
}


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        server = {"name": "notebook", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [KEEP]}
    if method == "tools/call":
        note = params["arguments"]["note"]
        Path("note.txt").write_text(note)
        return {"content": [{"type": "text", "text": f"kept: {note}"}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:  # a notification has none, and wants no answer
        result = result_of(request["method"], request.get("params", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
        sys.stdout.flush()
