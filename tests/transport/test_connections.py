"""Clients that do not finish what they have begun to send."""

import asyncio
import socket
from typing import Any

import msgspec
import pytest
from support.engine import MockEngine, Writer, chunk, text
from support.gateway import running_gateway
from support.raw_client import dialled, get, post

from antiphon.settings.settings import TransportName
from antiphon.transport.connections import Connection

pytestmark = pytest.mark.timeout(60)

REQUEST = get(b"/health")


async def test_headers_that_are_not_complete_in_time_are_a_408(engine: MockEngine, name: TransportName) -> None:
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(REQUEST[:-2])
        answer = await client.answer()
        assert (answer.status, answer.json["error"]["code"]) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


async def test_headers_that_trickle_have_the_same_deadline(engine: MockEngine, name: TransportName) -> None:
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(REQUEST[:-2] + b"a: ")
        answering = asyncio.create_task(client.answer())
        while not answering.done():
            await client.send(b"b")
            await asyncio.wait({answering}, timeout=0.02)
        assert answering.result().status == 408


async def test_a_connection_without_a_request_is_closed(engine: MockEngine, name: TransportName) -> None:
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        assert await client.rest() == b""


async def test_a_later_request_has_the_deadline_too_and_an_idle_connection_has_none(
    engine: MockEngine, name: TransportName
) -> None:
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(REQUEST)
        assert (await client.answer()).status == 200
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2):
                await client.reader.read(1)
        await client.send(REQUEST[:-2])
        # Nothing is said: an answer could be taken for that of the request before.
        assert await client.rest() == b""


async def test_the_requests_of_a_connection_share_its_timer(
    engine: MockEngine, name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To make one for each costs as much as to parse its head."""
    made: list[Connection] = []
    set_timer = Connection._set_timer

    def counted(connection: Connection) -> None:
        made.append(connection)
        set_timer(connection)

    monkeypatch.setattr(Connection, "_set_timer", counted)
    async with running_gateway(engine, transport=name) as gateway, dialled(gateway) as client:
        for _ in range(3):
            await client.send(REQUEST)
            assert (await client.answer()).status == 200
    assert len(made) == 1


async def test_a_request_that_comes_with_half_of_the_next_one_does_not_hide_it(engine: MockEngine, name: TransportName) -> None:
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(REQUEST + REQUEST[:-2])
        assert (await client.answer()).status == 200
        assert await client.rest() == b""


async def test_half_of_a_request_that_comes_while_another_one_is_answered_has_the_deadline(
    engine: MockEngine, name: TransportName
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(write: Writer) -> None:
        asked.set()
        await go_on.wait()
        await write(text("Hi"))

    engine.will(script)
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(post(b'{"model": "mock", "input": "Hi"}'))
        await asked.wait()
        # The second one shows that the gateway has read the first.
        await client.send(REQUEST[:-2])
        async with dialled(gateway) as other:
            await other.send(REQUEST)
            assert (await other.answer()).status == 200
        go_on.set()
        assert (await client.answer()).status == 200
        assert await client.rest() == b""


async def test_a_head_whose_end_comes_by_itself_leaves_the_connection_idle(engine: MockEngine, name: TransportName) -> None:
    async with running_gateway(engine, transport=name, header_timeout=1.0) as gateway, dialled(gateway) as client:
        await client.send(REQUEST[:-1])
        async with dialled(gateway) as other:
            await other.send(REQUEST)
            assert (await other.answer()).status == 200
        await client.send(REQUEST[-1:])
        assert (await client.answer()).status == 200
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2):
                await client.reader.read(1)


async def test_a_body_that_pauses_for_too_long_is_a_408(engine: MockEngine, name: TransportName) -> None:
    body = b'{"model": "mock", "input": "Hi"}'
    async with running_gateway(engine, transport=name, body_timeout=0.3) as gateway:
        async with dialled(gateway) as client:
            await client.send(post(body)[:-1])
            answer = await client.answer()
            assert (answer.status, answer.json["error"]["code"]) == (408, "request_timeout")
            assert await client.rest() == b""
        async with dialled(gateway) as client:
            await client.send(post(body))
            assert (await client.answer()).status == 200
    assert len(engine.requests) == 1


async def test_a_body_that_goes_on_has_time(engine: MockEngine, name: TransportName) -> None:
    body = b'{"model": "mock", "input": "Hi"}'
    async with running_gateway(engine, transport=name, body_timeout=1.5) as gateway, dialled(gateway) as client:
        await client.send(post(body)[: -len(body)])
        answering = asyncio.create_task(client.answer())
        for piece in (body[:10], body[10:20], body[20:]):
            await asyncio.wait({answering}, timeout=0.6)
            await client.send(piece)
        assert (await answering).status == 200


async def test_a_response_may_take_longer_than_its_request(engine: MockEngine, name: TransportName) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(write: object) -> None:
        asked.set()
        await go_on.wait()

    engine.will(script)
    deadlines: dict[str, Any] = {"body_timeout": 1.0, "header_timeout": 1.0}
    async with running_gateway(engine, transport=name, **deadlines) as gateway, dialled(gateway) as client:
        await client.send(post(b'{"model": "mock", "input": "Hi", "stream": true}'))
        await asked.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2):
                await client.rest()
        go_on.set()


async def test_a_connection_that_stays_idle_after_its_upgrade_stays_open(engine: MockEngine, name: TransportName) -> None:
    deadlines: dict[str, Any] = {"body_timeout": 1.0, "header_timeout": 1.0}
    async with (
        running_gateway(engine, transport=name, **deadlines) as gateway,
        gateway.client.ws_connect(gateway.url + "/v1/responses") as socket,
    ):
        with pytest.raises(TimeoutError):
            await socket.receive(timeout=1.2)
        await socket.send_json({"type": "response.create", "model": "mock", "input": "Hi"})
        assert (await socket.receive_json())["type"] == "response.created"


async def test_a_client_that_reads_nothing_loses_its_connection_and_the_engine_its_work(
    engine: MockEngine, name: TransportName
) -> None:
    piece = chunk({"content": "x" * 65536})

    async def torrent(write: Writer) -> None:
        while True:
            await write(piece)

    engine.will(torrent)
    async with running_gateway(engine, transport=name, send_timeout=0.5) as gateway, dialled(gateway) as client:
        # asyncio reads only as far as its own buffer goes.
        await client.send(post(b'{"model": "mock", "input": "Hi", "stream": true}'))
        assert await engine.cancelled.wait()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_client_that_reads_slowly_gets_all_of_an_answer(
    engine: MockEngine, name: TransportName, streamed: bool
) -> None:
    # The last events of the stream have all of the text, and are written while the client still reads the first ones.
    engine.will(text("x" * 4_000_000) if streamed else text("x" * 12_000_000))
    body = msgspec.json.encode({"model": "mock", "input": "Hi", "stream": streamed})
    async with running_gateway(engine, transport=name, send_timeout=0.5) as gateway, dialled(gateway) as client:
        # Otherwise the system buffers most of the answer.
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        await client.send(post(body, b"Connection: close"))
        loop = asyncio.get_running_loop()
        began, size, last = loop.time(), 0, b""
        # The pauses are those of a slow connection: all of it takes longer than the timeout, and each of them far less.
        while piece := await client.reader.read(1 << 20):
            size, last = size + len(piece), (last + piece)[-64:]
            await asyncio.sleep(0.01)
        assert size > 12_000_000
        assert b"[DONE]" in last if streamed else last.endswith(b"}")
        assert loop.time() - began > 1.0
