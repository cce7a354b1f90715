"""Services that search: what each is asked, what is made of its answers, and what is said when it fails."""

from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from support.search_services import KEY, SearchServices

from antiphon.core.hosted.search_results import SearchResult
from antiphon.core.hosted.web_search import UserLocation
from antiphon.core.toolbox.tools import ToolResult
from antiphon.tools.mcp_search import McpSearch, SearchFailed
from antiphon.tools.runner import ToolContext
from antiphon.tools.web_search.backends import HttpBackend, McpBackend
from antiphon.tools.web_search.services import SERVICES, Query

CONTEXT: Any = SimpleNamespace(owner="", response_id="r")
FIRST = SearchResult("https://docs.example.com/a", "The first page", "Rome is the capital of Italy.")
SECOND = SearchResult("https://example.org/b", "Second & last", "Rome has 2.8 million people.")


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


def backend(name: str, services: SearchServices, session: aiohttp.ClientSession, key: str = KEY, **options: Any) -> HttpBackend:
    chosen = {"timeout": 30.0, "retry_delay": 0.0} | options
    return HttpBackend(SERVICES[name], services.url + "/", key, lambda: session, **chosen)


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_is_asked_as_it_wants_and_its_results_are_plain_text(
    name: str, services: SearchServices, session: aiohttp.ClientSession
) -> None:
    found = await backend(name, services, session).search(Query("capital of Italy", 5), CONTEXT)
    assert found == [FIRST, SECOND], "what is no web page is left out, and so are markup and footnotes"
    assert services.asked[0].get("q", services.asked[0].get("query")) == "capital of Italy"


@pytest.mark.parametrize("name", SERVICES)
async def test_nothing_found_is_no_failure(name: str, services: SearchServices, session: aiohttp.ClientSession) -> None:
    services.rows = []
    assert await backend(name, services, session).search(Query("x", 5), CONTEXT) == []


async def test_where_the_user_is_goes_to_services_that_know_places(
    services: SearchServices, session: aiohttp.ClientSession
) -> None:
    near = Query("x", 5, location=UserLocation(city="Berlin", country="de", region="Земля", timezone="Europe/Berlin"))
    for name in ("brave", "tavily"):
        await backend(name, services, session).search(near, CONTEXT)
    brave, tavily = services.asked
    assert (brave["country"], tavily["country"]) == ("DE", "germany")
    headers = services.headers[0]
    assert (headers["X-Loc-City"], headers["X-Loc-Timezone"]) == ("Berlin", "Europe/Berlin")
    assert "X-Loc-State-Name" not in headers, "a header cannot have these letters"
    nowhere = Query("x", 5, location=UserLocation(country="XX"))
    for name in ("brave", "tavily"):
        await backend(name, services, session).search(nowhere, CONTEXT)
    assert "country" not in services.asked[2]
    assert "country" not in services.asked[3]


async def test_domains_go_to_the_service_in_its_own_form(services: SearchServices, session: aiohttp.ClientSession) -> None:
    query = Query("x", 3, frozenset({"b.com", "a.com"}))
    for name in SERVICES:
        await backend(name, services, session).search(query, CONTEXT)
    searxng, brave, tavily = services.asked
    assert searxng["q"] == brave["q"] == "x (site:a.com OR site:b.com)"
    assert brave["count"] == "20", "some of them will be left out"
    assert (tavily["query"], tavily["include_domains"]) == ("x", ["a.com", "b.com"])
    many = Query("x", 3, frozenset(f"{number}.com" for number in range(50)))
    await backend("brave", services, session).search(many, CONTEXT)
    assert services.asked[-1]["q"] == "x", "so many do not fit"


async def test_a_long_query_is_cut_to_what_the_service_takes(services: SearchServices, session: aiohttp.ClientSession) -> None:
    for words in ("word " * 80, "w" * 1000):
        for name in ("brave", "tavily"):
            assert await backend(name, services, session).search(Query(words, 50), CONTEXT)


@pytest.mark.parametrize(
    ("name", "key", "problem"),
    [
        ("brave", "bad-k3y", "status 422: its key is wrong, or it does not take the query"),
        ("tavily", "bad-k3y", "status 401: its key is wrong"),
    ],
)
async def test_a_service_that_refuses_is_named_with_what_to_look_at(
    name: str, key: str, problem: str, services: SearchServices, session: aiohttp.ClientSession
) -> None:
    with pytest.raises(SearchFailed) as failed:
        await backend(name, services, session, key).search(Query("x", 5), CONTEXT)
    assert str(failed.value) == f"the search service answered with {problem}"
    assert key not in str(failed.value)


async def test_searxng_without_json_says_where_to_switch_it_on(
    services: SearchServices, session: aiohttp.ClientSession
) -> None:
    services.formats = {"html"}
    with pytest.raises(SearchFailed, match=r"status 403: JSON must be among `search.formats`"):
        await backend("searxng", services, session).search(Query("x", 5), CONTEXT)


async def test_a_service_that_is_asked_too_soon_is_asked_once_more(
    services: SearchServices, session: aiohttp.ClientSession
) -> None:
    services.instead = [web.Response(status=429)]
    assert await backend("brave", services, session).search(Query("x", 5), CONTEXT) == [FIRST, SECOND]
    services.instead = [web.Response(status=429), web.Response(status=429)]
    with pytest.raises(SearchFailed, match="status 429"):
        await backend("brave", services, session).search(Query("x", 5), CONTEXT)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"results": 3}', b"null", b'{"answer": []}', b"\xff", b"[" * 100_000])
async def test_an_answer_that_is_no_answer_is_a_failure(
    body: bytes, services: SearchServices, session: aiohttp.ClientSession
) -> None:
    services.instead = [web.Response(body=body)]
    with pytest.raises(SearchFailed, match="answered with something that cannot be read"):
        await backend("searxng", services, session).search(Query("x", 5), CONTEXT)


async def test_a_redirect_does_not_take_the_key_elsewhere(services: SearchServices, session: aiohttp.ClientSession) -> None:
    services.instead = [web.Response(status=302, headers={"Location": "/elsewhere"})]
    with pytest.raises(SearchFailed, match="status 302"):
        await backend("tavily", services, session).search(Query("x", 5), CONTEXT)


async def test_a_huge_answer_is_not_read(services: SearchServices, session: aiohttp.ClientSession) -> None:
    with pytest.raises(SearchFailed, match="more than 100 bytes"):
        await backend("searxng", services, session, most_bytes=100).search(Query("x", 5), CONTEXT)


async def test_a_service_that_is_not_there_or_silent_is_a_failure(session: aiohttp.ClientSession) -> None:
    there = SearchServices()
    async with there:
        pass
    with pytest.raises(SearchFailed, match="cannot be reached"):
        await backend("searxng", there, session).search(Query("x", 5), CONTEXT)
    async with SearchServices() as silent:
        silent.is_silent = True
        with pytest.raises(SearchFailed, match=r"did not answer in 0.2 s"):
            await backend("searxng", silent, session, timeout=0.2).search(Query("x", 5), CONTEXT)


async def test_an_mcp_servers_tool_can_search() -> None:
    calls: list[tuple[str, str, Mapping[str, Any]]] = []

    async def call_tool(server: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        calls.append((server, tool, arguments))
        return ToolResult('[{"link": "https://a.example/1", "name": "A", "snippet": "about"}]')

    found = await McpBackend(McpSearch(call_tool, "web", "find", "q")).search(Query("Rome", 5), CONTEXT)
    assert found == [SearchResult("https://a.example/1", "A", "about")]
    assert calls == [("web", "find", {"q": "Rome"})]


async def test_an_mcp_server_that_fails_is_named() -> None:
    async def call_tool(server: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult("no such tool", failed=True)

    with pytest.raises(SearchFailed, match="the MCP server web failed: no such tool"):
        await McpBackend(McpSearch(call_tool, "web", "find")).search(Query("Rome", 5), CONTEXT)
