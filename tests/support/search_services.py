"""Services that search the web, as strict as the real ones: what these refuse, the mock refuses with the same status. And
a gateway that searches with one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from antiphon.settings.tables import ToolSettings, WebSearchSettings
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.servers import LocalServer

KEY = "s3cret"
ROWS = [
    {"url": "https://docs.example.com/a", "title": "The <b>first</b> page", "text": "Rome is the capital of Italy.[1]"},
    {"url": "https://example.org/b", "title": "Second &amp; last", "text": "Rome has 2.8 million people."},
    {"url": "ftp://example.org/c", "title": "No page", "text": "Nothing."},
]
BRAVE_PARAMETERS = {"q", "count", "country", "result_filter", "text_decorations"}
TAVILY_MEMBERS = {"query", "max_results", "search_depth", "include_domains", "country"}


class SearchServices(LocalServer):
    """SearXNG, Brave and Tavily at one address."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = list(ROWS)
        # What was asked: the parameters or the body, and the headers.
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        # Answers that come before the right ones.
        self.instead: list[web.Response] = []
        self.formats = {"html", "json"}
        self.is_silent = False

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return [
            web.get("/search", self._searxng),
            web.get("/res/v1/web/search", self._brave),
            web.post("/search", self._tavily),
            web.get("/elsewhere", self._elsewhere),
        ]

    def _found(self, request: web.Request, asked: dict[str, Any], text: str) -> list[dict[str, str]]:
        self.asked.append(asked)
        self.headers.append(dict(request.headers))
        return [{"url": row["url"], "title": row["title"], text: row["text"]} for row in self.rows]

    async def _searxng(self, request: web.Request) -> web.Response:
        rows = self._found(request, dict(request.query), "content")
        if self.is_silent:
            await asyncio.Event().wait()
        if self.instead:
            return self.instead.pop(0)
        if request.query.get("format", "html") not in self.formats:
            return web.Response(status=403, text="Forbidden")
        if not request.query.get("q"):
            return web.Response(status=400, text="No query")
        return web.json_response({"query": request.query["q"], "number_of_results": 0, "results": rows, "suggestions": []})

    async def _brave(self, request: web.Request) -> web.Response:
        rows, query = self._found(request, dict(request.query), "description"), request.query
        if self.instead:
            return self.instead.pop(0)
        if request.headers.get("X-Subscription-Token") != KEY:
            return web.json_response({"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, status=422)
        words = query.get("q", "")
        fits = 0 < len(words) <= 400 and len(words.split()) <= 50 and 1 <= int(query.get("count", "20")) <= 20
        if not fits or query.keys() - BRAVE_PARAMETERS or query.get("country", "US") not in {"US", "DE", "GB"}:
            return web.json_response({"type": "ErrorResponse", "error": {"code": "VALIDATION"}}, status=422)
        return web.json_response({"type": "search", **({"web": {"type": "search", "results": rows}} if rows else {})})

    async def _tavily(self, request: web.Request) -> web.Response:
        body = await request.json()
        rows = self._found(request, body, "content")
        if self.instead:
            return self.instead.pop(0)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"detail": {"error": "Unauthorized: missing or invalid API key."}}, status=401)
        if body.keys() - TAVILY_MEMBERS or not 0 <= body["max_results"] <= 20 or body.get("country", "germany") != "germany":
            return web.json_response({"detail": {"error": "Invalid request"}}, status=400)
        return web.json_response({"query": body["query"], "results": [{**row, "score": 0.5} for row in rows]})

    async def _elsewhere(self, request: web.Request) -> web.Response:
        raise AssertionError("a redirect was followed")


@asynccontextmanager
async def searching(engine: MockEngine, services: SearchServices, **options: Any) -> AsyncIterator[GatewayUnderTest]:
    """Pages of this machine may be opened, too. `options`: other settings of the tool."""
    chosen = WebSearchSettings(backend="searxng", url=services.url, page_hosts=("127.0.0.1",), **options)
    async with running_gateway(engine, tools=ToolSettings(web_search=chosen)) as gateway:
        yield gateway
