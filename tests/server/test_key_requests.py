"""How many requests a key may send in a minute."""

from typing import Any

import pytest
from msgspec import structs
from support.background import Background
from support.engine import MockEngine
from support.gateway import DEFAULTS, running_gateway
from support.sockets import connected
from support.ways_in import ADA, BOB, KEYS, every_way_in, occupied, passed_through, posted, refusal_of, streamed, whole

from antiphon.settings.settings import Settings

pytestmark = pytest.mark.timeout(60)


@every_way_in
async def test_one_request_more_than_a_minute_allows_is_refused(engine: MockEngine, way_in: Any) -> None:
    async with running_gateway(engine, api_key=KEYS, key_requests_per_minute=2) as gateway:
        assert [(await way_in(gateway, ADA))[0] for _ in range(2)] == [200, 200]
        status, body, headers = await way_in(gateway, ADA)
        assert refusal_of(status, body) == (429, "rate_limit_exceeded")
        # The next one is possible when half of the minute has passed since the first.
        assert 1 <= int(headers["retry-after"]) <= 30
        assert f"in {headers['retry-after']} seconds" in body["error"]["message"]
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] == "0"
        assert headers["x-ratelimit-reset-requests"]
        assert (await way_in(gateway, BOB))[0] == 200


async def test_every_answer_says_how_many_requests_remain(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=KEYS, key_requests_per_minute=10) as gateway:
        for way_in, remaining in ((whole, 9), (streamed, 8), (passed_through, 7)):
            _, _, headers = await way_in(gateway, ADA)
            assert headers["x-ratelimit-limit-requests"] == "10"
            assert headers["x-ratelimit-remaining-requests"] == str(remaining)
        async with gateway.client.get(gateway.url + "/v1/models", headers=ADA) as answer:
            assert answer.headers["x-ratelimit-remaining-requests"] == "7"
        async with gateway.client.get(gateway.url + "/v1/models", headers=BOB) as answer:
            assert answer.headers["x-ratelimit-remaining-requests"] == "10"
            assert answer.headers["x-ratelimit-reset-requests"] == "0ms"


async def test_a_background_response_counts_when_it_is_created_and_not_when_it_is_fetched(engine: MockEngine) -> None:
    async with running_gateway(engine, key_requests_per_minute=1) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        assert (await background.ended(id))["status"] == "completed"
        status, body, _ = await posted(gateway, "/v1/responses", {}, model="mock", input="Hi", background=True)
        assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")


async def test_a_websocket_stays_open_after_a_refusal(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway, connected(gateway) as socket:
        async with occupied(gateway, engine, {}) as go_on:
            await socket.send()
            assert (await socket.event())["error"]["code"] == "rate_limit_exceeded"
            go_on.set()
        await socket.create()


async def test_new_limits_count_without_a_restart(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        settings = Settings(**(DEFAULTS | {"upstream": (engine.url,), "port": 0}))
        await gateway.reload(structs.replace(settings, key_requests_per_minute=1, max_input_items=1))
        body = {"model": "mock", "input": [{"role": "user", "content": "Hi"}] * 2}
        status, answer = await gateway.post(body)
        assert (status, answer["error"]["param"]) == (400, "input")
        status, answer = await gateway.post(body)
        assert (status, answer["error"]["code"]) == (429, "rate_limit_exceeded")
