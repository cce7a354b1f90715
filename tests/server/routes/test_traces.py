"""W3C Trace Context: what a client sends goes on to the engine, and nothing else does."""

import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

from antiphon.engines.affinity import headers_to_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = {"traceparent": PARENT, "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}
BODY = {"model": "mock", "input": "Hi"}


async def test_the_trace_of_a_client_goes_on_to_the_engine(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.post(BODY, headers=CONTEXT)
    assert CONTEXT.items() <= engine.headers[-1].items()


async def test_it_goes_on_from_a_websocket_and_where_a_request_is_passed_through(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    async with gateway.client.ws_connect(gateway.url + "/v1/responses", headers=CONTEXT) as socket:
        await socket.send_json({"type": "response.create", **BODY})
        while (await socket.receive_json())["type"] != "response.completed":
            pass
    assert CONTEXT.items() <= engine.headers[-1].items()
    chat = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
    await gateway.client.post(gateway.url + "/v1/chat/completions", json=chat, headers=CONTEXT)
    assert CONTEXT.items() <= engine.headers[-1].items()


async def test_the_next_request_of_a_connection_has_a_trace_of_its_own(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.post(BODY, headers=CONTEXT)
    await gateway.post(BODY)
    assert not CONTEXT.keys() & engine.headers[-1].keys()


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        PARENT + "-" + "x" * 1000,
        PARENT + "\r\nX-Evil: 1",
    ],
)
def test_what_is_no_trace_goes_nowhere(parent: str) -> None:
    assert headers_to_trace({"traceparent": parent, "tracestate": "rojo=1"}) == {}


def test_a_state_that_cannot_be_passed_on_is_left_out() -> None:
    for state in ("", "x" * 513, "é=1", "a=1\r\nX-Evil: 1"):
        assert headers_to_trace({"traceparent": PARENT, "tracestate": state}) == {"traceparent": PARENT}
