"""Nothing of a request stays in memory once it is answered."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from support.engine import MockEngine
from support.gateway import running_gateway
from support.raw_client import dialled, post

from antiphon.transport.fast.direct import DirectConnection
from antiphon.transport.internals import DirectRequest

BODY = b'{"model": "mock", "input": "Hi"}'
STREAMED = b'{"model": "mock", "input": "Hi", "stream": true}'


@pytest.mark.parametrize("body", [BODY, STREAMED], ids=["whole", "streamed"])
async def test_a_request_is_gone_without_the_garbage_collector(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    made: list[weakref.ref[DirectRequest]] = []
    gone = asyncio.Event()
    serve = DirectConnection._serve

    def served(connection: DirectConnection, request: DirectRequest, *more: Any) -> Any:
        made.append(weakref.ref(request, lambda _: gone.set()))
        return serve(connection, request, *more)

    monkeypatch.setattr(DirectConnection, "_serve", served)
    # Of the many objects of many tests it takes seconds, in which an engine would seem to be gone.
    gc.collect()
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        gc.disable()
        try:
            await client.send(post(body))
            assert b" 200 " in await client.reader.readuntil(b"\r\n")
            await client.reader.readuntil(b"\r\n0\r\n\r\n" if body is STREAMED else b"}}")
            async with asyncio.timeout(5):
                await gone.wait()
        finally:
            gc.enable()
