"""What is asked for results: a service over HTTP, or a tool of an MCP server."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from antiphon.core.hosted.search_results import SearchResult
from antiphon.errors import UNREADABLE
from antiphon.tools.mcp_search import LARGE_TEXT, McpSearch, SearchFailed
from antiphon.tools.runner import ToolContext
from antiphon.tools.web_search.mcp_results import text_to_results
from antiphon.tools.web_search.services import Query, SearchService, rows_to_results

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


class TooLarge(Exception):
    pass


async def read_at_most(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Counted after decompression: a small body may be large."""
    body = bytearray()
    async for piece in answer.content.iter_chunked(65536):
        body += piece
        if len(body) > most:
            raise TooLarge
    return bytes(body)


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
