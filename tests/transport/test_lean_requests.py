"""What HTTP costs a request, counted and not timed."""

import asyncio
import gc
import sys
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.engine import MockEngine
from support.gateway import running_gateway
from support.raw_client import dialled, post

from antiphon.transport.fast.direct import DirectConnection
from antiphon.transport.internals import DirectRequest

BODY = b'{"model": "mock", "input": "Hi"}'
STREAMED = b'{"model": "mock", "input": "Hi", "stream": true}'
AIOHTTP = str(Path(aiohttp.__file__).parent)


async def test_few_functions_of_aiohttp_are_called_for_a_plain_request(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(AIOHTTP):
            called[frame.f_code.co_name] += 1

    begin, end = DirectConnection._begin, DirectConnection._end

    def begun(connection: DirectConnection, data: bytes) -> None:
        sys.setprofile(count)
        begin(connection, data)

    def ended(connection: DirectConnection, keeps: bool) -> None:
        end(connection, keeps)
        sys.setprofile(None)

    async with running_gateway(engine, transport="fast", api_key=("right",)) as gateway, dialled(gateway) as client:
        # No engine is asked, so nothing else is counted.
        await client.send(post(BODY))
        assert (await client.answer()).status == 401
        monkeypatch.setattr(DirectConnection, "_begin", begun)
        monkeypatch.setattr(DirectConnection, "_end", ended)
        await client.send(post(BODY))
        assert (await client.answer()).status == 401
    # Half of them are those of the test's own middleware, and of the answer.
    assert sum(called.values()) < 40, called


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
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        gc.collect()
        gc.disable()
        try:
            await client.send(post(body))
            await client.reader.readuntil(b"\r\n0\r\n\r\n" if body is STREAMED else b"}}")
            async with asyncio.timeout(5):
                await gone.wait()
        finally:
            gc.enable()
