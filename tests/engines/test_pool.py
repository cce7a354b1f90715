"""The choice among several engines."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator

import pytest_asyncio
from support.engine import MockEngine, Writer, text
from support.gateway import running_gateway

from antiphon.engines.affinity import ROUTING_HEADERS


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


async def test_a_conversation_stays_where_it_began_however_it_is_continued(engines: list[MockEngine]) -> None:
    async with running_gateway(*engines) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        for at in range(8):
            first = await gateway.create(f"Question {at}", instructions="Be brief.")
            await gateway.create("More", previous_response_id=first["id"], instructions="Be brief.")
            sent = [{"role": "user", "content": [{"type": "input_text", "text": f"Question {at}"}]}, *first["output"]]
            await gateway.create([*sent, {"role": "user", "content": "More"}], instructions="Be brief.")
    seen = [Counter(body["messages"][1]["content"] for body in engine.requests) for engine in engines]
    assert sorted(count for counts in seen for count in counts.values()) == [3] * 8
    assert sum(1 for counts in seen if counts) > 1, "and they are spread"


async def test_without_affinity_the_engines_take_turns(engines: list[MockEngine]) -> None:
    async with running_gateway(*engines, affinity=False) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        for _ in range(6):
            await gateway.create(prompt_cache_key="the same")
    assert [len(engine.requests) for engine in engines] == [2, 2, 2]


async def test_a_hot_key_does_not_drown_its_engine(engines: list[MockEngine]) -> None:
    """Thirty requests at once: they are counted before the first of them has asked."""
    all_asked = asyncio.Barrier(30)

    async def answers(write: Writer) -> None:
        async with asyncio.timeout(20):
            await all_asked.wait()
        await write(text("Hello"))

    for mock in engines:
        mock.otherwise = lambda body: answers
    async with running_gateway(*engines) as gateway:
        for engine in gateway.gateway.pool.engines:
            await engine.identify()
        await asyncio.gather(*(gateway.create(prompt_cache_key="hot") for _ in range(30)))
        admission = gateway.gateway.admission
        assert [admission.engines.in_flight(engine) for engine in gateway.gateway.pool.engines] == [0, 0, 0]
    # At most 1.25 times its share, and one more for the rounding.
    assert max(len(engine.requests) for engine in engines) <= 13
    assert min(len(engine.requests) for engine in engines) >= 4


async def test_an_engine_that_is_not_healthy_is_asked_last(engines: list[MockEngine]) -> None:
    async with running_gateway(*engines, health_interval=0) as gateway:
        pool = gateway.gateway.pool
        for engine in pool.engines:
            await engine.identify()
        pool.engines[0].unhealthy = "no answer in time"
        for at in range(12):
            chosen = await pool.choose("mock", f"key {at}")
            assert chosen.engines[-1] is pool.engines[0]
            assert len(chosen.engines) == 3
        pool.engines[0].unhealthy = None
        assert {(await pool.choose("mock", f"key {at}")).engines[0] for at in range(50)} == set(pool.engines)


async def test_the_key_of_a_conversation_is_sent_as_a_digest(engine: MockEngine) -> None:
    key = "user 7\r\nX-Evil: 1 ünïcode"
    async with running_gateway(engine) as gateway:
        await gateway.create(prompt_cache_key=key)
        await gateway.create(prompt_cache_key=key)
        await gateway.create(prompt_cache_key="another")
    sent = [[headers.get(name) for name in ROUTING_HEADERS] for headers in engine.headers]
    assert sent[0] == sent[1] != sent[2]
    assert len(set(sent[0])) == 1
    assert re.fullmatch("[0-9a-f]{32}", str(sent[0][0]))


async def test_two_owners_have_different_keys(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": ("a",), "bob": ("b",)}) as gateway:
        for key in ("a", "b"):
            headers = {"Authorization": f"Bearer {key}"}
            assert (await gateway.post({"model": "mock", "input": "Hi"}, headers=headers))[0] == 200
    first, second = (headers[ROUTING_HEADERS[0]] for headers in engine.headers)
    assert first != second


async def test_the_key_is_not_sent_if_it_is_not_wanted(engine: MockEngine) -> None:
    async with running_gateway(engine, routing_headers=False) as gateway:
        await gateway.create()
    assert not {name.lower() for name in engine.headers[0]} & {name.lower() for name in ROUTING_HEADERS}


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
