"""Bodies that are larger than `max_body_bytes`: refused as soon as that is known, in an answer that the client gets to see."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import RawAnswer, RawClient, dialled, get, post

from antiphon.app.options import Intervals

# Far below the deadlines of the gateway, which are minutes here.
pytestmark = pytest.mark.usefixtures("both_transports")

MOST = 10_000
LATE = 600.0
ROUTES = (
    b"/v1/responses",
    b"/v1/responses/compact",
    b"/v1/responses/input_tokens",
    b"/v1/conversations",
    b"/v1/conversations/conv_1",
    b"/v1/conversations/conv_1/items",
    b"/v1/chat/completions",
    b"/v1/completions",
    b"/v1/embeddings",
    b"/openai/deployments/mock/chat/completions",
)


@pytest_asyncio.fixture
async def small(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    intervals = Intervals(linger=LATE)
    async with running_gateway(engine, max_body_bytes=MOST, body_timeout=LATE, intervals=intervals) as gateway:
        yield gateway


def head(*headers: bytes, path: bytes = b"/v1/responses") -> bytes:
    return b"\r\n".join([b"POST %b HTTP/1.1" % path, b"Host: localhost", *headers]) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def check_refusal(answer: RawAnswer) -> None:
    assert (answer.status, answer.json["error"]["code"]) == (413, "request_too_large")
    assert answer.json["error"]["message"] == f"The body is larger than {MOST} bytes."
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-should-retry"] == "false"


async def refused(client: RawClient) -> None:
    """And nothing else: not even the question to go on."""
    check_refusal(await client.answer())
    assert await client.rest() == b""


@pytest.mark.parametrize("path", ROUTES)
async def test_a_length_above_the_limit_is_a_413_before_the_body(small: GatewayUnderTest, path: bytes) -> None:
    async with dialled(small) as client:
        await client.send(head(b"Content-Length: 1000000000000", path=path))
        await refused(client)


@pytest.mark.parametrize("path", ROUTES)
async def test_a_chunked_body_is_a_413_as_soon_as_it_exceeds_the_limit(small: GatewayUnderTest, path: bytes) -> None:
    async with dialled(small) as client:
        await client.send(head(b"Transfer-Encoding: chunked", path=path) + chunk(b" " * MOST) + chunk(b" "))
        await refused(client)


async def test_a_compressed_body_is_too(small: GatewayUnderTest) -> None:
    async with dialled(small) as client:
        coded = gzip.compress(b" " * 100 * MOST)
        assert len(coded) < MOST
        await client.send(head(b"Content-Encoding: gzip", b"Content-Length: %d" % MOST) + coded)
        await refused(client)


async def test_a_client_that_asks_whether_to_go_on_is_not_asked_for_the_body(small: GatewayUnderTest) -> None:
    async with dialled(small) as client:
        await client.send(head(b"Content-Length: %d" % (MOST + 1), b"Expect: 100-continue"))
        await refused(client)


@pytest.mark.parametrize("coding", [b"Content-Length: 1000000000", b"Transfer-Encoding: chunked"])
async def test_a_client_that_sends_all_of_it_first_gets_the_answer(small: GatewayUnderTest, coding: bytes) -> None:
    """Much more than fits into the buffers between them, and all of it before it reads."""
    async with dialled(small) as client:
        await client.send(head(coding) + chunk(b" " * MOST))
        for _ in range(300):
            await client.send(chunk(b" " * 100_000))
        await refused(client)


async def test_a_client_that_never_ends_its_body_is_cut_off(engine: MockEngine) -> None:
    intervals = Intervals(linger=0.5)
    async with running_gateway(engine, max_body_bytes=MOST, intervals=intervals) as gateway, dialled(gateway) as client:
        await client.send(head(b"Content-Length: 1000000000"))
        check_refusal(await client.answer())
        with pytest.raises(ConnectionError):
            await send_on(client)


async def send_on(client: RawClient) -> None:
    while True:
        await client.send(b" " * 1000)
        await asyncio.sleep(0)


async def test_what_follows_a_refused_body_is_not_taken_for_a_request(small: GatewayUnderTest) -> None:
    async with dialled(small) as client:
        await client.send(head(b"Content-Length: %d" % (MOST + 1)) + b" " * (MOST + 1) + get(b"/health"))
        await refused(client)


async def test_a_body_of_just_the_limit_is_read(small: GatewayUnderTest) -> None:
    async with dialled(small) as client:
        for _ in range(2):
            await client.send(post(b'{"model": "mock", "input": "Hi"}'.ljust(MOST)))
            assert (await client.answer()).status == 200
