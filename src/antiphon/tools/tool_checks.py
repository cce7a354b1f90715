"""What the tools of a request name, checked before its response begins: whether a vector store exists, for example."""

from collections.abc import Mapping
from typing import Any, Protocol, cast

from antiphon.tools.runner import ToolRunner
from antiphon.wire.responses import CreateResponse


class ChecksTools(Protocol):
    """What a runner may do besides running calls."""

    async def check_tool(self, tool: dict[str, Any], where: str, owner: str) -> None:
        """The definition at this place in the request is right by itself. Raises ApiError if the owner cannot use it."""


async def check_tools(request: CreateResponse, runners: Mapping[str, ToolRunner], owner: str) -> None:
    for at, tool in enumerate(request.tools or ()):
        runner = runners.get(tool["type"])
        if runner is not None and hasattr(runner, "check_tool"):
            await cast(ChecksTools, runner).check_tool(tool, f"tools[{at}]", owner)
