"""Server-sent events to clients that read, read slowly, or go away."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop
from aiohttp import web
from support.raw_server import read_by_others
from support.streaming_server import StreamingServer, leave, read_chunks, streaming_server

from antiphon.transport import EventStream, Transport, choose
from antiphon.transport.interfaces import HIGH_WATER

EVENTS = [b'event: delta\ndata: {"n": %d}\n\n' % number for number in range(20)]
LARGE = b"data: " + b"x" * (HIGH_WATER // 4) + b"\n\n"


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """What is written goes straight to the socket of the one, and through the transport of the other."""
    policy: asyncio.AbstractEventLoopPolicy = request.param()
    return policy


@asynccontextmanager
async def streaming(transport: Transport, write: Callable[[EventStream], Awaitable[None]]) -> AsyncIterator[StreamingServer]:
    """A server that answers with what `write` writes, and leaves no task behind."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response, before = web.StreamResponse(), asyncio.all_tasks()
        try:
            async with transport.open_events(request, response) as stream:
                await write(stream)
        finally:
            left.extend(asyncio.all_tasks() - before)
        return response

    left: list[asyncio.Task[Any]] = []
    async with streaming_server(handler) as server:
        yield server
        await server.done.wait()
    assert left == []


async def fill(stream: EventStream) -> int:
    """Writes until the client is behind; how many events that took."""
    for written in range(1, 1000):
        if stream.write([LARGE]):
            return written
        await read_by_others()
    raise AssertionError("the stream never filled up")


@pytest.mark.parametrize("together", [1, 3, 20])
async def test_an_event_is_in_one_chunk_with_its_blank_line(transport: Transport, together: int) -> None:
    async def write(stream: EventStream) -> None:
        for at in range(0, len(EVENTS), together):
            assert stream.write(EVENTS[at : at + together]) is False
            if at % 2:
                await read_by_others()
        await stream.drain()

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        chunks = await read_chunks(reader)
        await leave(writer)
    assert b"".join(chunks) == b"".join(EVENTS)
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)
    assert all(chunk.startswith(b"event: ") for chunk in chunks)


async def test_an_event_is_sent_when_it_is_written(transport: Transport) -> None:
    seen = asyncio.Event()

    async def write(stream: EventStream) -> None:
        for event in EVENTS:
            stream.write([event])
            await seen.wait()
            seen.clear()

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        for event in EVENTS:
            assert (await reader.readuntil(b"\n\n\r\n")).endswith(event + b"\r\n")
            seen.set()
        await leave(writer)


async def test_an_event_is_on_its_way_before_anything_else_runs() -> None:
    """The batch of writes has waited for its time already."""
    arrived = b""

    async def write(stream: EventStream) -> None:
        nonlocal arrived
        stream.write([EVENTS[0]])
        arrived = client.recv(2**16)

    async with streaming(choose("fast"), write) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            client.setblocking(False)
            await server.done.wait()
    assert arrived.startswith(b"HTTP/1.1 200 OK\r\n"), "the head is sent with the first event"
    assert EVENTS[0] in arrived


async def test_the_end_of_the_body_is_sent_with_the_last_events() -> None:
    arrived = b""

    async def write(stream: EventStream) -> None:
        nonlocal arrived
        stream.write(EVENTS[:1])
        stream.write(EVENTS[1:], last=True)
        arrived = client.recv(2**16)

    async with streaming(choose("fast"), write) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            client.setblocking(False)
            await server.done.wait()
            await read_by_others()
            with suppress(BlockingIOError):
                arrived += client.recv(2**16)
    assert arrived.endswith(EVENTS[-1] + b"\r\n0\r\n\r\n"), "and nothing follows it"


async def test_what_is_written_after_a_part_was_sent_follows_the_rest(transport: Transport) -> None:
    """Nothing overtakes what is queued, and nothing is sent twice."""
    lines = [b"data: %d %b\n\n" % (number, b"x" * (number % 5000)) for number in range(0, 40_000, 37)]

    async def write(stream: EventStream) -> None:
        for line in lines:
            if stream.write([line]):
                await stream.drain()

    async with streaming(transport, write) as server:
        reader, writer = await server.get(limit=2**10)
        assert b"".join(await read_chunks(reader)) == b"".join(lines)
        await leave(writer)


async def test_what_is_written_may_be_changed_afterwards(transport: Transport) -> None:
    async def write(stream: EventStream) -> None:
        out: list[bytes] = []
        for event in EVENTS:
            out.append(event)
            stream.write(out)
            out.clear()

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        assert b"".join(await read_chunks(reader)) == b"".join(EVENTS)
        await leave(writer)


async def test_a_client_of_http_1_0_gets_no_chunks(transport: Transport) -> None:
    async def write(stream: EventStream) -> None:
        stream.write(EVENTS)

    async with streaming(transport, write) as server:
        reader, writer = await server.get("1.0")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        await leave(writer)
    assert b"chunked" not in head
    assert body == b"".join(EVENTS)


async def test_a_stream_without_events_ends(transport: Transport) -> None:
    async def write(stream: EventStream) -> None:
        await stream.drain()

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        assert await read_chunks(reader) == []
        await leave(writer)


async def test_a_slow_client_is_waited_for(transport: Transport) -> None:
    behind, drained = asyncio.Event(), asyncio.Event()
    written = 0

    async def write(stream: EventStream) -> None:
        nonlocal written
        written = await fill(stream)
        behind.set()
        await stream.drain()
        drained.set()
        stream.write(EVENTS)

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        await behind.wait()
        await read_by_others()
        assert not drained.is_set()
        chunks = await read_chunks(reader)
        await leave(writer)
    assert b"".join(chunks) == LARGE * written + b"".join(EVENTS)
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)


async def test_the_end_waits_for_all_that_was_written(transport: Transport) -> None:
    behind = asyncio.Event()
    written = 0

    async def write(stream: EventStream) -> None:
        nonlocal written
        written = await fill(stream)
        behind.set()

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        await behind.wait()
        await read_by_others()
        assert b"".join(await read_chunks(reader)) == LARGE * written
        await leave(writer)


async def test_a_client_that_goes_away_is_no_error_of_the_writer(transport: Transport) -> None:
    begun, left = asyncio.Event(), asyncio.Event()
    writes = 0

    async def write(stream: EventStream) -> None:
        nonlocal writes
        stream.write([EVENTS[0]])
        begun.set()
        try:
            await left.wait()
        finally:
            # The handler is cancelled by now, or will be in a moment.
            for _ in range(100):
                stream.write([LARGE])
                writes += 1
        await asyncio.Event().wait()

    async with streaming(transport, write) as server:
        _, writer = await server.get()
        await begun.wait()
        await leave(writer)
        left.set()
        await server.done.wait()
    assert writes == 100
    assert isinstance(server.error, asyncio.CancelledError)


async def test_a_client_that_goes_away_ends_the_wait_for_it(transport: Transport) -> None:
    behind = asyncio.Event()

    async def write(stream: EventStream) -> None:
        await fill(stream)
        behind.set()
        await stream.drain()
        assert stream.write([LARGE]) is False

    async with streaming(transport, write) as server:
        _, writer = await server.get()
        await behind.wait()
        await leave(writer)
        await server.done.wait()
    assert not isinstance(server.error, AssertionError)


async def test_a_handler_that_fails_leaves_nothing_behind(transport: Transport) -> None:
    async def write(stream: EventStream) -> None:
        await fill(stream)
        raise LookupError

    async with streaming(transport, write) as server:
        _, writer = await server.get()
        await server.done.wait()
        await leave(writer)
    assert isinstance(server.error, LookupError)


async def test_a_wait_that_is_cancelled_does_not_stop_the_sending(transport: Transport) -> None:
    behind = asyncio.Event()
    written = 0

    async def write(stream: EventStream) -> None:
        nonlocal written
        written = await fill(stream)
        draining = asyncio.create_task(stream.drain())
        await read_by_others()
        draining.cancel()
        await asyncio.wait({draining})
        behind.set()

    async with streaming(transport, write) as server:
        reader, writer = await server.get()
        await behind.wait()
        assert b"".join(await read_chunks(reader)) == LARGE * written
        await leave(writer)
