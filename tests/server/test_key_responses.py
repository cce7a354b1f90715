"""How many responses a key may run at once."""

import asyncio
from typing import Any

import pytest
from support.background import held_back
from support.engine import CUT, MockEngine, Refusal, Writer, chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.ways_in import (
    ADA,
    BOB,
    KEYS,
    by_websocket,
    compacted,
    every_way_in,
    left,
    occupied,
    passed_through,
    posted,
    refusal_of,
    streamed,
    whole,
)

pytestmark = pytest.mark.timeout(60)


@every_way_in
async def test_one_response_more_than_a_key_may_run_is_refused(engine: MockEngine, way_in: Any) -> None:
    async with running_gateway(engine, api_key=KEYS, key_responses=1) as gateway:
        async with occupied(gateway, engine, ADA) as go_on:
            status, body, headers = await way_in(gateway, ADA)
            assert (*refusal_of(status, body), body["error"]["type"]) == (429, "rate_limit_exceeded", "rate_limit_error")
            assert int(headers["retry-after"]) >= 1
            assert body["error"]["message"].startswith(
                "This key may run 1 response at once, and no more. Try again when one has"
            )
            status, body, _ = await way_in(gateway, BOB)
            assert status == 200, body
            go_on.set()
        status, body, _ = await way_in(gateway, ADA)
        assert status == 200, body
        await left(gateway)


async def test_without_a_limit_nothing_is_refused_and_no_header_is_sent(gateway: GatewayUnderTest) -> None:
    answers = await asyncio.gather(*(whole(gateway, {}) for _ in range(20)))
    assert {status for status, _, _ in answers} == {200}
    assert not [name for _, _, headers in answers for name in headers if name.startswith("x-ratelimit")]


async def test_without_keys_all_clients_count_together(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway, occupied(gateway, engine, {}):
        assert (await whole(gateway, {}))[0] == 429


async def test_what_was_refused_did_not_reach_the_engine(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway, occupied(gateway, engine, {}):
        await whole(gateway, {})
        assert len(engine.requests) == 1


async def test_a_client_that_disconnects_frees_its_place(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1, engine_requests=1) as gateway:
        async with occupied(gateway, engine, {}):
            pass
        await left(gateway)
        assert (await whole(gateway, {}))[0] == 200


@pytest.mark.parametrize("wrong", [Refusal(500, {"error": {"message": "no"}}), Refusal(400, {"error": {"message": "no"}})])
async def test_a_failure_of_the_engine_frees_the_place(engine: MockEngine, wrong: Refusal) -> None:
    async with running_gateway(engine, key_responses=1, engine_requests=1, retries=0) as gateway:
        for way_in in (whole, streamed, passed_through, compacted, by_websocket):
            engine.will(wrong)
            assert (await way_in(gateway, {}))[0] in (400, 500, 502)
            await left(gateway)


async def test_an_answer_that_is_cut_frees_the_place(engine: MockEngine) -> None:
    async def cut(write: Writer) -> None:
        await write(chunk({"content": "Hel"}))
        await write(CUT)

    async with running_gateway(engine, key_responses=1, engine_requests=1, retries=0) as gateway:
        for way_in in (whole, streamed):
            engine.will(cut)
            await way_in(gateway, {})
            await left(gateway)


async def test_a_request_that_is_wrong_frees_the_place(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1, engine_requests=1) as gateway:
        wrong = ({"input": 5}, {"previous_response_id": "resp_none"}, {"background": True, "input": 5})
        for body in wrong:
            status, _, _ = await posted(gateway, "/v1/responses", {}, **({"model": "mock", "input": "Hi"} | body))
            assert status in (400, 404)
            await left(gateway)


async def test_a_shutdown_frees_every_place(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=2, engine_requests=1, shutdown_timeout=0.1) as gateway:
        held, _ = held_back("Hel", "lo")
        engine.will(held)
        requests = [asyncio.create_task(streamed(gateway, {})) for _ in range(2)]
        await engine.asked.wait()
    await left(gateway)
    await asyncio.gather(*requests, return_exceptions=True)
