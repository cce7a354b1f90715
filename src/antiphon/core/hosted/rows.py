"""All tools that the gateway can run, a row each: what they are called, how they are read, and what becomes of their calls."""

from collections.abc import Mapping

from antiphon.core.hosted.code_interpreter import CODE_INTERPRETER
from antiphon.core.hosted.file_search import FILE_SEARCH
from antiphon.core.hosted.hosted_tool import HostedTool
from antiphon.core.hosted.image_generation import IMAGE_GENERATION
from antiphon.core.hosted.mcp.row import MCP_SERVERS
from antiphon.core.hosted.shell import SHELL
from antiphon.core.hosted.tool_search import TOOL_SEARCH
from antiphon.core.hosted.web_search import WEB_SEARCH

HOSTED: tuple[HostedTool, ...] = (
    MCP_SERVERS,
    WEB_SEARCH,
    FILE_SEARCH,
    CODE_INTERPRETER,
    SHELL,
    IMAGE_GENERATION,
    TOOL_SEARCH,
)
# By the types of their definitions, and by the kinds of their calls.
BY_KIND: Mapping[str, HostedTool] = {kind: tool for tool in HOSTED for kind in tool.definitions}
