"""What is no chunk in the middle of a stream ends the response at once, however long the engine keeps the connection open."""

import asyncio

import pytest
from support.engine import MockEngine, Script, Writer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_server import CHUNKED, Answer, chunked, raw_server, sized
from support.sockets import connected

from antiphon.core.stream.frames import LARGEST_FRAME

# A response that waits for the idle timer takes 300 seconds.
pytestmark = [pytest.mark.usefixtures("both_transports"), pytest.mark.timeout(100)]

MODELS = b'{"object": "list", "data": [{"id": "mock", "owned_by": "mock"}]}'


def frame(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


UNREADABLE = {
    "broken JSON": frame(b'{"choices":[{"index":0,"delta":{"content":"b"'),
    "no JSON": frame(b"oops"),
    "a list": frame(b"[1]"),
    "a number": frame(b"7"),
    "null": frame(b"null"),
    "choices that are no list": frame(b'{"choices":{}}'),
    "content that is a number": frame(b'{"choices":[{"index":0,"delta":{"content":7}}]}'),
    "a call that is a text": frame(b'{"choices":[{"index":0,"delta":{"tool_calls":["f"]}}]}'),
    "an index that is a text": frame(b'{"choices":[{"index":"0","delta":{"content":"b"}}]}'),
    "usage that is a text": frame(b'{"choices":[],"usage":"12"}'),
    "invalid UTF-8": frame(b'{"choices":[{"index":0,"delta":{"content":"\xff"}}]}'),
    "half of a surrogate pair": frame(b'{"choices":[{"index":0,"delta":{"content":"\\ud800"}}]}'),
    "nested too deeply": frame(b'{"choices":' + b"[" * 100_000),
    "an error nested too deeply": frame(b'{"message":' + b'{"a":' * 990 + b"1" + b"}" * 991),
    "an annotation nested too deeply": frame(
        b'{"choices":[{"index":0,"delta":{"annotations":[{"a":' + b'{"a":' * 90 + b"1" + b"}" * 91 + b"]}}]}"
    ),
    "a page": b"<html><body>502 Bad Gateway</body></html>\n",
    "binary garbage": bytes(range(128, 256)) + b"\n",
}


def hangs_after(*pieces: bytes) -> Script:
    async def script(write: Writer) -> None:
        for piece in pieces:
            await write(piece)
        await asyncio.Event().wait()

    return script


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_is_no_chunk_fails_a_stream_at_once(
    gateway: GatewayUnderTest, engine: MockEngine, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine.will(hangs_after(chunk({"content": "a"}), UNREADABLE[name]))
    response = (await gateway.stream())[-1]["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert "not one of Chat Completions" in response["error"]["message"] or "The engine failed" in response["error"]["message"]
    assert [(item["status"], item["content"][0]["text"]) for item in response["output"]] == [("incomplete", "a")]
    # The connection is closed, and nothing was a bug.
    await engine.cancelled.wait()
    assert not [record for record in caplog.records if record.exc_info]


async def test_it_is_a_502_where_nothing_is_streamed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(hangs_after(chunk({"content": "a"}), UNREADABLE["broken JSON"]))
    status, body = await gateway.post({"input": "Hi"})
    assert (status, body["error"]["code"]) == (502, "engine_answer_not_understood")
    await engine.cancelled.wait()


async def test_it_fails_a_response_on_a_websocket_and_the_next_one_is_answered(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(hangs_after(chunk({"content": "a"}), UNREADABLE["a page"]), text("b"))
    async with connected(gateway) as socket:
        assert (await socket.create())["status"] == "failed"
        assert (await socket.create())["output"][0]["content"][0]["text"] == "b"
    await engine.cancelled.wait()


@pytest.mark.parametrize("name", ["broken JSON", "a page", "usage that is a text"])
async def test_an_answer_that_is_finished_stays_so_and_nothing_more_is_waited_for(
    gateway: GatewayUnderTest, engine: MockEngine, name: str
) -> None:
    engine.will(hangs_after(chunk({"content": "a"}), chunk(finish="stop"), UNREADABLE[name]))
    response = (await gateway.stream())[-1]["response"]
    assert (response["status"], response["output"][0]["content"][0]["text"]) == ("completed", "a")
    await engine.cancelled.wait()


async def test_a_frame_that_is_too_large_fails_the_response(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    piece = b"x" * 2**20
    engine.will(hangs_after(chunk({"content": "a"}), b"data: ", *[piece] * (LARGEST_FRAME // len(piece) + 1)))
    response = (await gateway.stream())[-1]["response"]
    assert response["error"]["message"] == "The engine sent a frame that does not end."
    await engine.cancelled.wait()


async def test_what_engines_really_send_between_chunks_is_no_failure(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    odd = b": ping\n\n\n\nevent: x\nid: 1\nretry: 5\n\ndata:\n\ndata: \n\n:\n \nodd\n\n"
    engine.will(odd + chunk({"content": "a"}) + odd + chunk(finish="stop") + odd + b"data: [DONE]\n\n")
    assert (await gateway.create())["output_text"] == "a"


BROKEN_BODIES = {
    "a size that is no number": b"zz\r\nxx\r\n",
    "a size that is no hexadecimal number": b"1g\r\nxx\r\n",
    "a size that is too small": b"1\r\nabcdef\r\n",
}


@pytest.mark.parametrize("name", BROKEN_BODIES)
async def test_a_body_that_is_no_http_fails_the_response_without_a_trace(name: str, caplog: pytest.LogCaptureFixture) -> None:
    first = chunk({"content": "a"})
    seen = asyncio.Event()

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if head.startswith(b"GET"):
                writer.write(sized(MODELS) if head.startswith(b"GET /v1/models") else sized(b"{}"))
                return
            writer.write(CHUNKED + chunked(first)[:-5])
            await seen.wait()
            writer.write(BROKEN_BODIES[name])

        return write

    async with raw_server(answer) as server, running_gateway(server.url) as gateway:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
            raw = await answered.content.readuntil(b"output_text.delta")
            seen.set()
            raw += await answered.content.read()
    assert b"event: response.failed" in raw
    assert raw.endswith(b"data: [DONE]\n\n")
    assert not [record for record in caplog.records if record.exc_info]
