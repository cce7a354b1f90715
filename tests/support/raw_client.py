"""A client of the gateway whose every byte the test writes itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from support.gateway import GatewayUnderTest

HEAD = b"HTTP/1.1 "


class RawAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"].startswith("application/json"), self
        return msgspec.json.decode(self.body)


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> RawAnswer:
        """The next one, which has a length."""
        status, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return RawAnswer(int(status.split()[1]), headers, body)

    async def rest(self) -> bytes:
        """All that comes until the gateway closes the connection."""
        return await self.reader.read()


@asynccontextmanager
async def dialled(gateway: GatewayUnderTest) -> AsyncIterator[RawClient]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()


async def sent(gateway: GatewayUnderTest, data: bytes) -> RawAnswer:
    """The answer to these bytes."""
    async with dialled(gateway) as client:
        await client.send(data)
        return await client.answer()


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/responses") -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, b"Host: localhost", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(path: bytes, *headers: bytes, host: bytes = b"localhost") -> bytes:
    return b"\r\n".join([b"GET %b HTTP/1.1" % path, b"Host: %b" % host, *headers]) + b"\r\n\r\n"
