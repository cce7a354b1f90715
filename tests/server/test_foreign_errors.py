"""What aiohttp rejects by itself, as clients see it: OpenAI's envelope, and no trace of what they sent."""

import gzip
import logging
import zlib

import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import dialled, get, post, sent

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]

HEADERS = b"Host: localhost\r\n"
CHUNKED = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
# What is sent → the status and the code of the answer.
NOT_HTTP = {
    "TLS": (b"\x16\x03\x01\x02\r\n\r\n", 400, "invalid_http"),
    "words": (b"FOO BAR / HTTP/1.1\r\n\r\n", 400, "invalid_http"),
    "an unknown method": (b"FROB /v1/models HTTP/1.1\r\n" + HEADERS + b"\r\n", 400, "invalid_http"),
    "another version": (b"GET / HTTP/3.0\r\n" + HEADERS + b"\r\n", 400, "invalid_http"),
    "HTTP/2 in the form of HTTP/1": (b"GET /health HTTP/2.0\r\n" + HEADERS + b"\r\n", 400, "invalid_http"),
    "HTTP/0.9 by its name": (b"GET /health HTTP/0.9\r\n" + HEADERS + b"\r\n", 400, "invalid_http"),
    "HTTP/0.9": (b"GET /health\r\n\r\n", 400, "invalid_http"),
    "a POST of HTTP/2 in the form of HTTP/1": (
        post(b"{}", b"Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/2.0"), 400, "invalid_http"
    ),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "invalid_http"),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400, "invalid_http"),
    "two hosts": (b"GET /health HTTP/1.1\r\n" + HEADERS * 2 + b"\r\n", 400, "invalid_http"),
    "a long line": (get(b"/" + b"x" * 20_000), 431, "headers_too_large"),
    "a long header": (get(b"/health", b"a: " + b"x" * 20_000), 431, "headers_too_large"),
    "many headers": (get(b"/health", *[b"a: b"] * 500), 400, "invalid_http"),
    "a header without a colon": (get(b"/health", b"api-key secret"), 400, "invalid_http"),
    "a broken length": (get(b"/health", b"Content-Length: -1"), 400, "invalid_http"),
    "two lengths": (post(b"{}", b"Transfer-Encoding: chunked"), 400, "invalid_http"),
    "a broken chunk": (CHUNKED + b"zz\r\n\r\n", 400, "invalid_http"),
    "a broken URL": (get(b"http://[::1/v1/models"), 400, "invalid_http"),
    "bytes in the path": (get(b"/v1/responses/\xff"), 400, "invalid_http"),
    "an unknown expectation": (post(b"{}", b"Expect: wonders"), 400, "invalid_request_error"),
    "gzip that is none": (post(b"{}", b"Content-Encoding: gzip"), 400, "invalid_body"),
    "deflate that is none": (post(b"{}", b"Content-Encoding: deflate"), 400, "invalid_body"),
    "half of a zlib stream": (post(zlib.compress(b"{}")[:5], b"Content-Encoding: deflate"), 400, "invalid_body"),
    "half of a gzip stream": (post(gzip.compress(b"{}")[:12], b"Content-Encoding: gzip"), 400, "invalid_json"),
    "an unknown coding": (post(b"{}", b"Content-Encoding: frob"), 415, "unsupported_content_encoding"),
    "two codings": (post(b"{}", b"Content-Encoding: gzip, gzip"), 415, "unsupported_content_encoding"),
    "a WebSocket with a broken key": (
        get(
            b"/v1/responses", b"Connection: upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: \xff",
        ), 426, "upgrade_required",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_whatever_is_sent_the_error_is_json(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    data, status, code = NOT_HTTP[name]
    answer = await sent(gateway, data)
    error = answer.json["error"]
    assert (answer.status, error["code"] or error["type"]) == (status, code)
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["x-should-retry"] == "false"
    assert "secret" not in error["message"]
    logged = [vars(record) for record in caplog.records]
    assert answer.headers["x-request-id"] in {line.get("members", {}).get("request_id") for line in logged}
    # Not even a client that sends its key in the wrong place has it in the log, or a trace of our code.
    assert not any("secret" in str(line) or line["exc_info"] for line in logged)


@pytest.mark.parametrize("version", [b"2.0", b"0.9"])
async def test_the_answer_to_another_version_is_in_a_known_one(gateway: GatewayUnderTest, version: bytes) -> None:
    async with dialled(gateway) as client:
        await client.send(get(b"/health").replace(b"HTTP/1.1", b"HTTP/" + version))
        assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        # What is spoken is.
        async with dialled(gateway) as other:
            await other.send(get(b"/health").replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert (await other.rest()).startswith(b"HTTP/1.0 200 OK\r\n")


@pytest.mark.parametrize("key", [b"\xff", b"\xed\xa0\x80", "ключ".encode(), b"\xf0\x9f\x94"])
async def test_a_key_of_any_bytes_is_a_401(engine: MockEngine, key: bytes) -> None:
    async with running_gateway(engine, api_key=("k",)) as gateway:
        for header in (b"Authorization: Bearer " + key, b"api-key: " + key):
            answer = await sent(gateway, get(b"/v1/models", header))
            assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_api_key")


BROKEN_LATER = {
    "no chunk": (CHUNKED, b"zz\r\n"),
    "no chunk after a good one": (CHUNKED + b"2\r\n{}\r\n", b"zz\r\n"),
    "no gzip": (post(b"{}", b"Content-Encoding: gzip")[:-2], b"{}"),
    "no deflate": (post(b"{}", b"Content-Encoding: deflate")[:-2], b"{}"),
}


@pytest.mark.parametrize("name", BROKEN_LATER)
async def test_a_body_that_breaks_after_its_head_is_a_400_at_once(gateway: GatewayUnderTest, name: str) -> None:
    head, rest = BROKEN_LATER[name]
    async with dialled(gateway) as client:
        # With the question whether to go on, so that the head has been read when the rest is sent.
        await client.send(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(rest)
        answer = await client.answer()
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_body")
        assert await client.rest() == b""


async def test_bodies_in_gzip_and_deflate_are_read(gateway: GatewayUnderTest) -> None:
    body = b'{"model": "mock", "input": "Hi"}'
    for coding, coded in ((b"gzip", gzip.compress(body)), (b"deflate", zlib.compress(body)), (b"identity", body)):
        answer = await sent(gateway, post(coded, b"Content-Encoding: " + coding))
        assert answer.status == 200, answer
        assert answer.json["status"] == "completed"


async def test_a_compressed_body_counts_with_its_whole_size(engine: MockEngine) -> None:
    async with running_gateway(engine, max_body_bytes=100_000) as gateway:
        answer = await sent(gateway, post(gzip.compress(b" " * 10_000_000), b"Content-Encoding: gzip"))
        assert (answer.status, answer.json["error"]["code"]) == (413, "request_too_large")
