"""Models, readiness, and the routes that are passed through unchanged."""

import asyncio

import aiohttp
import msgspec
import pytest
from support.engine import CUT, MockEngine, Refusal, Writer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, standing_before


async def test_models_are_listed_as_by_openai(gateway: GatewayUnderTest) -> None:
    async with gateway.client.get(gateway.url + "/v1/models") as answer:
        listed = await answer.json()
    assert listed["object"] == "list"
    assert listed["data"] == [{"id": "mock", "object": "model", "created": 0, "owned_by": "mock"}]
    assert [model["slug"] for model in listed["models"]] == ["mock"]
    async with gateway.client.get(gateway.url + "/v1/models/mock") as answer:
        assert (await answer.json())["id"] == "mock"
    async with gateway.client.get(gateway.url + "/v1/models/org/none") as answer:
        assert answer.status == 404
        assert (await answer.json())["error"]["code"] == "model_not_found"


async def test_ready_lists_the_engines(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with gateway.client.get(gateway.url + "/ready") as answer:
        assert await answer.json() == {
            "status": "ready",
            "engines": [{"url": engine.url, "dialect": "plain", "models": ["mock"]}],
        }


async def test_a_chat_request_is_passed_through_byte_for_byte(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    engine.will(text("one", "two"))
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        assert await answer.read() == text("one", "two")
    assert engine.last == body


async def test_an_error_of_the_engine_is_passed_through_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(418, {"error": {"message": "teapot"}}, {"x-odd": "1"}))
    status, answer = await gateway.post(
        {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}, path="/v1/chat/completions"
    )
    assert (status, answer) == (418, {"error": {"message": "teapot"}})
    assert gateway.headers["x-odd"] == "1"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
async def test_other_routes_are_passed_through(path: str) -> None:
    engine = MockEngine(paths={path: lambda body: {"echo": body}})
    await engine.start()
    async with running_gateway(engine) as gateway:
        assert await gateway.post({"input": "x"}, path=path) == (200, {"echo": {"input": "x"}})
    await engine.stop()


async def test_a_cut_in_a_passed_through_stream_is_seen_by_the_client(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    seen = asyncio.Event()

    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await seen.wait()
        await write(CUT)

    engine.will(cut)
    body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with gateway.client.post(gateway.url + "/v1/chat/completions", data=msgspec.json.encode(body)) as answer:
        await answer.content.readuntil(b"half")
        seen.set()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_an_engine_that_closes_its_connections_is_asked_to() -> None:
    """llama.cpp announces that it keeps a connection, and closes it after the stream: the next request would run into that."""
    async with standing_before("llamacpp", text("one")) as (gateway, engine):
        body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as answered:
            assert await answered.read() == text("one")
    assert engine.headers[-1]["Connection"] == "close"
