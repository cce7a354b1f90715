"""The choice among several engines."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest_asyncio
from support.engine import MockEngine
from support.gateway import running_gateway


@pytest_asyncio.fixture
async def engines() -> AsyncIterator[list[MockEngine]]:
    started = [MockEngine() for _ in range(3)]
    for engine in started:
        await engine.start()
    yield started
    for engine in started:
        await engine.stop()


async def test_a_conversation_stays_with_its_engine(engines: list[MockEngine]) -> None:
    async with running_gateway(*engines) as gateway:
        for key in ("a", "b", "c", "d", "e", "f", "g", "h"):
            for _ in range(3):
                await gateway.create(key, prompt_cache_key=key)
    seen = [Counter(body["messages"][0]["content"] for body in engine.requests) for engine in engines]
    assert sum(len(counts) for counts in seen) == 8, "each conversation is on one engine only"
    assert sum(1 for counts in seen if counts) > 1, "and they are spread"


async def test_without_a_key_the_engines_alternate(engines: list[MockEngine]) -> None:
    async with running_gateway(*engines) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        for _ in range(6):
            await gateway.create()
    assert {len(engine.requests) for engine in engines} <= {2, 3}


async def test_the_model_chooses_the_engine(engines: list[MockEngine]) -> None:
    engines[1]._models["data"][0]["id"] = "other"
    async with running_gateway(*engines) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        for _ in range(4):
            await gateway.create(model="other")
    assert [len(engine.requests) for engine in engines] == [0, 4, 0]


async def test_a_model_of_an_engine_that_is_away_is_not_requested_from_another(engines: list[MockEngine]) -> None:
    engines[1]._models["data"][0]["id"] = "other"
    async with running_gateway(*engines[:2], retries=0) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        port = int(engines[1].url.rpartition(":")[2])
        await engines[1].stop()
        for _ in range(2):
            status, _body = await gateway.post({"model": "other", "input": "Hi"})
            assert status == 503
        assert engines[0].requests == []
        await engines[1].start(port)
        assert (await gateway.create(model="other"))["output_text"] == "Hello world"


async def test_another_engine_takes_over_when_one_is_gone(engines: list[MockEngine]) -> None:
    async with running_gateway(*engines, retries=0) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        await engines[0].stop()
        await engines[1].stop()
        for _ in range(3):
            await gateway.create()
    assert len(engines[2].requests) == 3


async def test_engines_are_examined_for_a_model_at_the_same_time(engines: list[MockEngine]) -> None:
    together = asyncio.Barrier(len(engines))

    async def examine(*_: object) -> None:
        async with asyncio.timeout(5):
            await together.wait()

    async with running_gateway(*engines) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
            engine.when_asked_for = examine
        assert (await gateway.create())["status"] == "completed"
