"""Runs the calls of `file_search`, in the vector stores of the request's owner, or with a tool of an MCP server."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.file_search import MOST_QUERIES, FileSearch, FileSearchTool, checked_tool, offered_tool, queries_of
from antiphon.core.hosted.search_results import FileResult, FileSearchData, data_to_result, without_own_marks
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import UNREADABLE, InvalidRequest, NotFound
from antiphon.files.vector_stores.search.found import SearchOptions, SearchRow
from antiphon.tools.mcp_search import LONGEST_TEXT, MOST_ROWS, McpSearch, Row, first_text, rows_in, text_to_value
from antiphon.tools.runner import ToolContext, ToolRunner

# The members in which servers have the parts of a row.
IDS = ("file_id", "document_id", "doc_id", "id", "uri", "url", "path", "source")
NAMES = ("filename", "file_name", "title", "name", "path", "source", "uri", "url")
TEXTS = ("text", "content", "snippet", "passage", "chunk", "body", "summary", "page_content")
SCORES = ("score", "similarity", "relevance")


class Backend(Protocol):
    # An MCP server searches.
    by_mcp: bool

    async def check(self, owner: str, tool: FileSearchTool) -> None:
        """Raises ApiError for a vector store that cannot be searched."""

    async def search(self, tool: FileSearchTool, queries: Sequence[str], context: ToolContext) -> list[FileResult]: ...


class SearchesStores(Protocol):
    """`vector_stores.VectorStores`, as far as it is needed here."""

    async def check(self, owner: str, store_ids: Sequence[str]) -> None: ...

    async def search(
        self, owner: str, store_ids: Sequence[str], queries: Sequence[str], options: SearchOptions
    ) -> list[SearchRow]: ...


class StoreBackend:
    by_mcp = False

    def __init__(self, stores: SearchesStores) -> None:
        self._stores = stores

    async def check(self, owner: str, tool: FileSearchTool) -> None:
        await self._stores.check(owner, tool.store_ids)

    async def search(self, tool: FileSearchTool, queries: Sequence[str], context: ToolContext) -> list[FileResult]:
        rows = await self._stores.search(context.owner, tool.store_ids, queries, _options(tool))
        return [FileResult(each.file_id, each.filename, each.text, each.score, each.attributes) for each in rows]


def _options(tool: FileSearchTool) -> SearchOptions:
    ranking, weights = tool.ranking, tool.ranking.hybrid_search
    return SearchOptions(
        most=tool.most,
        filters=tool.filters,
        ranker=ranking.ranker or "auto",
        threshold=ranking.score_threshold or 0.0,
        embedding_weight=weights.embedding_weight if weights is not None else None,
        text_weight=weights.text_weight if weights is not None else None,
    )


class McpBackend:
    by_mcp = True

    def __init__(self, searched: McpSearch, stores_argument: str | None = None) -> None:
        """`stores_argument`: the name of the tool's argument for the ids of vector stores, if it has one."""
        self._searched = searched
        self._stores_argument = stores_argument

    async def check(self, owner: str, tool: FileSearchTool) -> None:
        """Only the server knows its stores."""

    async def search(self, tool: FileSearchTool, queries: Sequence[str], context: ToolContext) -> list[FileResult]:
        more = {self._stores_argument: tool.store_ids} if self._stores_argument else {}
        found: dict[tuple[str, str], FileResult] = {}
        for query in queries:
            for each in await self._searched.search(query, context, text_to_results, more):
                found.setdefault((each.file_id, each.text), each)
        # Where the server gives no scores, its order stays.
        return sorted(found.values(), key=lambda each: -each.score)[: tool.most]


def text_to_results(text: str) -> list[FileResult]:
    """Passages from the answer of an MCP server's tool: rows of JSON; otherwise all of the text, which has no file."""
    text = text.strip()
    value = text_to_value(text)
    if value in ([], {}):
        return []
    found = [_row_to_result(row) for row in islice(rows_in(value, _is_passage), MOST_ROWS)]
    return found or ([FileResult("", "", text[:LONGEST_TEXT])] if text else [])


def _is_passage(row: Row) -> bool:
    return bool(first_text(row, TEXTS) and first_text(row, (*IDS, *NAMES)))


def _row_to_result(row: Row) -> FileResult:
    id, name = first_text(row, IDS), first_text(row, NAMES)
    attributes = row.get("attributes")
    return FileResult(
        id or name,
        name or id,
        first_text(row, TEXTS)[:LONGEST_TEXT],
        next((float(row[each]) for each in SCORES if _is_number(row.get(each))), 0.0),
        attributes if isinstance(attributes, dict) else None,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
