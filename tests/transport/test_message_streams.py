"""Events as WebSocket messages, and how a WebSocket is closed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from support.raw_server import read_by_others
from support.streaming_server import StreamingServer, streaming_server

from antiphon.transport import MessageStream, Socket, Transport
from antiphon.transport.interfaces import HIGH_WATER

Client = aiohttp.ClientWebSocketResponse
LARGE = b'"' + b"x" * (HIGH_WATER // 4) + b'"'


@asynccontextmanager
async def talking(
    transport: Transport, talk: Callable[[Socket, MessageStream], Awaitable[None]], **options: int
) -> AsyncIterator[tuple[StreamingServer, Client]]:
    """A server that talks so, a client of it, and no task left behind."""

    async def handler(request: web.Request) -> web.StreamResponse:
        socket = Socket(farewell=0.05, compress=False, decode_text=False, **options)
        before = asyncio.all_tasks()
        try:
            async with transport.open_messages(request, socket) as stream:
                await talk(socket, stream)
        finally:
            left.extend(asyncio.all_tasks() - before)
        return socket

    left: list[asyncio.Task[Any]] = []
    async with streaming_server(handler) as server, aiohttp.ClientSession() as session:
        async with session.ws_connect(server.url, max_msg_size=0, autoclose=False) as client:
            yield server, client
        await server.done.wait()
    assert left == []


async def next_message(client: Client) -> bytes:
    message = await client.receive()
    assert message.type is WSMsgType.TEXT, message
    text: str = message.data
    return text.encode()


async def fill(stream: MessageStream) -> int:
    for written in range(1, 1000):
        if stream.write([LARGE]):
            return written
        await read_by_others()
    raise AssertionError("the stream never filled up")


@pytest.mark.parametrize("size", [0, 10, 125, 126, 200, 65535, 65536, 70_000])
async def test_each_event_is_one_message(transport: Transport, size: int) -> None:
    event = "ä".encode() * (size // 2) + b"x" * (size % 2)

    async def talk(socket: Socket, stream: MessageStream) -> None:
        stream.write([event, b"{}"])
        stream.write([event])
        await stream.drain()

    async with talking(transport, talk) as (_, client):
        assert [await next_message(client) for _ in range(3)] == [event, b"{}", event]


async def test_the_socket_is_closed_after_all_that_was_written(transport: Transport) -> None:
    behind = asyncio.Event()
    written = 0

    async def talk(socket: Socket, stream: MessageStream) -> None:
        nonlocal written
        written = await fill(stream)
        stream.write([b"the last one"])
        behind.set()
        await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
        assert stream.write([b"nothing follows"]) is False

    async with talking(transport, talk) as (server, client):
        await behind.wait()
        await read_by_others()
        messages = [await next_message(client)]
        while messages[-1] != b"the last one":
            messages.append(await next_message(client))
        assert messages[:-1] == [LARGE] * written
        closing = await client.receive()
        assert (closing.type, closing.data) == (WSMsgType.CLOSE, 1001)
        await client.close()
        await server.done.wait()
        assert server.error is None


async def test_a_client_that_closes_is_answered(transport: Transport) -> None:
    async def talk(socket: Socket, stream: MessageStream) -> None:
        stream.write([b"hello"])
        async for _ in socket:
            raise AssertionError("nothing was sent")
        assert socket.close_code == 1000
        assert stream.write([b"too late"]) is False
        await stream.drain()

    async with talking(transport, talk) as (server, client):
        assert await next_message(client) == b"hello"
        await client.close()
        assert client.close_code == 1000
        await server.done.wait()
        assert server.error is None


async def test_nothing_follows_the_last_message(transport: Transport) -> None:
    async def talk(socket: Socket, stream: MessageStream) -> None:
        stream.write([b"the last one"])
        stream.end()
        assert stream.write([b"not sent"]) is False
        await socket.close()

    async with talking(transport, talk) as (_, client):
        assert await next_message(client) == b"the last one"
        assert (await client.receive()).type is WSMsgType.CLOSE


async def test_a_slow_client_is_waited_for(transport: Transport) -> None:
    behind, drained = asyncio.Event(), asyncio.Event()
    written = 0

    async def talk(socket: Socket, stream: MessageStream) -> None:
        nonlocal written
        written = await fill(stream)
        behind.set()
        await stream.drain()
        drained.set()
        stream.write([b"the last one"])
        await stream.drain()

    async with talking(transport, talk) as (_, client):
        await behind.wait()
        await read_by_others()
        assert not drained.is_set()
        assert [await next_message(client) for _ in range(written)] == [LARGE] * written
        assert await next_message(client) == b"the last one"


@pytest.mark.parametrize("behind", [False, True])
async def test_a_client_that_vanishes_is_no_error_of_the_writer(transport: Transport, behind: bool) -> None:
    begun = asyncio.Event()

    async def talk(socket: Socket, stream: MessageStream) -> None:
        if behind:
            await fill(stream)
        begun.set()
        async for _ in socket:
            raise AssertionError("nothing was sent")
        for _ in range(100):
            stream.write([LARGE])
        await stream.drain()

    async with talking(transport, talk) as (server, client):
        await begun.wait()
        client._response.close()
        await server.done.wait()
        assert server.error is None or isinstance(server.error, asyncio.CancelledError)


async def test_a_message_that_is_too_large_is_answered_before_the_socket_is_closed(transport: Transport) -> None:
    async def talk(socket: Socket, stream: MessageStream) -> None:
        def refuse() -> None:
            stream.write([b"too large"])
            stream.end()

        socket.refuse_large = refuse
        async for _ in socket:
            raise AssertionError("the message is too large")

    async with talking(transport, talk, max_msg_size=100) as (_, client):
        await client.send_str("x" * 200)
        assert await next_message(client) == b"too large"
        closing = await client.receive()
        assert (closing.type, closing.data) == (WSMsgType.CLOSE, 1009)
