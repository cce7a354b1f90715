"""Models and readiness."""

import pytest
from support.engine import MockEngine, Refusal
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.app.options import Intervals
from antiphon.core.knowledge.knowledge import Loading
from antiphon.engines.embedded.process import SharedEngineProcess
from bench.processes import free_port


@pytest.mark.usefixtures("without_embeddings")
async def test_models_are_listed_as_by_openai(gateway: GatewayUnderTest) -> None:
    async with gateway.client.get(gateway.url + "/v1/models") as answer:
        listed = await answer.json()
    assert listed["object"] == "list"
    assert listed["data"] == [{"id": "mock", "object": "model", "created": 0, "owned_by": "mock"}]
    assert [model["slug"] for model in listed["models"]] == ["mock"]
    async with gateway.client.get(gateway.url + "/v1/models/mock") as answer:
        assert (await answer.json())["id"] == "mock"
    async with gateway.client.get(gateway.url + "/v1/models/org/none") as answer:
        assert answer.status == 404
        assert (await answer.json())["error"]["code"] == "model_not_found"


async def test_ready_lists_the_engines(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with gateway.client.get(gateway.url + "/ready") as answer:
        assert await answer.json() == {
            "status": "ready",
            "engines_ready": 1,
            "engines_total": 1,
            "engines": [{"url": engine.url, "status": "ready", "dialect": "plain", "models": ["mock"]}],
        }


KEY = {"Authorization": "Bearer client-key"}


async def test_ready_says_why_an_engine_is_not(engine: MockEngine) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    busy = MockEngine()
    await busy.start()
    busy.list_answer = Refusal(503, {})
    async with running_gateway(engine, gone, busy) as gateway:
        await gateway.gateway.pool.identify()
        status, body = await gateway.get("/ready")
    await busy.stop()
    assert (status, body["engines_ready"], body["engines_total"]) == (200, 1, 3)
    assert body["engines"][1:] == [
        {"url": gone, "status": "not ready", "reason": "It does not answer."},
        {"url": busy.url, "status": "not ready", "reason": "It is not ready yet (HTTP 503). It may be loading its model."},
    ]


async def test_a_gateway_that_loads_its_model_says_which_and_how_far_it_is() -> None:
    shared = SharedEngineProcess("pebble", f"http://127.0.0.1:{free_port()}", "key", Loading("pebble"))
    async with running_gateway(embedded=shared, api_key=("client-key",)) as gateway:
        shared.progressed(Loading("pebble", "downloading", 45, 100))
        status, body = await gateway.get("/ready", headers=KEY)
        assert (status, gateway.headers["Retry-After"]) == (503, "1")
        assert body["error"]["message"] == "The embedded engine is downloading pebble: 45 %."
        (engine,) = body["engines"]
        assert (engine["status"], engine["reason"]) == ("not ready", "It is downloading pebble: 45 %.")
        known = {"model": "pebble", "stage": "downloading", "done": 45, "total": 100, "failures": 0, "reason": None}
        assert engine["loading"] == known
        status, body = await gateway.get("/inspector/engines", headers=KEY)
        assert body["engines"][0]["why_not"] == "it is downloading pebble: 45 %"
        status, body = await gateway.get("/ready")
        assert (status, body["error"]["message"], "engines" in body) == (503, "No engine is ready (0 of 1).", False)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
async def test_without_a_key_ready_says_nothing_of_the_engines_but_their_number(
    engine: MockEngine, headers: dict[str, str]
) -> None:
    async with running_gateway(engine, api_key=("client-key",)) as gateway:
        status, body = await gateway.get("/ready", headers=headers)
        assert (status, body) == (200, {"status": "ready", "engines_ready": 1, "engines_total": 1})
        status, body = await gateway.get("/ready", headers=KEY)
        assert (status, body["engines"][0]["url"]) == (200, engine.url)


async def test_without_a_key_nothing_is_said_of_an_engine_that_is_not_ready(engine: MockEngine) -> None:
    engine.list_answer = Refusal(401, {})
    async with running_gateway(engine, api_key=("client-key",), intervals=Intervals(engine_retry=600)) as gateway:
        status, body = await gateway.get("/ready")
        assert (status, body["error"]["message"]) == (503, "No engine is ready (0 of 1).")
        assert int(gateway.headers["Retry-After"]) >= 1
        status, body = await gateway.get("/ready", headers=KEY)
        assert status == 503
        assert engine.url in body["error"]["message"]
