"""The events of a response over a WebSocket, frame by frame."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from support.engine import MockEngine, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected, to_the_end

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


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
    await gateway.gateway.in_flight.drain(30)
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
