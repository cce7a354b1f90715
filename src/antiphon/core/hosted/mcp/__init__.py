"""The `mcp` tool without its connections: definitions, lists, calls, approvals."""
