"""The bodies of engines' answers: none of them fills the memory, and none is waited for in vain."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from support.engine import chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_server import Answer, raw_server, sized

from antiphon.engines.bodies import LARGEST_DECOMPRESSED, LARGEST_ERROR, read_document, read_error
from antiphon.errors import EngineDisagrees

pytestmark = pytest.mark.timeout(100)

MODELS = sized(b'{"object": "list", "data": [{"id": "mock", "owned_by": "mock"}]}')
NOT_SIZED = b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def answered(*pieces: bytes, then_hangs: bool = True) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer of a server that sends these bytes."""
    hang = asyncio.Event()

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if then_hangs:
                await hang.wait()
            writer.close()

        return write

    async with raw_server(answer) as server, aiohttp.ClientSession() as session:
        async with session.get(server.url) as response:
            yield response
        hang.set()


async def test_an_error_that_does_not_end_is_read_as_far_as_it_comes() -> None:
    async with answered(NOT_SIZED, b"no", b" more") as response:
        assert await read_error(response, within=0.2) == b"no more"


async def test_of_a_large_error_only_the_beginning_is_read() -> None:
    async with answered(NOT_SIZED, *[b"x" * LARGEST_ERROR] * 3) as response:
        assert await read_error(response) == b"x" * LARGEST_ERROR


async def test_an_error_that_is_cut_off_is_read_as_far_as_it_came() -> None:
    cut = b"HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\nno"
    async with answered(cut, then_hangs=False) as response:
        assert await read_error(response) == b"no"


async def test_a_document_that_is_too_large_is_not_read() -> None:
    async with answered(NOT_SIZED, *[b"x" * 1000] * 3) as response:
        with pytest.raises(EngineDisagrees):
            await read_document(response, largest=2000)


async def test_a_document_that_comes_in_pieces_is_read_whole() -> None:
    async with answered(NOT_SIZED, *[b"x" * 1000] * 2, then_hangs=False) as response:
        assert await read_document(response, largest=2000) == b"x" * 2000


@asynccontextmanager
async def behind_a_proxy_that_compresses(body: bytes) -> AsyncIterator[GatewayUnderTest]:
    compressed = gzip.compress(body, 1)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"

    def answer(request: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if request.startswith(b"GET"):
                writer.write(MODELS if b" /v1/models " in request else sized(b"{}"))
            else:
                writer.write(head % len(compressed) + compressed)
            await writer.drain()

        return write

    async with raw_server(answer) as server, running_gateway(server.url) as gateway:
        yield gateway


@pytest.mark.usefixtures("both_transports")
async def test_a_compressed_answer_that_becomes_too_large_is_given_up() -> None:
    # An engine's own member may be as long as it likes: it is not what is too large here.
    padded = chunk({"content": "a"}, padding="0" * 2**20)
    bomb = padded * (LARGEST_DECOMPRESSED // len(padded) + 8)
    async with behind_a_proxy_that_compresses(bomb) as gateway:
        response = (await gateway.stream())[-1]["response"]
        assert response["status"] == "failed"
        assert "compressed answer" in response["error"]["message"]
        text = response["output"][0]["content"][0]["text"]
        assert len(text) * len(padded) <= LARGEST_DECOMPRESSED
