"""What a client of a WebSocket may send, and what happens if it does not read."""

import asyncio
import logging
import socket
from typing import Any

import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_websocket import frame, raw_socket, read_all
from support.sockets import connected, paused, to_the_end, until_first_word

from antiphon.app.options import Intervals

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]

SHORT_FAREWELL = Intervals(websocket_farewell=0.05)


async def test_a_message_that_is_too_large_is_rejected(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    async with running_gateway(engine, max_body_bytes=2000, intervals=SHORT_FAREWELL) as gateway, connected(gateway) as socket:
        error = await socket.refused("x" * 3000)
        assert (error["status"], error["error"]["code"]) == (413, "request_too_large")
        assert "2000 bytes" in error["error"]["message"]
        assert await socket.closed() == 1009
    assert not engine.requests
    (line,) = [record.members for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]
    assert line["error"] == "request_too_large"


async def test_a_message_may_have_exactly_the_largest_size(engine: MockEngine) -> None:
    body = b'{"type": "response.create", "model": "mock", "input": "Hi"}'
    async with running_gateway(engine, max_body_bytes=2000, intervals=SHORT_FAREWELL) as gateway, connected(gateway) as socket:
        await socket.connection.send_str(body.ljust(2000).decode())
        await socket.turn()
        await socket.connection.send_str(body.ljust(2001).decode())
        assert (await socket.event())["error"]["code"] == "request_too_large"
        assert await socket.closed() == 1009
    assert len(engine.requests) == 1


async def test_a_message_whose_frames_are_too_large_together_is_rejected(engine: MockEngine) -> None:
    async with running_gateway(engine, max_body_bytes=2000, intervals=SHORT_FAREWELL) as gateway:
        with raw_socket(gateway) as client:
            await asyncio.to_thread(client.sendall, frame(0x01, b"x" * 1500) + frame(0x80, b"x" * 1500))
            received = await asyncio.to_thread(read_all, client)
    assert b"larger than 2000 bytes" in received
    assert received.endswith(CLOSED_AS_TOO_LARGE)


async def test_a_client_that_reads_only_after_sending_everything_gets_the_error(engine: MockEngine) -> None:
    def send_then_read(client: socket.socket) -> bytes:
        client.sendall(frame(0x81, bytes(3_000_000)))
        return read_all(client)

    async with running_gateway(engine, max_body_bytes=2000) as gateway:
        with raw_socket(gateway) as client:
            received = await asyncio.to_thread(send_then_read, client)
    assert b"larger than 2000 bytes" in received
    assert received.endswith(CLOSED_AS_TOO_LARGE)


async def test_nothing_of_the_current_run_follows_the_error_for_a_large_message(engine: MockEngine) -> None:
    go_on, script = paused()
    engine.will(script)
    async with (
        running_gateway(engine, max_body_bytes=2000, intervals=SHORT_FAREWELL) as gateway,
        connected(gateway) as connection,
    ):
        await connection.send()
        await until_first_word(connection)
        error = await connection.refused("x" * 3000)
        go_on.set()
        assert error["error"]["code"] == "request_too_large"
        assert await connection.closed() == 1009


CLOSED_AS_TOO_LARGE = b"\x88\x02" + (1009).to_bytes(2, "big")
# Each is answered by an error that is many times as large.
BAD_MESSAGE = frame(0x81, b"{")
BAD_MESSAGES = 9_000_000 // len(BAD_MESSAGE)


async def test_a_client_that_does_not_read_its_errors_is_not_read_either(gateway: GatewayUnderTest) -> None:
    with raw_socket(gateway, receive_buffer=4096) as client:
        sending = asyncio.create_task(asyncio.to_thread(client.sendall, BAD_MESSAGE * BAD_MESSAGES))
        while not gateway.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        (connection,) = gateway.connections
        protocol = connection._request.protocol
        assert protocol is not None
        while not protocol._reading_paused:
            assert not sending.done()
            await asyncio.sleep(0)
        assert protocol.transport is not None
        assert protocol.transport.get_write_buffer_size() < 1_000_000
        client.shutdown(socket.SHUT_RDWR)
        await asyncio.gather(sending, return_exceptions=True)


async def test_every_error_reaches_a_client_that_reads_late(gateway: GatewayUnderTest) -> None:
    async with connected(gateway) as socket:
        for _ in range(3000):
            await socket.connection.send_str("{")
        for _ in range(3000):
            assert (await socket.event())["error"]["code"] == "invalid_json"
        assert (await socket.create())["status"] == "completed"


@pytest.mark.parametrize("limits", [{"websocket_lifetime": 1.0}, {"send_timeout": 1.0}])
async def test_a_client_that_does_not_read_cannot_keep_its_connection_open(engine: MockEngine, limits: dict[str, Any]) -> None:
    intervals = Intervals(websocket_ping=1.0, websocket_farewell=0.05)
    async with running_gateway(engine, intervals=intervals, **limits) as gateway:
        with raw_socket(gateway, receive_buffer=4096) as client:
            sending = asyncio.create_task(asyncio.to_thread(client.sendall, BAD_MESSAGE * BAD_MESSAGES))
            while not gateway.connections:  # noqa: ASYNC110
                await asyncio.sleep(0)
            (failed,) = await asyncio.gather(sending, return_exceptions=True)
            assert isinstance(failed, ConnectionError)
            assert not gateway.connections


async def test_requests_that_wait_may_be_as_large_as_one(engine: MockEngine) -> None:
    go_on, script = paused()
    engine.will(script)
    async with running_gateway(engine, max_body_bytes=3000) as gateway, connected(gateway) as socket:
        await socket.send()
        events = await until_first_word(socket)
        await socket.send("x" * 1500)
        error = await socket.refused("x" * 1500)
        assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "3000 bytes" in error["error"]["message"]
        go_on.set()
        await to_the_end(socket, events)
        await socket.turn()
        assert (await socket.create("x" * 1500))["status"] == "completed"
    assert len(engine.requests) == 3


async def test_the_number_of_requests_that_wait_is_a_setting(engine: MockEngine) -> None:
    go_on, script = paused()
    engine.will(script)
    async with running_gateway(engine, websocket_queue=1) as gateway, connected(gateway) as socket:
        await socket.send()
        events = await until_first_word(socket)
        await socket.send()
        assert (await socket.refused())["status"] == 429
        go_on.set()
        await to_the_end(socket, events)
        await socket.turn()
