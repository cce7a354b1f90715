"""Redirects of an engine are never followed: prompts and keys go to the engine that the settings name, and to nobody else."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from support.engine import MockEngine, Refusal
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_server import Answer, RawServer, raw_server, sized
from support.sockets import connected

from antiphon.core.knowledge.dialects import BY_NAME
from antiphon.engines.requests import EngineOptions
from antiphon.engines.token_counts import count_by_template
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineError
from antiphon.transport import make_session
from antiphon.wire.chat import ChatMessage, ChatRequest

pytestmark = pytest.mark.usefixtures("both_transports")

STATUSES = [301, 302, 303, 307, 308]
CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}


@pytest_asyncio.fixture
async def elsewhere() -> AsyncIterator[RawServer]:
    """Another origin. Nothing may be sent to it."""

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            writer.write(sized(b'{"object": "list", "data": [{"id": "mock"}]}'))

        return write

    async with raw_server(answer) as server:
        yield server
        assert server.connections == 0


def redirect(status: int, elsewhere: RawServer) -> Refusal:
    location = elsewhere.url.replace("http://", "http://user:secret@") + "/v1/chat/completions?token=secret"
    return Refusal(status, {}, {"Location": location})


def is_explained(error: dict[str, Any], engine: MockEngine, elsewhere: RawServer, status: int) -> bool:
    expected = (
        f"The engine at {engine.url} redirects to {elsewhere.url}/v1/chat/completions (HTTP {status}), which is not followed. "
        "Set --upstream to the engine's own address."
    )
    return (error["code"], error["message"]) == ("engine_redirect", expected)


@pytest.mark.parametrize("status", STATUSES)
async def test_a_chat_request_is_not_redirected(
    gateway: GatewayUnderTest, engine: MockEngine, elsewhere: RawServer, status: int
) -> None:
    for stream in (True, False):
        engine.will(redirect(status, elsewhere))
        answered, body = await gateway.post({"input": "Hi", "stream": stream})
        assert answered == 502
        assert is_explained(body["error"], engine, elsewhere, status)
        assert gateway.headers["x-should-retry"] == "false"
        assert "Retry-After" not in gateway.headers
    # It was not sent again either.
    assert len(engine.requests) == 2


async def test_a_response_on_a_websocket_is_not_redirected(
    gateway: GatewayUnderTest, engine: MockEngine, elsewhere: RawServer
) -> None:
    engine.will(redirect(307, elsewhere))
    async with connected(gateway) as socket:
        error = await socket.refused()
    assert error["status"] == 502
    assert is_explained(error["error"], engine, elsewhere, 307)


@pytest.mark.parametrize("status", [*STATUSES, 300, 304])
async def test_a_request_that_is_passed_through_is_not_redirected(
    gateway: GatewayUnderTest, engine: MockEngine, elsewhere: RawServer, status: int
) -> None:
    engine.will(redirect(status, elsewhere))
    answered, body = await gateway.post(CHAT, path="/v1/chat/completions")
    assert answered == 502
    assert is_explained(body["error"], engine, elsewhere, status)
    assert "Location" not in gateway.headers


async def test_an_engine_whose_list_of_models_is_elsewhere_is_not_used(engine: MockEngine, elsewhere: RawServer) -> None:
    engine.list_answer = redirect(302, elsewhere)
    async with running_gateway(engine, upstream_key="engine-key") as gateway:
        for answer in (await gateway.post({"input": "Hi"}), await gateway.get("/ready"), await gateway.get("/v1/models")):
            assert answer[0] == 502
            assert is_explained(answer[1]["error"], engine, elsewhere, 302)
        engine.list_answer = None
        assert (await gateway.create())["output_text"] == "Hello world"


async def test_neither_documents_nor_prompts_nor_texts_to_count_are_redirected(elsewhere: RawServer) -> None:
    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            location = elsewhere.url.encode()
            writer.write(b"HTTP/1.1 307 Go\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location)

        return write

    async with raw_server(answer) as server, make_session() as session:
        engine = Engine(server.url, session, EngineOptions(key="engine-key"))
        await engine.identify()
        assert not engine.ready
        engine.knowledge.dialect = BY_NAME["llamacpp"]
        documents = engine.documents()
        assert [await documents.get("/props"), await documents.get("/api/show", b"{}")] == [None, None]
        assert await engine.count_tokens("secret", "mock") is None
        chat = ChatRequest(model="mock", messages=[ChatMessage(role="user", content="secret")])
        assert await count_by_template(engine, chat) is None
        with pytest.raises(EngineError):
            await engine.open_chat(chat)
