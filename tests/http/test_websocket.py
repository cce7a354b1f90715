"""The Responses API over a WebSocket, frame by frame."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from support.engine import CUT, DONE, USAGE, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import Socket, connected
from support.streams import TERMINAL, check_stream

from antiphon.app import Intervals
from antiphon.http.websocket import too_old
from antiphon.settings import Settings
from antiphon.store.memory import MemoryStore

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]

MOST_WAITING = Settings().websocket_queue
TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


def paused() -> tuple[asyncio.Event, Any]:
    """An answer that stops after its first word until the event is set."""
    go_on = asyncio.Event()

    async def script(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await go_on.wait()
        await write(chunk({"content": " two"}) + chunk(finish="stop") + USAGE + DONE)

    return go_on, script


async def until_first_word(socket: Socket) -> list[dict[str, Any]]:
    """The events up to the first word."""
    events = [await socket.event()]
    while events[-1]["type"] != "response.output_text.delta":
        events.append(await socket.event())
    return events


async def to_the_end(socket: Socket, events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response of a run that has begun with these events."""
    while events[-1]["type"] not in TERMINAL:
        events.append(await socket.event())
    return check_stream(events)


# ---- the connection --------------------------------------------------------------------------------------------------


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


# ---- messages that are too large -------------------------------------------------------------------------------------


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
UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@contextmanager
def raw_socket(gateway: GatewayUnderTest, receive_buffer: int = 1 << 20) -> Iterator[socket.socket]:
    """A connection that asks for a WebSocket, and does nothing by itself."""
    host = gateway.url.removeprefix("http://")
    address, _, port = host.partition(":")
    with socket.socket() as client:
        client.settimeout(20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect((address, int(port)))
        client.sendall(UPGRADE % host.encode())
        yield client


def frame(first: int, payload: bytes) -> bytes:
    """As a client sends it: masked, here with zeros."""
    return bytes((first, 0xFF)) + len(payload).to_bytes(8, "big") + bytes(4) + payload


def read_all(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(4096):
        received += data
    return received


# ---- clients that do not read ----------------------------------------------------------------------------------------

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


async def test_no_http_follows_the_upgrade_whatever_fails(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("antiphon.http.websocket.Connection.run", bug)
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


# ---- events ----------------------------------------------------------------------------------------------------------


async def test_each_frame_is_one_event_and_the_events_are_those_of_http(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    thought = chunk({"reasoning_content": "I should look."})
    answers = [
        text("Hello", " world"),
        answer(thought, chunk({"content": "Well."}), call("get_weather", '{"a": 1}', id="c1"), finish="tool_calls"),
    ]
    async with connected(gateway) as socket:
        for each in answers:
            engine.will(each, each)
            over_http = await gateway.stream(tools=TOOLS)
            await socket.send(tools=TOOLS)
            over_socket = await socket.turn()
            assert [shape(event) for event in over_socket] == [shape(event) for event in over_http]
        assert engine.requests[0] == engine.requests[1]
        # What follows the terminal event is the next response: there is no [DONE].
        await socket.create()


def shape(event: dict[str, Any]) -> Any:
    compared = {
        name: value for name, value in event.items() if name in ("type", "sequence_number", "delta", "text", "arguments")
    }
    return compared | {"status": event.get("response", {}).get("status")}


async def test_a_long_event_is_one_frame_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """Three forms of a frame's length: up to 125, up to 65535, and beyond."""
    engine.will(text("x" * 500, "y" * 70_000))
    async with connected(gateway) as socket:
        response = await socket.create()
        assert response["output"][0]["content"][0]["text"] == "x" * 500 + "y" * 70_000


async def test_the_fields_stream_and_background_have_no_effect(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    async with connected(gateway) as socket:
        response = await socket.create(stream=False, background=True)
        assert response["status"] == "completed"
        assert response["background"] is False
    await gateway.gateway.drain(30)
    assert [line["notices"] for line in turns_logged(caplog)] == [["field background is unknown and was left out"]]


async def test_a_client_gets_heartbeats_while_its_engine_is_silent(engine: MockEngine) -> None:
    heard = asyncio.Event()

    async def silent(write: Writer) -> None:
        await heard.wait()
        await write(text("at last"))

    engine.will(silent)
    async with running_gateway(engine, heartbeat=0.02) as gateway, connected(gateway) as socket:
        await socket.send()
        events = [await socket.event() for _ in range(5)]
        assert {event["type"] for event in events[1:]} == {"response.in_progress"}
        heard.set()
        await to_the_end(socket, events)


async def test_input_can_be_sent_without_generating_an_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with connected(gateway) as socket:
        await socket.send("Remember this.", generate=False, store=False, tools=TOOLS, tool_choice="required")
        warm = (await socket.turn())[-1]["response"]
        assert warm["status"] == "completed"
        assert warm["output"] == []
        assert not engine.requests
        await socket.create("What?", previous_response_id=warm["id"], store=False)
        assert said(engine) == ["Remember this.", "What?"]


# ---- turns -----------------------------------------------------------------------------------------------------------


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
    written = 0
    piece = chunk({"content": "x" * 65536})

    async def torrent(write: Writer) -> None:
        nonlocal written
        for _ in range(1000):
            await write(piece)
            written += 1
        await write(chunk(finish="stop") + USAGE + DONE)

    engine.will(torrent)
    async with connected(gateway, max_msg_size=0) as socket:
        await socket.send()
        connector = gateway.gateway.pool.engines[0]._session.connector
        assert connector is not None
        # Nothing is read here: once every buffer on the way is full, the gateway stops reading from its engine.
        async with asyncio.timeout(50):
            while not any(line._reading_paused for line in connector._acquired):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert 0 < written < 1000
        assert (await socket.turn())[-1]["response"]["status"] == "completed"
    assert written == 1000


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


# ---- errors ----------------------------------------------------------------------------------------------------------

REJECTED: dict[str, tuple[str, str | None, str]] = {
    "not JSON": ("{", None, "invalid_json"),
    "not an object": ("[]", None, "invalid_json"),
    "without a type": ("{}", "type", "unknown_event_type"),
    "of another type": ('{"type": "response.cancel"}', "type", "unknown_event_type"),
    "with a lane": ('{"type": "response.create", "input": "Hi", "stream_id": "1"}', "stream_id", "unsupported_parameter"),
}


@pytest.mark.parametrize("message", REJECTED)
async def test_an_invalid_message_is_an_error_and_the_connection_stays_open(gateway: GatewayUnderTest, message: str) -> None:
    sent, param, code = REJECTED[message]
    async with connected(gateway) as socket:
        await socket.connection.send_str(sent)
        error = await socket.event()
        assert error.keys() == {"type", "status", "error"}
        assert (error["type"], error["status"]) == ("error", 400)
        assert error["error"].keys() == {"type", "code", "message", "param"}
        assert error["error"]["type"] == "invalid_request_error"
        assert (error["error"]["param"], error["error"]["code"]) == (param, code)
        assert (await socket.create())["status"] == "completed"


async def test_binary_frames_are_rejected(gateway: GatewayUnderTest) -> None:
    async with connected(gateway) as socket:
        await socket.connection.send_bytes(b'{"type": "response.create", "input": "Hi"}')
        assert "text frames" in (await socket.event())["error"]["message"]
        assert (await socket.create())["status"] == "completed"


async def test_an_error_before_the_first_event_leaves_the_connection_open(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async with connected(gateway) as socket:
        wrong = await socket.refused(temperature=5)
        assert (wrong["status"], wrong["error"]["param"]) == (400, "temperature")
        engine.will(Refusal(429, {"error": {"message": "Too many."}}, {"Retry-After": "7"}))
        busy = await socket.refused()
        assert (busy["status"], busy["error"]["code"]) == (429, "rate_limit_exceeded")
        assert busy["headers"] == {"retry-after": "7"}
        assert (await socket.create())["status"] == "completed"


async def test_an_error_after_the_first_event_is_a_failed_response(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await write(CUT)

    engine.will(cut)
    async with connected(gateway) as socket:
        failed = await socket.create()
        assert failed["status"] == "failed"
        assert (await socket.create())["status"] == "completed"


# ---- state -----------------------------------------------------------------------------------------------------------


def said(engine: MockEngine) -> list[str]:
    return [message["content"] for message in engine.last["messages"]]


async def test_an_unstored_response_is_continued_on_its_connection(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with connected(gateway) as socket:
        first = await socket.create("One", store=False)
        second = await socket.create("Two", store=False, previous_response_id=first["id"])
        await socket.create("Three", store=False, previous_response_id=second["id"])
        assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]
        # The one before can be continued as well.
        await socket.create("Another", store=False, previous_response_id=first["id"])
        assert said(engine) == ["One", "Hello world", "Another"]


async def test_an_unstored_response_is_unknown_to_other_connections(gateway: GatewayUnderTest) -> None:
    async with connected(gateway) as socket, connected(gateway) as other:
        first = await socket.create("One", store=False)
        error = await other.refused("Two", previous_response_id=first["id"])
        assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
        status, _ = await gateway.post({"input": "Two", "previous_response_id": first["id"]})
        assert status == 400


async def test_a_stored_response_is_known_to_all_connections(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    over_http = await gateway.create("One")
    async with connected(gateway) as socket:
        second = await socket.create("Two", previous_response_id=over_http["id"])
    await gateway.create("Three", previous_response_id=second["id"])
    assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]


async def test_a_stored_response_is_continued_without_being_stored(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    over_http = await gateway.create("One")
    async with connected(gateway) as socket:
        second = await socket.create("Two", store=False, previous_response_id=over_http["id"])
        await socket.create("Three", store=False, previous_response_id=second["id"])
    assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]


async def test_the_store_is_not_asked_for_what_the_connection_knows(
    gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    chain = MemoryStore.chain

    async def watched(self: MemoryStore, owner: str, id: str) -> Any:
        asked.append(id)
        return await chain(self, owner, id)

    monkeypatch.setattr(MemoryStore, "chain", watched)
    async with connected(gateway) as socket:
        first = await socket.create("One")
        await socket.create("Two", previous_response_id=first["id"])
    assert asked == []
    async with connected(gateway) as socket:
        await socket.create("Two", previous_response_id=first["id"])
    assert asked == [first["id"]]


@pytest.mark.parametrize("fails", ["before its first event", "after it"])
async def test_a_continuation_that_fails_evicts_what_it_continued(
    gateway: GatewayUnderTest, engine: MockEngine, fails: str
) -> None:
    async with connected(gateway) as socket:
        first = await socket.create("One", store=False)
        if fails == "after it":
            engine.will(chunk({"content": "Hal"}))
            assert (await socket.create("Two", store=False, previous_response_id=first["id"]))["status"] == "failed"
        else:
            await socket.refused("Two", store=False, previous_response_id=first["id"], temperature=5)
        error = await socket.refused("Two", store=False, previous_response_id=first["id"])
        assert error["error"]["code"] == "previous_response_not_found"


async def test_a_conversation_continues_over_a_websocket(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    async with connected(gateway) as socket:
        await socket.create("One", conversation=conversation["id"])
        await socket.create("Two", conversation=conversation["id"], store=False)
    await gateway.create("Three", conversation=conversation["id"])
    assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]


# ---- the log ---------------------------------------------------------------------------------------------------------


def turns_logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [record.members for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]
    return [line for line in lines if line["method"] == "WEBSOCKET"]


async def test_the_log_has_a_line_for_each_request(gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    async with connected(gateway, headers={"x-request-id": "mine"}) as socket:
        response = await socket.create(flavour="sweet")
        await socket.refused(temperature=5)
    completed, rejected = turns_logged(caplog)
    assert (completed["request_id"], completed["path"], completed["status"]) == ("mine", "/v1/responses", 200)
    assert (completed["response_id"], completed["outcome"], completed["output_tokens"]) == (response["id"], "completed", 5)
    assert completed["notices"] == ["field flavour is unknown and was left out"]
    assert (rejected["status"], rejected["error"]) == (400, "decimal_above_max_value")
    assert "Hi" not in msgspec.json.encode([completed, rejected]).decode()
