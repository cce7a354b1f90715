"""web_search in a whole gateway: what the model sees, what the client gets, and how the two fit together."""

import asyncio
import importlib.util
from typing import Any

import msgspec
import pytest
from aiohttp import web
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.search_services import SearchServices, searching
from support.sockets import connected
from support.streams import check_stream
from support.web_site import WebSite

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.items.call_forms import FunctionForm
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolResult
from antiphon.settings.tables import ToolSettings, WebSearchSettings
from antiphon.tools.runner import ToolContext

TOOL = {"type": "web_search"}
SEARCHED = answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls")
URLS = ["https://docs.example.com/a", "https://example.org/b"]
SOURCES = [{"type": "url", "url": url} for url in URLS]


def results(engine: MockEngine) -> list[str]:
    """What the model saw of its calls."""
    return [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]


# ---- a search --------------------------------------------------------------------------------------------------------

EVENTS = [
    "response.output_item.added",
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
    "response.web_search_call.completed",
    "response.output_item.done",
]


async def test_a_search_is_one_item_with_its_events_in_order(engine: MockEngine, services: SearchServices) -> None:
    engine.will(SEARCHED, text("It is Rome."))
    async with searching(engine, services) as gateway:
        events = await gateway.stream("What is the capital of Italy?", tools=[TOOL], store=False)
    of_search = [event for event in events if event.get("output_index") == 0]
    assert [event["type"] for event in of_search] == EVENTS
    action = {"type": "search", "query": "capital of Italy", "queries": ["capital of Italy"]}
    added, *between, done = of_search
    assert added["item"] == {"id": added["item"]["id"], "type": "web_search_call", "status": "in_progress", "action": action}
    assert done["item"] == added["item"] | {"status": "completed"}
    assert added["item"]["id"].startswith("ws_")
    for event in between:
        assert event.keys() == {"type", "item_id", "output_index", "sequence_number"}
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["web_search_call", "message"]


async def test_the_model_sees_three_functions_and_numbered_results(engine: MockEngine, services: SearchServices) -> None:
    engine.will(SEARCHED, text("It is Rome."))
    location = {"type": "approximate", "city": "Berlin", "country": "DE"}
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[{**TOOL, "user_location": location}])
    functions = {tool["function"]["name"]: tool["function"] for tool in engine.requests[0]["tools"]}
    assert list(functions) == ["web_search", "open_page", "find_in_page"]
    assert functions["web_search"]["description"].endswith("The user is in Berlin, DE.")
    (found,) = results(engine)
    assert found.startswith('Results for "capital of Italy":\n\n[1] The first page\nhttps://docs.example.com/a\nRome is the')
    assert "\n\n[2] Second & last\nhttps://example.org/b\n" in found
    assert "Cite what you use by its number in brackets, after a space, such as [1]." in found


async def test_the_model_cites_by_number_and_the_client_gets_links(engine: MockEngine, services: SearchServices) -> None:
    engine.will(SEARCHED, text("It is Rome [1", "], with many people [2]."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    (part,) = response["output"][-1]["content"]
    assert part["text"].startswith("It is Rome ([docs.example.com](https://docs.example.com/a)), with")
    assert [(each["type"], each["url"], each["title"]) for each in part["annotations"]] == [
        ("url_citation", URLS[0], "The first page"),
        ("url_citation", URLS[1], "Second & last"),
    ]
    for each in part["annotations"]:
        assert each["url"] in part["text"][each["start_index"] : each["end_index"]]


async def test_numbers_run_on_over_the_response(engine: MockEngine, services: SearchServices, site: WebSite) -> None:
    opened = answer(call("open_page", f'{{"url": "{site.url}/article"}}', id="b"), finish="tool_calls")
    engine.will(SEARCHED, opened, text("The Tiber flows through it [3]."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert results(engine)[1].startswith(f"[3] About Rome\n{site.url}/article\n")
    assert "such as [3]." in results(engine)[1]
    assert [each["url"] for each in response["output"][-1]["content"][0]["annotations"]] == [f"{site.url}/article"]


async def test_sources_and_results_are_shown_where_the_request_includes_them(
    engine: MockEngine, services: SearchServices
) -> None:
    engine.will(SEARCHED, text("Rome."), SEARCHED, text("Rome."))
    async with searching(engine, services) as gateway:
        named = ["web_search_call.action.sources", "web_search_call.results"]
        included = (await gateway.stream(tools=[TOOL], include=named))[-1]["response"]
        plain = await gateway.create(tools=[TOOL])
    item = included["output"][0]
    assert item["action"]["sources"] == SOURCES
    assert [each["url"] for each in item["results"]] == URLS
    assert item["results"][1] == {"url": URLS[1], "title": "Second & last", "text": "Rome has 2.8 million people."}
    assert plain["output"][0].keys() == {"id", "type", "status", "action"}
    assert "sources" not in plain["output"][0]["action"]


async def test_several_searches_of_one_call_are_made_and_each_result_is_shown_once(
    engine: MockEngine, services: SearchServices
) -> None:
    arguments = msgspec.json.encode({"query": "a", "queries": ["b", "a", *"cdefg"]}).decode()
    engine.will(answer(call("web_search", arguments), finish="tool_calls"), text("Rome."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert [asked["q"] for asked in services.asked] == list("abcde")
    assert results(engine)[0].count("https://example.org/b") == 1
    assert "Only the first 5 searches of the call were made." in results(engine)[0]
    assert response["output"][0]["action"] == {"type": "search", "query": "a", "queries": list("abcdefg")}
    assert response["tool_usage"]["web_search"] == {"num_requests": 5}


@pytest.mark.parametrize(("size", "shown"), [("low", 3), (None, 5), ("high", 10)])
async def test_the_context_size_says_how_many_results_and_how_much_of_each(
    size: str | None, shown: int, engine: MockEngine, services: SearchServices
) -> None:
    services.rows = [{"url": f"https://a.example/{at}", "title": "", "text": "word " * 1000} for at in range(20)]
    engine.will(SEARCHED, text("Rome."))
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[TOOL if size is None else {**TOOL, "search_context_size": size}])
    (found,) = results(engine)
    assert found.count("] https://a.example/") == shown
    assert found.count("(cut here: ") == shown


async def test_results_of_other_domains_are_left_out_whatever_the_service_does(
    engine: MockEngine, services: SearchServices
) -> None:
    engine.will(SEARCHED, text("Rome."))
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[{**TOOL, "filters": {"allowed_domains": ["example.com"]}}])
    assert engine.last["tools"][0]["function"]["description"].endswith("Only these domains are searched: example.com.")
    assert "docs.example.com" in results(engine)[0]
    assert "example.org" not in results(engine)[0]


async def test_nothing_found_is_said_and_nothing_can_be_cited(engine: MockEngine, services: SearchServices) -> None:
    services.rows = []
    engine.will(SEARCHED, text("I do not know [1]."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert results(engine) == ['Nothing was found for "capital of Italy". Try other words.']
    assert response["output"][0]["status"] == "completed"
    assert response["output"][-1]["content"][0]["text"] == "I do not know [1]."


async def test_a_search_that_fails_is_a_failed_item_and_the_model_goes_on(
    engine: MockEngine, services: SearchServices, caplog: pytest.LogCaptureFixture
) -> None:
    services.instead = [web.Response(status=500)]
    engine.will(SEARCHED, text("I cannot search."))
    async with searching(engine, services) as gateway:
        events = await gateway.stream(tools=[TOOL])
    of_search = [event for event in events if event.get("output_index") == 0]
    assert [event["type"] for event in of_search] == [*EVENTS[:3], EVENTS[-1]], "there is no event for a failure"
    assert of_search[-1]["item"]["status"] == "failed"
    assert events[-1]["response"]["status"] == "completed"
    assert "the search service answered with status 500" in results(engine)[0]
    assert "tool_failed" in caplog.text


async def test_what_was_found_before_a_search_failed_is_shown(engine: MockEngine, services: SearchServices) -> None:
    services.instead = [web.json_response({"results": [{"url": "https://a.example/", "title": "A"}]}), web.Response(status=500)]
    arguments = '{"query": "a", "queries": ["b", "c"]}'
    engine.will(answer(call("web_search", arguments), finish="tool_calls"), text("A [1]."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert response["output"][0]["status"] == "completed"
    assert "https://a.example/" in results(engine)[0]
    assert "Only the first 1 of these searches were made: the search service answered with status 500." in results(engine)[0]
    assert [asked["q"] for asked in services.asked] == ["a", "b"]
    assert response["tool_usage"]["web_search"] == {"num_requests": 1}


# ---- pages -----------------------------------------------------------------------------------------------------------


async def test_a_page_is_opened_and_words_are_found_in_it(engine: MockEngine, services: SearchServices, site: WebSite) -> None:
    url = f"{site.url}/long"
    find = msgspec.json.encode({"url": url, "pattern": "LINE 1500  of"}).decode()
    engine.will(
        answer(call("open_page", f'{{"url": "{url}"}}'), finish="tool_calls"),
        answer(call("find_in_page", find, id="b"), finish="tool_calls"),
        text("Found."),
    )
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    opened, found, _ = response["output"]
    assert opened["action"] == {"type": "open_page", "url": url}
    assert found["action"] == {"type": "find_in_page", "url": url, "pattern": "LINE 1500  of"}
    page, passage = results(engine)
    assert "find_in_page finds words in all of it" in page
    assert "Line 1500" not in page
    assert passage.startswith(f"[2] About Rome\n{url}\n… ")
    assert "Line 1500 of a long text" in passage
    assert len(passage) < 1000
    assert site.opened == ["long"], "it is fetched once"


async def test_words_that_are_not_in_a_page_are_no_failure(engine: MockEngine, services: SearchServices, site: WebSite) -> None:
    find = f'{{"url": "{site.url}/article", "pattern": "Paris"}}'
    engine.will(answer(call("find_in_page", find), finish="tool_calls"), text("No."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert results(engine) == [f"The page {site.url}/article does not contain 'Paris'."]
    assert response["output"][0]["status"] == "completed"


async def test_a_private_address_is_not_opened(engine: MockEngine, services: SearchServices, site: WebSite) -> None:
    urls = ["http://169.254.169.254/", f"{site.url}/to?url=http://10.0.0.1/"]
    calls = [call("open_page", f'{{"url": "{url}"}}', id=str(at), index=at) for at, url in enumerate(urls)]
    engine.will(answer(*calls, finish="tool_calls"), text("No."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[TOOL])
    assert [item["status"] for item in response["output"][:2]] == ["failed", "failed"]
    assert all(found.startswith("The page was not opened: ") for found in results(engine))


async def test_a_url_without_a_scheme_is_one_of_https(engine: MockEngine, services: SearchServices) -> None:
    engine.will(answer(call("open_page", '{"url": "example.com/a"}'), finish="tool_calls"), text("No."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[{**TOOL, "filters": {"allowed_domains": ["other.example"]}}])
    assert results(engine)[0].startswith("The page was not opened: example.com is not one of the domains")
    assert response["output"][0]["action"] == {"type": "open_page", "url": "example.com/a"}


async def test_the_gateway_does_not_open_itself(engine: MockEngine, services: SearchServices) -> None:
    engine.otherwise = lambda body: text("No.")
    async with searching(engine, services) as gateway:
        url = f"{gateway.url}/v1/models"
        engine.will(answer(call("open_page", f'{{"url": "{url}"}}'), finish="tool_calls"))
        await gateway.create(tools=[TOOL])
    (found,) = results(engine)
    assert "is this gateway itself" in found


async def test_pages_outside_of_the_domains_are_not_opened(engine: MockEngine, services: SearchServices, site: WebSite) -> None:
    engine.will(answer(call("open_page", f'{{"url": "{site.url}/article"}}'), finish="tool_calls"), text("No."))
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[{**TOOL, "filters": {"allowed_domains": ["example.com"]}}])
    assert "is not one of the domains that this search is limited to" in results(engine)[0]
    assert site.opened == []


async def test_where_pages_are_off_only_the_search_is_offered(engine: MockEngine, services: SearchServices) -> None:
    async with searching(engine, services, pages=False) as gateway:
        await gateway.create(tools=[TOOL])
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["web_search"]


async def test_without_what_reads_pages_only_the_search_is_offered_and_the_log_says_why(
    engine: MockEngine, services: SearchServices, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "trafilatura" else found(name))
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[TOOL])
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["web_search"]
    assert "pages_not_opened" in caplog.text


async def test_a_client_that_leaves_stops_the_fetch(engine: MockEngine, services: SearchServices, site: WebSite) -> None:
    engine.will(answer(call("open_page", f'{{"url": "{site.url}/slow"}}'), finish="tool_calls"))
    async with searching(engine, services) as gateway:
        body = {"model": "mock", "input": "Hi", "tools": [TOOL], "stream": True, "store": False}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            await answered.content.readuntil(b"event: response.web_search_call.searching\n")
        await asyncio.wait_for(site.left.wait(), 30)
        await gateway.gateway.in_flight.drain(30)


# ---- its definition --------------------------------------------------------------------------------------------------

NULLS = {"type": "approximate", "city": None, "country": None, "region": None, "timezone": None}


@pytest.mark.parametrize("kind", ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"])
async def test_every_name_of_the_tool_is_run_and_echoed_with_defaults(
    kind: str, engine: MockEngine, services: SearchServices
) -> None:
    engine.will(SEARCHED, text("Rome."))
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[{"type": kind}])
        assert gateway.notice == ""
    filters = {} if "preview" in kind else {"filters": None}
    assert response["tools"] == [{"type": kind, "search_context_size": "medium", "user_location": NULLS, **filters}]
    assert response["output"][0]["type"] == "web_search_call"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"search_context_size": "huge"}, "tools[0].search_context_size"),
        ({"filters": {"allowed_domains": "example.com"}}, "tools[0].filters.allowed_domains"),
        ({"filters": {"allowed_domains": ["a.com", 3]}}, "tools[0].filters.allowed_domains[1]"),
        ({"filters": {"allowed_domains": [""]}}, "tools[0].filters.allowed_domains[0]"),
        ({"filters": {"allowed_domains": ["a.com"] * 101}}, "tools[0].filters.allowed_domains"),
        ({"filters": []}, "tools[0].filters"),
        ({"user_location": {"type": "exact"}}, "tools[0].user_location.type"),
        ({"user_location": {"type": "approximate", "city": 3}}, "tools[0].user_location.city"),
        ({"external_web_access": "no"}, "tools[0].external_web_access"),
        ({"search_content_types": ["video"]}, "tools[0].search_content_types[0]"),
    ],
)
async def test_a_wrong_member_is_refused_by_its_name(
    members: dict[str, Any], param: str, engine: MockEngine, services: SearchServices
) -> None:
    async with searching(engine, services) as gateway:
        status, body = await gateway.post({"model": "mock", "input": "Hi", "tools": [{**TOOL, **members}]})
    assert (status, body["error"]["param"]) == (400, param)
    assert param in body["error"]["message"]
    assert engine.requests == []


async def test_without_access_to_the_web_the_tool_is_left_out_with_a_notice(
    engine: MockEngine, services: SearchServices
) -> None:
    async with searching(engine, services) as gateway:
        response = await gateway.create(tools=[{**TOOL, "external_web_access": False}])
        assert "external_web_access is false, and the gateway has no cache of the web" in gateway.notice
    assert "tools" not in engine.last
    assert response["tools"][0]["external_web_access"] is False


async def test_without_a_backend_the_tool_is_left_out_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create(tools=[TOOL])
    assert gateway.notice == "tool web_search was left out: it does not run here"
    assert "tools" not in engine.last
    assert response["tools"][0]["user_location"] == NULLS


async def test_what_has_no_effect_is_said(engine: MockEngine, services: SearchServices) -> None:
    tool = {"type": "web_search_preview", "search_content_types": ["text", "image"], "filters": {"blocked_domains": ["a.com"]}}
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[tool])
        assert "filters.blocked_domains of tool web_search_preview has no effect" in gateway.notice
        assert "only text is searched" in gateway.notice


async def test_in_an_input_item_it_does_not_count(engine: MockEngine, services: SearchServices) -> None:
    items = [{"type": "additional_tools", "tools": [TOOL]}, {"role": "user", "content": "Hi"}]
    async with searching(engine, services) as gateway:
        await gateway.create(items)
        assert "it counts only in `tools`" in gateway.notice
    assert "tools" not in engine.last


# ---- its choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview", "web_search_preview_2025_03_11"])
async def test_it_can_be_required_by_any_of_its_names(kind: str, engine: MockEngine, services: SearchServices) -> None:
    engine.will(SEARCHED, text("Rome."))
    async with searching(engine, services) as gateway:
        status, response = await gateway.post(
            {"model": "mock", "input": "Hi", "tools": [TOOL], "tool_choice": {"type": kind}, "store": False}
        )
    assert (status, response["tool_choice"]) == (200, {"type": kind})
    first, second = (request["tool_choice"] for request in engine.requests)
    assert (first, second) != ("auto", "auto")
    assert second == "auto", "what was required has been done"
    assert response["output"][0]["type"] == "web_search_call"


async def test_where_it_is_among_the_allowed_tools_all_of_its_functions_are(
    engine: MockEngine, services: SearchServices
) -> None:
    other = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}
    async with searching(engine, services) as gateway:
        await gateway.create(tools=[other, TOOL], tool_choice=choice)
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["web_search", "open_page", "find_in_page"]


async def test_a_tool_that_was_left_out_cannot_be_required(engine: MockEngine, services: SearchServices) -> None:
    tools = [{"type": "web_search_preview", "external_web_access": False}]
    async with searching(engine, services) as gateway:
        status, body = await gateway.post(
            {"model": "mock", "input": "Hi", "tools": tools, "tool_choice": {"type": "web_search_preview"}}
        )
    assert (status, body["error"]["param"]) == (400, "tool_choice")


# ---- every way in ----------------------------------------------------------------------------------------------------


async def test_a_websocket_a_background_response_and_a_whole_one_have_the_same_output(
    engine: MockEngine, services: SearchServices
) -> None:
    outputs = []
    include = ["web_search_call.action.sources"]
    async with searching(engine, services) as gateway:
        for way in ("whole", "streamed", "websocket", "background"):
            engine.will(SEARCHED, text("It is Rome [1]."))
            if way == "whole":
                response = await gateway.create(tools=[TOOL], include=include)
            elif way == "streamed":
                response = check_stream(await gateway.stream(tools=[TOOL], include=include))
            elif way == "websocket":
                async with connected(gateway) as socket:
                    response = await socket.create(tools=[TOOL], include=include)
            else:
                response = await Background(gateway).made(tools=[TOOL], include=include)
            assert response["status"] == "completed"
            outputs.append([{**item, "id": ""} for item in response["output"]])
    assert outputs[0][0]["action"]["sources"] == SOURCES
    assert outputs == [outputs[0]] * 4


async def test_what_was_searched_is_a_call_in_the_next_turn_without_its_results(
    engine: MockEngine, services: SearchServices
) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."), text("You are welcome."), text("You are welcome."))
    async with searching(engine, services) as gateway:
        first = await gateway.create("What is the capital?", tools=[TOOL])
        await gateway.create("Thanks", tools=[TOOL], previous_response_id=first["id"])
        continued = engine.last["messages"]
        items = [{"role": "user", "content": "What is the capital?"}, *first["output"], {"role": "user", "content": "Thanks"}]
        await gateway.create(items, tools=[TOOL], store=False)
    assert engine.last["messages"] == continued, "sent or stored, the prompt is the same"
    question, called, found, answered, thanks = continued
    assert (question["content"], thanks["content"]) == ("What is the capital?", "Thanks")
    (made,) = called["tool_calls"]
    assert made["function"] == {"name": "web_search", "arguments": '{"query":"capital of Italy"}'}
    assert found["content"] == "(the result is not shown again)"
    assert "docs.example.com" in answered["content"]


# ---- an MCP server ---------------------------------------------------------------------------------------------------


class FakeMcp:
    """Stands for the runner of MCP servers."""

    form = FunctionForm

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.brought: Any = ()

    def define(self, box: Toolbox, tool: dict[str, Any], where: str, namespace: str | None = None) -> None: ...

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        self.calls.append(call)
        self.brought = context.request.tools, context.request.input
        return ToolResult("Title: Rome\nURL: https://rome.example/\nDescription: The capital.")


async def test_a_tool_of_an_mcp_server_serves_it_as_the_native_item(engine: MockEngine) -> None:
    mcp: Any = FakeMcp()
    chosen = WebSearchSettings(mcp="brave", tool="brave_web_search", argument="q")
    extensions = Extensions(tools={"mcp": mcp}, checker=CHECKER)
    engine.will(SEARCHED, text("It is Rome [1]."))
    async with running_gateway(engine, extensions=extensions, tools=ToolSettings(web_search=chosen)) as gateway:
        response = await gateway.create(tools=[TOOL], include=["web_search_call.action.sources"])
    (made,) = mcp.calls
    assert (made.kind, made.namespace, made.name) == ("mcp", "brave", "brave_web_search")
    assert msgspec.json.decode(made.arguments) == {"q": "capital of Italy"}
    assert mcp.brought == (None, None), "a server that the request brings cannot take its place"
    item, message = response["output"]
    assert item["type"] == "web_search_call"
    assert item["action"]["sources"] == [{"type": "url", "url": "https://rome.example/"}]
    assert message["content"][0]["annotations"][0]["title"] == "Rome"
