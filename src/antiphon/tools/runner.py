"""A tool that the gateway runs: what an engine sees of it, what its calls look like, and how a call is run."""

from typing import Protocol

from antiphon.core.environment import GatewayTool
from antiphon.core.steps import ToolCall
from antiphon.core.tools import ToolResult


class ToolRunner(GatewayTool, Protocol):
    async def run(self, call: ToolCall) -> ToolResult:
        """Runs one call. It is cancelled when the response is. What it raises is reported to the model as a failed call."""
