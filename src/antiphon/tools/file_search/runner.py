"""Runs the calls of `file_search`."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.file_search import MOST_QUERIES, FileSearch, checked_tool, offered_tool, queries_of
from antiphon.core.hosted.search_results import FileResult, FileSearchData, data_to_result, without_own_marks
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import UNREADABLE, InvalidRequest, NotFound
from antiphon.tools.file_search.backends import Backend
from antiphon.tools.runner import ToolContext, ToolRunner

FOUND = "Passages for {queries}:"
NOTHING_FOUND = "Nothing was found for {queries}. Try other words."
TOO_MANY = f"Only the first {MOST_QUERIES} searches of the call were made."
NEEDS = "The call needs `queries`, a list of texts that are not empty."
NOT_OFFERED = "The request has no file_search."


class FileSearchRunner(FileSearch, ToolRunner):
    """Checks the vector stores of a request before it runs."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(by_mcp=backend.by_mcp)
        self._backend = backend

    async def check_tool(self, tool: dict[str, Any], where: str, owner: str) -> None:
        """Raises ApiError for a vector store that is not there, or not the owner's."""
        defined = checked_tool(tool, where)
        try:
            await self._backend.check(owner, defined)
        except (NotFound, InvalidRequest) as wrong:
            raise type(wrong)(wrong.message, param=f"{where}.vector_store_ids", code=wrong.code) from None

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        tool, queries = offered_tool(context.request.tools or ()), queries_of(_arguments(call))
        if tool is None:
            return ToolResult(NOT_OFFERED, failed=True)
        if not queries:
            return ToolResult(NEEDS, failed=True)
        made = queries[:MOST_QUERIES]
        found = await self._backend.search(tool, made, context)
        # They may have thousands of footnotes.
        found = await asyncio.to_thread(lambda: [without_own_marks(each) for each in found])
        # A tool of an MCP server may answer without any file. Then nothing can be cited.
        results = [each for each in found if each.file_id]
        said = [_heading(made, found), *(each.text for each in found if not each.file_id)]
        said += [TOO_MANY] if len(queries) > len(made) else []
        return data_to_result(FileSearchData(results, "\n\n".join(said)))


def _heading(queries: Sequence[str], found: Sequence[FileResult]) -> str:
    return (FOUND if found else NOTHING_FOUND).format(queries=", ".join(f'"{each}"' for each in queries))


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(call.arguments)
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}
