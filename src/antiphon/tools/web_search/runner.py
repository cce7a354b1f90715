"""Runs the calls of `web_search`: searches, opens pages, and finds words in them."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.search_results import SearchResult, WebSearchData, data_to_result, shortened
from antiphon.core.hosted.web_search import FIND, MOST_QUERIES, OPEN, SEARCH, WebSearch, WebSearchTool, offered_tool, queries_of
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import UNREADABLE
from antiphon.tools.mcp_search import SearchFailed
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.tools.web_search.backends import Backend, domains_to_set, is_allowed
from antiphon.tools.web_search.pages import Page, PageFailed, PageReader
from antiphon.tools.web_search.services import Query


class Amount(Struct, frozen=True):
    """How much a call shows: results of a search, and characters of each; characters of a page."""

    results: int
    text: int
    page: int


# By `search_context_size`.
AMOUNTS = {"low": Amount(3, 300, 4_000), "medium": Amount(5, 800, 12_000), "high": Amount(10, 1500, 30_000)}
# Of words in a page: how many times they are shown, and how many characters on both sides.
MOST_FOUND = 8
AROUND = 250
LONGEST_PATTERN = 500
# Pages of one response that are remembered.
MOST_PAGES = 16

FOUND = "Results for {queries}:"
NOTHING_FOUND = "Nothing was found for {queries}. Try other words."
STOPPED = "Only the first {count} of these searches were made: {why}."
TOO_MANY = f"Only the first {MOST_QUERIES} searches of the call were made."
NOT_OPENED = "The page was not opened: {why}."
MORE_OF_PAGE = "The page is longer. find_in_page finds words in all of it."
NOT_IN_PAGE = "The page {url} does not contain {pattern!r}."
NEEDS = "The call needs `{name}`, a text that is not empty."

Arguments = Mapping[str, Any]
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(/|$)")


class WebSearchRunner(WebSearch, ToolRunner):
    """`pages`: None if pages cannot be opened."""

    def __init__(self, backend: Backend, pages: PageReader | None) -> None:
        super().__init__(opens_pages=pages is not None)
        self._backend = backend
        self._pages = pages
        # The pages that each response opened: words are often looked for in a page that was opened before.
        self._opened: dict[str, dict[str, Page]] = {}
        self._actions: Mapping[str, Callable[[Arguments, ToolContext, WebSearchTool], Awaitable[ToolResult]]] = {
            SEARCH: self._search,
            OPEN: self._open,
            FIND: self._find,
        }

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        try:
            return await self._actions[call.name](_arguments(call), context, offered_tool(context.request.tools or ()))
        except PageFailed as failed:
            return ToolResult(NOT_OPENED.format(why=failed), failed=True)

    # ---- searches ----------------------------------------------------------------------------------------------------

    async def _search(self, arguments: Arguments, context: ToolContext, tool: WebSearchTool) -> ToolResult:
        queries = queries_of(dict(arguments))
        if not queries:
            return ToolResult(NEEDS.format(name="query"), failed=True)
        amount, made = _amount(tool), queries[:MOST_QUERIES]
        found, failed = await self._find_all(made, context, tool)
        if failed is not None and not found:
            raise failed
        results = _allowed(found, domains_to_set(tool.domains), amount)
        # A tool of an MCP server may answer without any address. Then nobody knows which domain it is from.
        texts = [shortened(each.text, amount.page) for row in found for each in row if not each.url and not tool.domains]
        said = [_heading(made, found=bool(results or texts)), *texts]
        said += [STOPPED.format(count=len(found), why=failed)] if failed is not None else []
        said += [TOO_MANY] if len(queries) > len(made) else []
        return data_to_result(WebSearchData(results, "\n\n".join(said), searches=len(found)))

    async def _find_all(
        self, queries: Sequence[str], context: ToolContext, tool: WebSearchTool
    ) -> tuple[list[list[SearchResult]], SearchFailed | None]:
        """One after another, because services limit how many come at once; to the first that fails."""
        found = []
        for words in queries:
            query = Query(words, _amount(tool).results, domains_to_set(tool.domains), tool.location)
            try:
                found.append(await self._backend.search(query, context))
            except SearchFailed as failed:
                return found, failed
        return found, None

    # ---- pages -------------------------------------------------------------------------------------------------------

    async def _open(self, arguments: Arguments, context: ToolContext, tool: WebSearchTool) -> ToolResult:
        if (url := _url(arguments)) is None:
            return ToolResult(NEEDS.format(name="url"), failed=True)
        page, longest = await self._page(url, context, tool), _amount(tool).page
        words = MORE_OF_PAGE if len(page.text) > longest else ""
        return data_to_result(WebSearchData([SearchResult(page.url, page.title, shortened(page.text, longest))], words))

    async def _find(self, arguments: Arguments, context: ToolContext, tool: WebSearchTool) -> ToolResult:
        url, pattern = _url(arguments), _text(arguments, "pattern")
        if url is None or pattern is None:
            return ToolResult(NEEDS.format(name="url" if url is None else "pattern"), failed=True)
        page = await self._page(url, context, tool)
        passages = list(_passages(page.text, pattern[:LONGEST_PATTERN]))
        if not passages:
            return data_to_result(WebSearchData(words=NOT_IN_PAGE.format(url=page.url, pattern=pattern[:LONGEST_PATTERN])))
        return data_to_result(WebSearchData([SearchResult(page.url, page.title, "\n\n".join(passages))]))

    async def _page(self, url: str, context: ToolContext, tool: WebSearchTool) -> Page:
        if self._pages is None:
            raise PageFailed("this gateway opens no pages")
        opened = self._opened.get(context.response_id)
        if opened is None:
            opened = self._opened[context.response_id] = {}
            context.resources.callback(self._opened.pop, context.response_id, None)
        if url not in opened:
            opened[url] = await self._pages.read(url, domains_to_set(tool.domains), context.owner)
            while len(opened) > MOST_PAGES:
                del opened[next(iter(opened))]
        return opened[url]

    async def close(self) -> None:
        if self._pages is not None:
            await self._pages.close()


def _arguments(call: ToolCall) -> Arguments:
    try:
        value = msgspec.json.decode(call.arguments)
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}


def _text(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    return value.strip() or None if isinstance(value, str) else None


def _url(arguments: Arguments) -> str | None:
    """Small models leave the scheme out."""
    url = _text(arguments, "url")
    return f"https://{url}" if url is not None and _HOST.match(url) else url


def _amount(tool: WebSearchTool) -> Amount:
    return AMOUNTS[tool.search_context_size or "medium"]


def _allowed(found: Iterable[Iterable[SearchResult]], domains: Collection[str], amount: Amount) -> list[SearchResult]:
    """The results that are shown, each page once: the first ones of every search."""
    pages: dict[str, SearchResult] = {}
    for row in found:
        fitting = (each for each in row if each.url and is_allowed(each.url, domains))
        for each in islice(fitting, amount.results):
            pages.setdefault(each.url, SearchResult(each.url, each.title, shortened(each.text, amount.text)))
    return list(islice(pages.values(), 2 * amount.results))


def _heading(queries: Sequence[str], *, found: bool) -> str:
    return (FOUND if found else NOTHING_FOUND).format(queries=", ".join(f'"{each}"' for each in queries))


def _passages(text: str, pattern: str) -> Iterable[str]:
    """The places of the words, each with what is around it. Those that are close to one another are one passage."""
    words, searched = _folded(" ".join(pattern.split())), _folded(text)
    spans: list[tuple[int, int]] = []
    at = searched.find(words)
    for _ in range(MOST_FOUND):
        if at < 0:
            break
        begin, end = max(0, at - AROUND), at + len(words) + AROUND
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((begin, end))
        at = searched.find(words, at + len(words))
    return (f"… {text[begin:end].strip()} …" for begin, end in spans)


def _folded(text: str) -> str:
    """For a comparison: without capitals and lines. The one letter that is two as small ones would move all that follow."""
    return text.replace("İ", "I").lower().replace("\n", " ")
