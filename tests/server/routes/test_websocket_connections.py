"""A WebSocket: who may open it, and when it is closed."""

import asyncio

import aiohttp
import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_websocket import raw_socket, read_all
from support.sockets import connected, paused, to_the_end, until_first_word

from antiphon.app.options import Intervals
from antiphon.server.routes.websocket import too_old

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]


async def test_a_request_without_an_upgrade_gets_a_426(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.get("/v1/responses")
    assert status == 426
    assert body["error"]["code"] == "upgrade_required"


async def test_the_upgrade_needs_a_key_like_every_request(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("secret", "other")) as gateway:
        with pytest.raises(aiohttp.WSServerHandshakeError) as rejected:
            async with connected(gateway):
                pass
        assert rejected.value.status == 401
        async with connected(gateway, headers={"Authorization": "Bearer secret"}) as socket:
            response = await socket.create()
        for key, status in (("secret", 200), ("other", 404)):
            stored = await gateway.get(f"/v1/responses/{response['id']}", headers={"Authorization": f"Bearer {key}"})
            assert stored[0] == status


async def test_a_page_of_another_origin_cannot_connect(gateway: GatewayUnderTest) -> None:
    for origin in ("http://elsewhere.example", "null", "http://[broken"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as rejected:
            async with connected(gateway, headers={"Origin": origin}):
                pass
        assert rejected.value.status == 403
    async with connected(gateway, headers={"Origin": gateway.url}) as socket:
        assert (await socket.create())["status"] == "completed"


async def test_a_connection_has_an_id(gateway: GatewayUnderTest) -> None:
    async with connected(gateway, headers={"x-request-id": "mine"}) as socket:
        assert socket.connection._response.headers["x-request-id"] == "mine"


async def test_a_connection_that_is_too_old_is_closed_with_an_error(engine: MockEngine) -> None:
    async with running_gateway(engine, websocket_lifetime=0.05) as gateway, connected(gateway) as socket:
        error = await socket.event()
        assert error["type"] == "error"
        assert error["status"] == 400
        assert error["error"]["code"] == "websocket_connection_limit_reached"
        assert await socket.closed() == 1000


async def test_a_run_is_finished_before_its_connection_is_closed_for_its_age(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    go_on, script = paused()
    engine.will(script)
    async with connected(gateway) as socket:
        await socket.send()
        events = await until_first_word(socket)
        (connection,) = gateway.connections
        connection.leave(too_old(3600))
        go_on.set()
        await to_the_end(socket, events)
        assert (await socket.event())["error"]["code"] == "websocket_connection_limit_reached"
        assert await socket.closed() == 1000


async def test_no_http_follows_the_upgrade_whatever_fails(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("antiphon.server.routes.websocket.Connection.run", bug)
    with raw_socket(gateway) as client:
        received = await asyncio.to_thread(read_all, client)
    assert received.startswith(b"HTTP/1.1 101")
    assert received.count(b"HTTP/1.1") == 1
    assert "bug" in caplog.text


async def test_a_client_is_pinged(engine: MockEngine) -> None:
    often = Intervals(websocket_ping=0.05)
    async with running_gateway(engine, intervals=often) as gateway, connected(gateway, autoping=False) as socket:
        message = await socket.connection.receive()
        assert message.type is aiohttp.WSMsgType.PING
