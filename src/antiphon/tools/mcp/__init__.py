"""MCP servers: how they are reached, and the tools that they run.

The SDK is imported only when a server is first connected to: it is an extra, and takes longer to import than the gateway.
"""
