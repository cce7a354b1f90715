"""How long a response may take in all."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest
from support.background import Background
from support.engine import MockEngine, Writer, chunk
from support.gateway import running_gateway
from support.sockets import connected
from support.streams import check_stream
from support.ways_in import CHAT, compacted, counted, left, passed_through, streamed, whole

pytestmark = pytest.mark.timeout(60)


async def trickle(write: Writer) -> None:
    """An answer that never ends."""
    while True:
        await write(chunk({"content": "x"}))
        await asyncio.sleep(0.005)


async def given_up(engine: MockEngine) -> None:
    """Waits until the engine was left. On a busy machine the time may be over before it was asked at all."""
    if engine.asked.is_set():
        await engine.cancelled.wait()


async def test_a_stream_that_takes_too_long_fails_and_its_engine_is_stopped(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway:
        engine.will(trickle)
        events = await gateway.stream()
        assert events[-1]["type"] == "response.failed"
        assert "`response_timeout`" in events[-1]["response"]["error"]["message"]
        assert events[-1]["response"]["output"][0]["status"] == "incomplete"
        await engine.cancelled.wait()
        await left(gateway)


@pytest.mark.parametrize("way_in", [whole, compacted, passed_through, counted, streamed])
async def test_an_engine_that_does_not_begin_in_time_is_given_up(engine: MockEngine, way_in: Any) -> None:
    async def silent(write: Writer) -> None:
        await asyncio.Event().wait()

    async with running_gateway(engine, response_timeout=0.3) as gateway:
        engine.will(silent)
        status, body, headers = await way_in(gateway, {})
        assert (status, body["error"]["code"]) == (504, "response_timeout")
        assert headers["x-should-retry"] == "false"
        assert "retry-after" not in headers
        await given_up(engine)
        await left(gateway)


async def test_a_whole_answer_that_takes_too_long_is_a_504(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=0.3) as gateway:
        engine.will(trickle)
        status, body, _ = await whole(gateway, {})
        assert (status, body["error"]["code"]) == (504, "response_timeout")
        await given_up(engine)


async def test_a_response_on_a_websocket_that_takes_too_long_fails_and_the_next_one_runs(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway, connected(gateway) as socket:
        engine.will(trickle)
        await socket.send()
        events = [await socket.event()]
        while not events[-1]["type"].endswith(("failed", "completed")):
            events.append(await socket.event())
        check_stream(events)
        assert events[-1]["type"] == "response.failed"
        await socket.create()


async def test_a_stream_that_is_passed_through_is_cut_when_it_takes_too_long(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway:
        engine.will(trickle)
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=CHAT) as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await engine.cancelled.wait()
        await left(gateway)


async def test_a_background_response_that_takes_too_long_fails(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway:
        background = Background(gateway)
        engine.will(trickle)
        response = await background.made()
        assert response["status"] == "failed"
        assert "`response_timeout`" in response["error"]["message"]
        check_stream(await background.follow(response["id"]))
        await engine.cancelled.wait()
        await left(gateway)


async def test_a_client_that_does_not_read_is_left_when_the_time_is_over(engine: MockEngine) -> None:
    async def torrent(write: Writer) -> None:
        while True:
            await write(chunk({"content": "x" * 1000}) * 50)

    async with running_gateway(engine, response_timeout=0.5, heartbeat=0.2, key_responses=1) as gateway:
        engine.will(torrent)
        _, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]), limit=1024)
        body = msgspec.json.encode({"model": "mock", "input": "Hi", "stream": True})
        head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await engine.cancelled.wait()
        await left(gateway)
        assert (await whole(gateway, {}))[0] == 200
        writer.transport.abort()
