"""The responses of one WebSocket run one after another, and end with it."""

import asyncio

import pytest
from support.engine import DONE, USAGE, MockEngine, Writer, chunk, text
from support.engine_connections import is_paused as gateway_has_paused
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected, paused, to_the_end, until_first_word

from antiphon.settings.settings import Settings

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]

MOST_WAITING = Settings().websocket_queue


async def test_requests_are_answered_one_after_another(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on, script = paused()
    engine.will(script, text("second"))
    async with connected(gateway) as socket:
        await socket.send("First")
        events = await until_first_word(socket)
        await socket.send("Second")
        # An unknown message is answered at once, so the request before it has been read as well.
        await socket.connection.send_str("{}")
        assert (await socket.event())["error"]["param"] == "type"
        assert len(engine.requests) == 1
        go_on.set()
        await to_the_end(socket, events)
        assert (await socket.turn())[-1]["response"]["output"][0]["content"][0]["text"] == "second"
        assert [body["messages"][0]["content"] for body in engine.requests] == ["First", "Second"]


async def test_only_a_few_requests_can_wait(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on, script = paused()
    engine.will(script)
    async with connected(gateway) as socket:
        await socket.send()
        events = await until_first_word(socket)
        for _ in range(MOST_WAITING + 1):
            await socket.send()
        error = await socket.event()
        assert error["status"] == 429
        assert error["error"]["code"] == "rate_limit_exceeded"
        go_on.set()
        await to_the_end(socket, events)
        for _ in range(MOST_WAITING):
            await socket.turn()
    assert len(engine.requests) == MOST_WAITING + 1


@pytest.mark.parametrize("how", ["closes", "vanishes"])
async def test_a_client_that_disconnects_ends_the_engines_work(gateway: GatewayUnderTest, engine: MockEngine, how: str) -> None:
    _, script = paused()
    engine.will(script)
    async with connected(gateway) as socket:
        await socket.send()
        await until_first_word(socket)
        if how == "vanishes":
            socket.connection._response.close()
    async with asyncio.timeout(10):
        assert await engine.cancelled.wait()


async def test_a_slow_client_pauses_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    written, most, is_paused = 0, 1000, asyncio.Event()
    piece = chunk({"content": "x" * 65536})

    async def torrent(write: Writer) -> None:
        nonlocal written
        # What follows the pause need not be long.
        while written < most and not is_paused.is_set():
            await write(piece)
            written += 1
        await write(piece + chunk(finish="stop") + USAGE + DONE)
        written += 1

    engine.will(torrent)
    async with connected(gateway, max_msg_size=0) as socket:
        await socket.send()
        # Nothing is read here: once every buffer on the way is full, the gateway stops reading from its engine.
        async with asyncio.timeout(50):
            while not gateway_has_paused(gateway.gateway.pool.engines[0]):  # noqa: ASYNC110
                await asyncio.sleep(0)
        is_paused.set()
        before = written
        assert 0 < before < most
        response = (await socket.turn())[-1]["response"]
    assert response["status"] == "completed"
    assert written > before
    assert len(response["output"][0]["content"][0]["text"]) == written * 65536


async def test_shutting_down_lets_a_run_finish_and_then_closes_the_connection(engine: MockEngine) -> None:
    go_on, script = paused()
    engine.will(script)
    running = running_gateway(engine, shutdown_timeout=30)
    gateway = await running.__aenter__()
    async with connected(gateway) as socket, connected(gateway) as idle:
        await socket.send()
        events = await until_first_word(socket)
        stopping = asyncio.create_task(running.__aexit__(None, None, None))
        assert await idle.closed() == 1001
        go_on.set()
        await to_the_end(socket, events)
        assert await socket.closed() == 1001
        await stopping


async def test_shutting_down_ends_a_run_that_takes_too_long_with_a_terminal_event(engine: MockEngine) -> None:
    _, script = paused()
    engine.will(script)
    running = running_gateway(engine, shutdown_timeout=0.1)
    gateway = await running.__aenter__()
    async with connected(gateway) as socket:
        await socket.send()
        events = await until_first_word(socket)
        stopping = asyncio.create_task(running.__aexit__(None, None, None))
        failed = await to_the_end(socket, events)
        assert "shutting down" in failed["error"]["message"]
        assert await socket.closed() == 1001
        await stopping
