"""Clients that close right after the end of their stream, or in the middle of a request: nothing of them stays."""

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.chat import USER, WEATHER
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_server import Answer, raw_server, sized

from antiphon.errors import StoreUnavailable

MODELS = b'{"object": "list", "data": [{"id": "mock", "owned_by": "mock"}]}'


UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@pytest_asyncio.fixture
async def closing() -> AsyncIterator[GatewayUnderTest]:
    """Behind an engine whose body ends with its connection, and that closes it late: no chunks, no length."""
    over = asyncio.Event()

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if head.startswith(b"GET"):
                writer.write(sized(MODELS))
            else:
                writer.write(UNTIL_CLOSED + text("Hello", " world"))
                await over.wait()
                writer.close()

        return write

    async with raw_server(answer) as server:
        async with running_gateway(server.url) as gateway:
            yield gateway
        over.set()


# How a stream is asked for, and what its last and its first bytes have.
ASKED: dict[str, tuple[dict[str, Any], bytes, bytes]] = {
    "/v1/responses": ({"input": "Hi"}, b"data: [DONE]\n\n", b"response.in_progress"),
    "/v1/messages": ({"messages": [USER], "max_tokens": 9}, b'"message_stop"}\n\n', b"message_start"),
    "/v1/chat/completions": ({"messages": [USER], "tools": [WEATHER]}, b"data: [DONE]\n\n", b'"role":"assistant"'),
}
in_each_protocol = pytest.mark.parametrize("path", ASKED)


async def read_and_close(gateway: GatewayUnderTest, until: bytes, path: str) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = msgspec.json.encode({"model": "mock", **ASKED[path][0], "stream": True})
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    writer.write(head + body)
    await reader.readuntil(until)
    writer.transport.abort()


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.members for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]


@in_each_protocol
async def test_a_client_that_closes_at_the_end_leaves_nothing_and_is_logged_as_served(
    closing: GatewayUnderTest, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    runs: list[weakref.ref[Any]] = []
    prepare = closing.gateway.prepare

    async def remembered(*arguments: Any, **options: Any) -> Any:
        run = await prepare(*arguments, **options)
        runs.append(weakref.ref(run))
        return run

    closing.gateway.prepare = remembered  # type: ignore[method-assign]
    for _ in range(40):
        await read_and_close(closing, ASKED[path][1], path)
    # With nothing running there is nothing to wait for.
    await closing.gateway.in_flight.drain(within=600)
    while len(logged(caplog)) < 40:
        await asyncio.sleep(0)
    assert closing.gateway.in_flight.runs == []
    assert {line["status"] for line in logged(caplog)} == {200}
    gc.collect()
    assert sum(run() is not None for run in runs) <= 1, "the last handler may not have returned yet"


@in_each_protocol
async def test_a_client_that_leaves_in_the_middle_is_a_499_and_leaves_nothing(
    gateway: GatewayUnderTest, engine: MockEngine, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    go_on = asyncio.Event()

    async def slow(write: Any) -> None:
        first, second, *_ = text("Hello").split(b"\n\n")
        await write(first + b"\n\n" + second + b"\n\n")
        await go_on.wait()

    engine.will(slow)
    await read_and_close(gateway, ASKED[path][2], path)
    await gateway.gateway.in_flight.drain(within=600)
    while not logged(caplog):
        await asyncio.sleep(0)
    assert [line["status"] for line in logged(caplog)] == [499]


# ---- the lock of a conversation --------------------------------------------------------------------------------------


async def test_a_conversation_is_unlocked_when_its_items_cannot_be_read(
    gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    request = {"model": "mock", "input": "Hi", "conversation": conversation["id"]}

    async def fails(*_: Any) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as broken:
        broken.setattr(gateway.gateway.store, "conversation_items", fails)
        assert (await gateway.post(request))[0] == 503
    assert (await gateway.post(request))[0] == 200


async def test_a_conversation_is_unlocked_when_its_client_goes_away_while_it_is_read(
    gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    request = {"model": "mock", "input": "Hi", "conversation": conversation["id"]}
    reading, left = asyncio.Event(), asyncio.Event()

    async def never(*_: Any) -> None:
        reading.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    with monkeypatch.context() as slow:
        slow.setattr(gateway.gateway.store, "conversation_items", never)
        asked = asyncio.create_task(gateway.post(request))
        await reading.wait()
        asked.cancel()
        await left.wait()
    while (status := (await gateway.post(request))[0]) == 409:
        await asyncio.sleep(0)
    assert status == 200
