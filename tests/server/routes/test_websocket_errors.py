"""Errors over a WebSocket, which stays open."""

import pytest
from support.engine import CUT, MockEngine, Refusal, Writer, chunk
from support.gateway import GatewayUnderTest
from support.sockets import connected

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]


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
