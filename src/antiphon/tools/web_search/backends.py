"""What is asked for results: a service over HTTP, or a tool of an MCP server. Each of these has its own form: JSON, blocks of
lines, or prose."""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from antiphon.core.hosted.search_results import SearchResult, clean
from antiphon.errors import UNREADABLE
from antiphon.tools.fetcher import TooLarge, read_at_most
from antiphon.tools.mcp_search import (
    LARGE_TEXT,
    LONGEST_TEXT,
    MOST_ROWS,
    McpSearch,
    Row,
    SearchFailed,
    first_text,
    rows_in,
    text_to_value,
)
from antiphon.tools.runner import ToolContext
from antiphon.tools.web_search.services import Query, SearchService, rows_to_results

URLS = ("url", "link", "href", "uri")
TITLES = ("title", "name", "heading")
TEXTS = ("text", "content", "snippet", "description", "body", "summary")

_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")
_URL = re.compile(r"https?://[^\s<>\"'`\]]+")
_LABEL = re.compile(r"^\W*(?:title|url|link|description|snippet|content|text|summary|published)\W*:\s*", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\((https?://[^)\s]+)\)")


def text_to_results(text: str) -> list[SearchResult]:
    """What has no address cannot be cited; if nothing has one, all of the text is one result without a link."""
    text = text.strip()
    value = text_to_value(text)
    if value in ([], {}):
        return []
    text = text[:LONGEST_TEXT]
    rows = islice(rows_in(value, _has_address), MOST_ROWS)
    results = [_row_to_result(row) for row in rows] or list(_blocks_to_results(text))
    return results or ([SearchResult("", "", text)] if text else [])


def _has_address(row: Row) -> bool:
    return first_text(row, URLS).startswith(("http://", "https://"))


def _row_to_result(row: Row) -> SearchResult:
    return SearchResult(first_text(row, URLS), clean(first_text(row, TITLES)), clean(first_text(row, TEXTS)))


def _blocks_to_results(text: str) -> Iterator[SearchResult]:
    """A block is a paragraph with an address, and those after it that have none. In a list, each line is one."""
    found: tuple[str, list[str]] | None = None
    for paragraph in _paragraphs(text):
        address = _URL.search(paragraph)
        if address is not None:
            if found is not None:
                yield _block_to_result(*found)
            found = address[0].rstrip(".,;:)"), [paragraph]
        elif found is not None:
            found[1].append(paragraph)
    if found is not None:
        yield _block_to_result(*found)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in _EMPTY_LINE.split(text):
        lines = paragraph.splitlines()
        with_address = sum(_URL.search(line) is not None for line in lines)
        yield from lines if with_address > 1 else (paragraph,)


def _block_to_result(url: str, paragraphs: list[str]) -> SearchResult:
    text = "\n".join(paragraphs)
    link = _LINK.search(text)
    lines = [clean(_LABEL.sub("", line)) for line in text.splitlines() if url not in line]
    lines = [line for line in lines if line]
    title = clean(link[1]) if link is not None else lines.pop(0) if lines else ""
    return SearchResult(url, title, " ".join(lines))


# More of an answer is not read.
MOST_BYTES = 4 * 1024 * 1024
TOO_MANY_REQUESTS = 429


class Backend(Protocol):
    async def search(self, query: Query, context: ToolContext) -> list[SearchResult]:
        """Raises SearchFailed."""


class HttpBackend:
    def __init__(
        self,
        service: SearchService,
        url: str,
        key: str,
        session: Callable[[], aiohttp.ClientSession],
        *,
        timeout: float,
        retry_delay: float = 1.1,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`retry_delay`: seconds after which it is asked once more if it says that this was too soon. Some plans allow one
        request a second."""
        self._service = service
        self._url = url.rstrip("/")
        self._key = key
        self._session = session
        self._timeout = timeout
        self._retry_delay = retry_delay
        self._most_bytes = most_bytes

    async def search(self, query: Query, context: ToolContext) -> list[SearchResult]:
        status, body = await self._ask(query)
        if status == TOO_MANY_REQUESTS:
            await asyncio.sleep(self._retry_delay)
            status, body = await self._ask(query)
        if status != 200:
            hint = self._service.hints.get(status)
            raise SearchFailed(f"the search service answered with status {status}{f': {hint}' if hint else ''}")
        return await asyncio.to_thread(self._to_results, body) if len(body) >= LARGE_TEXT else self._to_results(body)

    def _to_results(self, body: bytes) -> list[SearchResult]:
        try:
            rows = msgspec.convert(self._service.rows(msgspec.json.decode(body)), list[Any])
        except (*UNREADABLE, KeyError, TypeError, AttributeError):
            raise SearchFailed("the search service answered with something that cannot be read") from None
        return list(rows_to_results(rows, self._service.members))

    async def _ask(self, query: Query) -> tuple[int, bytes]:
        asked = self._service.ask(query, self._key)
        try:
            async with (
                asyncio.timeout(self._timeout),
                # A redirect could take the key to somebody else.
                self._session().request(
                    asked.method,
                    self._url + asked.path,
                    params=asked.params,
                    headers={"Accept": "application/json", **asked.headers},
                    json=asked.json,
                    allow_redirects=False,
                ) as answer,
            ):
                return answer.status, await read_at_most(answer, self._most_bytes)
        except TimeoutError:
            raise SearchFailed(f"the search service did not answer in {self._timeout:g} s") from None
        except TooLarge:
            raise SearchFailed(f"the search service answered with more than {self._most_bytes} bytes") from None
        except aiohttp.ClientError as failed:
            raise SearchFailed(f"the search service cannot be reached ({type(failed).__name__})") from None


class McpBackend:
    def __init__(self, searched: McpSearch) -> None:
        self._searched = searched

    async def search(self, query: Query, context: ToolContext) -> list[SearchResult]:
        return await self._searched.search(query.words, context, text_to_results)


# ---- domains that a search is limited to -----------------------------------------------------------------------------
# Their subdomains count, too.


def domains_to_set(given: Iterable[str]) -> frozenset[str]:
    """As clients write them: `example.com`, also with a scheme or a path."""
    return frozenset(host for each in given if (host := _host(each if "//" in each else f"//{each}")))


def is_allowed(url: str, domains: Collection[str]) -> bool:
    if not domains:
        return True
    labels = _host(url).split(".")
    return any(".".join(labels[at:]) in domains for at in range(len(labels)))


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return _ascii(host.rstrip(".").removeprefix("*."))


def _ascii(host: str) -> str:
    """As the internet writes names with other letters."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host
