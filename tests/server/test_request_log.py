"""One line of the log for each response, however it was asked for: its model, its tokens and its times."""

import asyncio
import logging
from typing import Any

import pytest
from support.engine import MockEngine, Writer, chunk, text
from support.gateway import GatewayUnderTest
from support.raw_websocket import frame, raw_socket


def lines(caplog: pytest.LogCaptureFixture, event: str = "request") -> list[dict[str, Any]]:
    return [record.members for record in caplog.records if record.message == event]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon")


def is_whole(line: dict[str, Any]) -> bool:
    """It has all that is to be known of a response."""
    assert line["model"] == "mock"
    assert line["outcome"] == "completed"
    assert (line["input_tokens"], line["output_tokens"]) == (12, 5)
    assert 0 <= line["first_output_seconds"] <= line["seconds"]
    return True


@pytest.mark.usefixtures("both_transports")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_over_http_has_a_line(
    stream: bool, gateway: GatewayUnderTest, engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    if stream:
        await gateway.stream("Hi")
    else:
        await gateway.create("Hi")
    (line,) = lines(caplog)
    assert is_whole(line)
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/responses", 200)


async def test_a_response_on_a_websocket_has_a_line_of_its_own(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway.client.ws_connect(gateway.url + "/v1/responses") as socket:
        await socket.send_json({"type": "response.create", "model": "mock", "input": "Hi"})
        while (await socket.receive_json())["type"] != "response.completed":
            pass
    while not lines(caplog):
        await gateway.get("/health")
    line = lines(caplog)[0]
    assert is_whole(line)
    assert (line["method"], line["status"]) == ("WEBSOCKET", 200)


CLOSE_FRAME = bytes((0x88, 0x82)) + bytes(4) + (1000).to_bytes(2, "big")


@pytest.mark.usefixtures("both_transports")
@pytest.mark.parametrize("last", [CLOSE_FRAME, b""], ids=["a close frame", "nothing"])
async def test_a_client_that_closes_a_websocket_on_which_it_waits_for_nothing_has_ended_it(
    last: bytes, gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    """Some wait for no closing frame of the gateway, and some, like Codex, send none."""
    await asyncio.to_thread(_open_and_leave, gateway, last)
    assert (await _websocket_line(gateway, caplog))["status"] == 101


@pytest.mark.usefixtures("both_transports")
async def test_a_client_that_closes_a_websocket_in_the_middle_of_an_answer_has_left(
    gateway: GatewayUnderTest, engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def endless(write: Writer) -> None:
        asked.set()
        await asyncio.Event().wait()

    engine.will(text("Hello"), endless)
    create = b'{"type": "response.create", "model": "mock", "input": "Hi"}'
    with raw_socket(gateway) as client:
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, frame(0x81, create) * 2)
        await asked.wait()
    assert (await _websocket_line(gateway, caplog))["status"] == 499
    assert [line["status"] for line in lines(caplog) if line["method"] == "WEBSOCKET"] == [200, 499]


@pytest.mark.usefixtures("both_transports")
async def test_a_websocket_that_both_sides_close_is_no_client_that_left(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway.client.ws_connect(gateway.url + "/v1/responses") as socket:
        await socket.send_json({"type": "response.create", "model": "mock", "input": "Hi"})
        while (await socket.receive_json())["type"] != "response.completed":
            pass
        await socket.close()
    assert (await _websocket_line(gateway, caplog))["status"] == 101


def _open_and_leave(gateway: GatewayUnderTest, last: bytes) -> None:
    with raw_socket(gateway) as client:
        while not client.recv(4096).endswith(b"\r\n\r\n"):
            pass
        client.sendall(last)


async def _websocket_line(gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    while not (found := [line for line in lines(caplog) if (line["method"], line["path"]) == ("GET", "/v1/responses")]):
        await gateway.get("/health")
    return found[0]


async def test_a_background_response_has_a_line_of_its_own(gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    await gateway.stream("Hi", background=True, store=True)
    while not lines(caplog, "background"):
        await gateway.get("/health")
    (line,) = lines(caplog, "background")
    assert is_whole(line)
    assert line["attempt"] == 1


async def test_the_first_output_is_when_there_is_something_to_read(
    gateway: GatewayUnderTest, engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine that begins its answer with a role has not said anything yet."""
    seen: list[float] = []

    async def slow(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}))
        while not gateway.gateway.in_flight.runs:
            await gateway.get("/health")
        (run,) = gateway.gateway.in_flight.runs
        while run.reads == 0:
            await gateway.get("/health")
        assert run.first_output is None
        seen.append(asyncio.get_running_loop().time() - run.arrived)
        await write(text("Hello"))

    engine.will(slow)
    await gateway.stream("Hi")
    (line,) = [line for line in lines(caplog) if line["path"] == "/v1/responses"]
    assert line["first_output_seconds"] >= round(seen[0], 4)


async def test_what_was_refused_has_no_first_output(gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    async with gateway.client.post(gateway.url + "/v1/responses", json={"model": 3}) as answer:
        assert answer.status == 400
    (line,) = lines(caplog)
    assert "first_output_seconds" not in line
    assert line["error"] == "invalid_type"


async def test_what_is_asked_again_and_again_is_logged_only_for_debugging(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "antiphon")
    for path in ("/health", "/inspector/engines", "/v1/models"):
        await gateway.get(path)
    levels = {record.members["path"]: record.levelname for record in caplog.records if record.message == "request"}  # type: ignore[attr-defined]
    assert levels == {"/health": "DEBUG", "/inspector/engines": "DEBUG", "/v1/models": "INFO"}


async def test_a_request_that_is_passed_through_names_its_model(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        await answer.read()
    (line,) = lines(caplog)
    assert (line["path"], line["model"], line["status"]) == ("/v1/chat/completions", "mock", 200)
