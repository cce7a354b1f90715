"""Tools that the gateway runs, for Anthropic's clients: what the model sees, what the client gets, and what it sends back."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.bad_mcp_server import BadMcpServer
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.kernels import ScriptedKernels, interpreting, prints
from support.mcp_tools import added_server
from support.messages import Body, check_events, fold, parse
from support.search_services import SearchServices, searching
from support.web_site import WebSite

ASKED = [{"role": "user", "content": "What is the capital of Italy?"}]
SEARCHED = answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls")
WEB = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}


async def ask(gateway: GatewayUnderTest, streams: bool, messages: Any = ASKED, **members: Any) -> Body:
    """The message, streamed or whole."""
    body = {"model": "mock", "max_tokens": 100, "messages": messages, "stream": streams, **members}
    data = msgspec.json.encode(body)
    async with gateway.client.post(f"{gateway.url}/v1/messages", data=data, headers={"anthropic-version": "1"}) as answered:
        assert answered.status == 200, await answered.text()
        raw = await answered.read()
    if not streams:
        return dict(msgspec.json.decode(raw))
    events = parse(raw)
    check_events(events)
    return fold(events)


def results(engine: MockEngine) -> list[str]:
    """What the model saw of its calls."""
    return [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]


both = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])


@both
async def test_a_search_is_run_and_shown(engine: MockEngine, streams: bool) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."))
    async with SearchServices() as services, searching(engine, services) as gateway:
        message = await ask(gateway, streams, tools=[WEB])
    used, found, said = message["content"]
    assert (used["type"], used["name"], used["input"]) == ("server_tool_use", "web_search", {"query": "capital of Italy"})
    assert (found["type"], found["tool_use_id"]) == ("web_search_tool_result", used["id"])
    assert {each["type"] for each in found["content"]} == {"web_search_result"}
    assert said["type"] == "text"
    assert [each["url"] for each in said["citations"]] == [found["content"][0]["url"]]
    assert message["stop_reason"] == "end_turn"
    assert message["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 0}
    assert found["content"][0]["title"] in results(engine)[0]


@both
async def test_a_page_is_opened_and_shown(engine: MockEngine, streams: bool) -> None:
    async with SearchServices() as services, WebSite() as site, searching(engine, services) as gateway:
        urls = [f"{site.url}/{page}" for page in ("article", "no")]
        calls = [call("open_page", f'{{"url": "{url}"}}', id=url, index=at) for at, url in enumerate(urls)]
        engine.will(answer(*calls, finish="tool_calls"), text("It is old."))
        message = await ask(gateway, streams, tools=[{"type": "web_fetch_20260318", "name": "web_fetch"}])
    used, opened, _, failed, said = message["content"]
    assert (used["name"], used["input"]) == ("web_fetch", {"url": f"{site.url}/article"})
    page = opened["content"]
    assert (opened["type"], page["type"], page["url"]) == ("web_fetch_tool_result", "web_fetch_result", f"{site.url}/article")
    assert page["content"]["source"]["data"] in results(engine)[0]
    assert failed["content"] == {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
    assert said["text"] == "It is old."
    assert message["usage"]["server_tool_use"]["web_fetch_requests"] == 2


async def test_a_search_that_comes_back_is_shown_to_the_model_again(engine: MockEngine) -> None:
    engine.will(SEARCHED, text("It is Rome."), text("Since 1871."))
    async with SearchServices() as services, searching(engine, services) as gateway:
        message = await ask(gateway, False, tools=[WEB])
        history = [*ASKED, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": "Since when?"}]
        await ask(gateway, False, history, tools=[WEB])
    (seen,) = results(engine)
    assert message["content"][1]["content"][0]["url"] in seen


async def test_a_search_that_is_not_set_up_is_left_out_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("I do not know."))
    status, message = await gateway.post(
        {"model": "mock", "max_tokens": 100, "messages": ASKED, "tools": [WEB]}, "/v1/messages"
    )
    assert (status, message["content"][0]["text"]) == (200, "I do not know.")
    assert "web_search" in gateway.notice
    assert "tools" not in engine.last


@both
async def test_code_is_run_and_shown(engine: MockEngine, streams: bool, tmp_path: Path) -> None:
    engine.will(answer(call("python", '{"code": "print(6 * 7)"}'), finish="tool_calls"), text("It is 42."))
    kernels = ScriptedKernels({"print(6 * 7)": prints("42\n")})
    async with interpreting(engine, kernels, tmp_path) as gateway:
        message = await ask(gateway, streams, tools=[CODE])
    used, printed, said = message["content"]
    assert (used["name"], used["input"]) == ("code_execution", {"code": "print(6 * 7)"})
    assert printed["type"] == "code_execution_tool_result"
    assert printed["content"]["stdout"].strip() == "42"
    assert said["text"] == "It is 42."


@both
async def test_a_call_of_an_mcp_server_is_run_and_shown(engine: MockEngine, streams: bool) -> None:
    engine.will(answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls"), text("Done."))
    async with BadMcpServer() as server, running_gateway(engine) as gateway:
        servers = [{"type": "url", "name": "bad", "url": f"{server.url}/mcp", "authorization_token": "secret"}]
        message = await ask(gateway, streams, mcp_servers=servers, tools=[{"type": "mcp_toolset", "mcp_server_name": "bad"}])
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer secret"}
    used, result, said = message["content"]
    assert (used["type"], used["server_name"], used["name"], used["input"]) == ("mcp_tool_use", "bad", "echo", {"a": 1})
    assert (result["is_error"], result["content"]) == (False, [{"type": "text", "text": '{"a": 1}'}])
    assert said["text"] == "Done."


async def test_a_server_of_the_operator_whose_calls_need_an_approval_is_left_out(engine: MockEngine) -> None:
    """Nobody could give it: there is no block for the question."""
    async with running_gateway(engine, mcp=added_server(require_approval="always")) as gateway:
        body = {"model": "mock", "max_tokens": 9, "messages": ASKED}
        assert (await gateway.post(body, "/v1/messages"))[0] == 200
    assert "tools" not in engine.last
    assert "MCP server bad was left out: each of its calls needs an approval" in gateway.notice


@both
@pytest.mark.parametrize("search", ["tool_search_tool_bm25", "tool_search_tool_regex"])
async def test_tools_that_are_deferred_are_found_and_stay(engine: MockEngine, search: str, streams: bool) -> None:
    weather = {"name": "get_weather", "description": "The weather of a city.", "input_schema": {"type": "object"}}
    tools = [{"type": f"{search}_20251119", "name": search}, {**weather, "defer_loading": True}]
    engine.will(
        answer(call("tool_search", '{"query": "weather"}'), finish="tool_calls"),
        answer(call("get_weather", "{}", id="b"), finish="tool_calls"),
        text("Sunny."),
    )
    async with running_gateway(engine) as gateway:
        message = await ask(gateway, streams, tools=tools)
        used, found, called = message["content"]
        assert (used["type"], used["name"], used["input"]) == ("server_tool_use", search, {"query": "weather"})
        assert found["tool_use_id"] == used["id"]
        assert found["content"]["tool_references"] == [{"type": "tool_reference", "tool_name": "get_weather"}]
        assert (called["type"], called["name"], message["stop_reason"]) == ("tool_use", "get_weather", "tool_use")
        before = engine.last
        result = {"type": "tool_result", "tool_use_id": "b", "content": "sunny"}
        history = [*ASKED, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": [result]}]
        await ask(gateway, streams, history, tools=tools)
        assert not gateway.notice
    assert engine.last["tools"] == before["tools"]
    assert engine.last["messages"][: len(before["messages"])] == before["messages"], "the engine's cache stays valid"
