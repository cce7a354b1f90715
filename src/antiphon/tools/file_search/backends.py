"""What is searched: the vector stores of the request's owner, or whatever a tool of an MCP server searches."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol

from antiphon.core.hosted.file_search import FileSearchTool
from antiphon.core.hosted.search_results import FileResult
from antiphon.files.vector_stores.search.found import SearchOptions, SearchRow
from antiphon.tools.mcp_search import LONGEST_TEXT, MOST_ROWS, McpSearch, Row, first_text, rows_in, text_to_value
from antiphon.tools.runner import ToolContext

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
