"""Tools that the gateway runs, for clients of Chat Completions: what they name, and what the operator adds."""

from typing import Any

import msgspec
import pytest
from support.chat import USER
from support.completions import chunks_of, joined
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.mcp_tools import added_server
from support.search_services import SearchServices, searching

PATH = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "mock", "messages": [USER]}
SEARCHED = answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls")
ECHO = answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls")


async def ask(gateway: GatewayUnderTest, streams: bool, **fields: Any) -> dict[str, Any]:
    """The message, streamed or whole."""
    async with gateway.client.post(gateway.url + PATH, json={**BODY, "stream": streams, **fields}) as answered:
        raw = await answered.read()
        assert answered.status == 200, raw
        gateway.notice = answered.headers.get("antiphon-notice", "")
    return joined(chunks_of(raw)) if streams else msgspec.json.decode(raw)["choices"][0]["message"]


both = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])


@both
async def test_a_search_of_the_web_is_run_and_cited(engine: MockEngine, streams: bool) -> None:
    engine.will(SEARCHED, text("It is Rome [1]."))
    place = {"type": "approximate", "approximate": {"city": "Rome", "country": "IT"}}
    options = {"search_context_size": "low", "user_location": place}
    async with SearchServices() as services, searching(engine, services) as gateway:
        message = await ask(gateway, streams, web_search_options=options)
    assert "tool_calls" not in message
    (annotation,) = message["annotations"]
    cited = annotation["url_citation"]
    assert cited["url"] in engine.last["messages"][-1]["content"]
    assert "web_search_options" not in engine.last
    assert gateway.notice == "the answer was read and checked here, and not passed through: the request has web_search_options"


async def test_a_wrong_place_of_a_search_is_named(engine: MockEngine) -> None:
    async with SearchServices() as services, searching(engine, services) as gateway:
        status, failed = await gateway.post({**BODY, "web_search_options": {"search_context_size": "huge"}}, path=PATH)
    assert (status, failed["error"]["param"]) == (400, "web_search_options.search_context_size")


@both
async def test_a_server_that_the_operator_adds_is_offered_to_all(engine: MockEngine, streams: bool) -> None:
    engine.will(ECHO, text("Done."))
    async with running_gateway(engine, mcp=added_server(models=("mock",)), model_names={"alias": "mock"}) as gateway:
        message = await ask(gateway, streams, model="alias")
    assert (message["content"], message.get("tool_calls")) == ("Done.", None)
    asked, result = engine.last["messages"][-2:]
    assert (result["tool_call_id"], result["content"]) == (asked["tool_calls"][0]["id"], '{"a": 1}')
    assert gateway.notice.endswith("the request has tools that the operator adds")


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "json_object"}}], ids=["passed on", "read here"])
async def test_a_server_whose_calls_need_an_approval_is_left_out(engine: MockEngine, fields: dict[str, Any]) -> None:
    engine.will(text("{}"))
    async with running_gateway(engine, mcp=added_server(require_approval="always")) as gateway:
        await ask(gateway, True, **fields)
    assert "tools" not in engine.last
    assert ("MCP server bad was left out: each of its calls needs an approval" in gateway.notice) == bool(fields)
