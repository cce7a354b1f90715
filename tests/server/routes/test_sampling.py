"""The sampling of a named model through the gateway, for every way to ask its embedded engine, and for no other engine."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.background import Background
from support.engine import OWN_FIELDS, MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway, started
from support.sockets import connected

from antiphon.engines.embedded.process import EngineProcess, ModelOptions

pytestmark = pytest.mark.timeout(60)

PROPS = {"/props": {"default_generation_settings": {"n_ctx": 8192}}}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
# A request without any of it, as the engine of somebody else gets it.
PLAIN_CHAT = {
    "model": "smollm2",
    "messages": [{"role": "user", "content": "Hi"}],
    "reasoning_format": "deepseek",
    "stream": True,
    "stream_options": {"include_usage": True},
}


class StandIn(EngineProcess):
    """The process of the embedded SmolLM2, whose engine is a mock."""

    def __init__(self, url: str) -> None:
        super().__init__("smollm2", ModelOptions(Path()))
        self._url = url

    @property
    def url(self) -> str:
        return self._url


def make_llamacpp() -> MockEngine:
    mock = MockEngine(own_fields=OWN_FIELDS["llamacpp"], paths=PROPS)
    mock.lists("smollm2")
    return mock


@asynccontextmanager
async def embedded() -> AsyncIterator[tuple[GatewayUnderTest, MockEngine]]:
    async with started(make_llamacpp()) as mock, running_gateway(embedded=StandIn(mock.url)) as gateway:
        yield gateway, mock


def used(chat: dict[str, Any]) -> tuple[Any, ...]:
    return chat.get("temperature"), chat.get("top_p"), chat.get("max_completion_tokens"), "dry_multiplier" in chat


def echoed(response: dict[str, Any]) -> tuple[Any, ...]:
    return response["temperature"], response["top_p"], response["max_output_tokens"]


# ---- every way to ask ------------------------------------------------------------------------------------------------


async def whole(gateway: GatewayUnderTest) -> dict[str, Any]:
    return await gateway.create(model="smollm2")


async def streamed(gateway: GatewayUnderTest) -> dict[str, Any]:
    events = await gateway.stream(model="smollm2")
    assert echoed(events[0]["response"]) == echoed(events[-1]["response"])
    response: dict[str, Any] = events[-1]["response"]
    return response


async def by_websocket(gateway: GatewayUnderTest) -> dict[str, Any]:
    async with connected(gateway) as socket:
        return await socket.create(model="smollm2")


async def in_background(gateway: GatewayUnderTest) -> dict[str, Any]:
    return await Background(gateway).made(model="smollm2")


async def by_another_name(gateway: GatewayUnderTest) -> dict[str, Any]:
    return await gateway.create(model="gpt-5")


@pytest.mark.parametrize("ask", [whole, streamed, by_websocket, in_background, by_another_name])
async def test_the_embedded_model_is_sampled_its_own_way_and_the_response_says_so(
    ask: Callable[[GatewayUnderTest], Awaitable[dict[str, Any]]],
) -> None:
    async with embedded() as (gateway, mock):
        mock.will(text("On and on", finish="length"))
        response = await ask(gateway)
        assert [used(chat) for chat in mock.requests] == [(0.2, 0.9, 1024, True)]
        assert echoed(response) == (0.2, 0.9, 1024)
        assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert "unless max_output_tokens is set" in " ".join(response["antiphon_notices"])
        assert echoed((await gateway.get(f"/v1/responses/{response['id']}"))[1]) == (0.2, 0.9, 1024)


async def test_an_agents_turn_is_not_cut_off() -> None:
    async with embedded() as (gateway, mock):
        response = await gateway.create(model="smollm2", tools=[TOOL])
        assert [used(chat) for chat in mock.requests] == [(0.2, 0.9, None, False)]
        assert echoed(response) == (0.2, 0.9, None)


async def test_a_compaction_is_not_cut_off() -> None:
    async with embedded() as (gateway, mock):
        mock.will(text("They talked about tea."))
        assert (await gateway.post({"model": "smollm2", "input": "Tea?"}, "/v1/responses/compact"))[0] == 200
        assert [used(chat) for chat in mock.requests] == [(0.2, 0.9, None, True)]


async def test_what_the_client_asks_for_counts() -> None:
    async with embedded() as (gateway, mock):
        response = await gateway.create(model="smollm2", temperature=1, top_p=0.5, max_output_tokens=4096)
        assert [used(chat) for chat in mock.requests] == [(1, 0.5, 4096, True)]
        assert echoed(response) == (1, 0.5, 4096)


async def test_a_model_of_the_same_name_on_another_engine_is_asked_as_ever() -> None:
    async with started(make_llamacpp()) as mock, running_gateway(mock) as gateway:
        mock.will(text("On and on", finish="length"))
        response = await gateway.create(model="smollm2")
        assert mock.requests == [PLAIN_CHAT]
        assert echoed(response) == (1.0, 1.0, None)
        assert "antiphon_notices" not in response
