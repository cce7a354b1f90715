"""The tool `file_search`: its definition, and the function that an engine sees of it."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from antiphon.core.hosted.attribute_filters import read_filter
from antiphon.core.hosted.file_search_calls import KIND, FileSearchForm
from antiphon.core.protocols.responses.validation import convert
from antiphon.core.toolbox.built_in_tools import FILE_SEARCH, FILE_SEARCH_PARAMETERS
from antiphon.core.toolbox.tools import (
    TOOLS,
    Native,
    Toolbox,
    leave_out,
)
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction

Tool = dict[str, Any]

ONLY_IN_TOOLS = f"it counts only in `{TOOLS}`, not in an input item"
# Where an MCP server searches: it knows nothing of these.
NOT_BY_MCP = ("filters", "ranking_options")

DEFAULT_RESULTS = 20
StoreId = Annotated[str, Meta(min_length=1, max_length=256)]
Weight = Annotated[float, Meta(ge=0)]


class HybridSearch(Struct, frozen=True):
    embedding_weight: Weight
    text_weight: Weight


class RankingOptions(Struct, frozen=True):
    ranker: Literal["auto", "default-2024-11-15"] | None = None
    score_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    hybrid_search: HybridSearch | None = None


class FileSearchTool(Struct, frozen=True):
    vector_store_ids: Annotated[list[StoreId], Meta(min_length=1, max_length=100)]
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None
    filters: dict[str, Any] | None = None

    @property
    def store_ids(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(self.vector_store_ids))

    @property
    def most(self) -> int:
        return self.max_num_results or DEFAULT_RESULTS

    @property
    def ranking(self) -> RankingOptions:
        return self.ranking_options or RankingOptions()


def offered_tool(tools: Iterable[Tool]) -> FileSearchTool | None:
    """The definition that counts in a request: its first one."""
    return next((msgspec.convert(tool, FileSearchTool) for tool in tools if tool.get("type") == KIND), None)


def checked_tool(tool: Tool, where: str) -> FileSearchTool:
    """Raises InvalidRequest, with the name of the member that is wrong."""
    defined = convert(tool, FileSearchTool, where)
    weights = defined.ranking.hybrid_search
    if weights is not None and weights.embedding_weight == weights.text_weight == 0:
        place = f"{where}.ranking_options.hybrid_search"
        raise InvalidRequest(f"Invalid `{place}`: one of its weights must be above 0.", param=place, code="invalid_value")
    if defined.filters is not None:
        read_filter(defined.filters, f"{where}.filters")
    return defined


class FileSearch:
    """A type of tool that the gateway runs (`core.environment.GatewayTool`). `by_mcp`: an MCP server searches."""

    form = FileSearchForm

    def __init__(self, *, by_mcp: bool = False) -> None:
        self.by_mcp = by_mcp

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        checked_tool(tool, where)
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if box.add(Native(KIND, KIND), ChatFunction("", FILE_SEARCH, FILE_SEARCH_PARAMETERS), where):
            box.notices += self._without_effect(tool)

    def _without_effect(self, tool: Tool) -> Iterable[str]:
        ranking = tool.get("ranking_options") or {}
        unknown = [name for name in tool if name != "type" and name not in FileSearchTool.__struct_fields__]
        unknown += [f"ranking_options.{name}" for name in ranking if name not in RankingOptions.__struct_fields__]
        for name in sorted(unknown):
            yield f"{name} of tool {KIND} has no effect: it is not known here"
        for name in NOT_BY_MCP if self.by_mcp else ():
            if tool.get(name):
                yield f"{name} of tool {KIND} has no effect: an MCP server searches"
