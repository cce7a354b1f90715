"""GET /inspector/engines: the engines, what is known of their models, and the responses in flight."""

import asyncio
import os
from typing import Any

import pytest
from support.engine import OWN_FIELDS, MockEngine, Writer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, started
from support.inspector import opened, rows

from antiphon.ids import hash_of_key
from bench.processes import free_port

PATH = "/inspector/engines"


def as_key(key: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {key}"}}


class Paused:
    """Answers that stop in the middle until they may go on."""

    def __init__(self, engine: MockEngine, count: int = 1) -> None:
        self.go_on = asyncio.Event()
        self.begun = asyncio.Semaphore(0)
        engine.will(*[self._answer] * count)

    async def _answer(self, write: Writer) -> None:
        await write(chunk({"content": "one"}))
        self.begun.release()
        await self.go_on.wait()
        await write(text(" two"))


async def until(gateway: GatewayUnderTest, state: str, **options: Any) -> list[dict[str, Any]]:
    """The responses in flight, once all of them are in this state."""
    while True:
        _, found = await gateway.get(PATH, **options)
        if found["running"] and {run["state"] for run in found["running"]} == {state}:
            return list(found["running"])


async def test_it_describes_the_gateway_and_its_engines(engine: MockEngine) -> None:
    engine.lists("Qwen2.5-Coder-1.5B")
    async with running_gateway(engine, store="memory:") as gateway:
        await gateway.probed()
        status, found = await gateway.get(PATH)
    assert status == 200
    about = found["gateway"]
    assert (about["url"], about["pid"], about["store"], about["ready"]) == (gateway.url, os.getpid(), "memory", True)
    assert about["started"] > 0
    (known,) = found["engines"]
    assert (known["url"], known["dialect"], known["ready"], known["why_not"]) == (engine.url, "plain", True, None)
    assert (known["running"], known["waiting"], known["embedded"]) == (0, 0, False)
    (model,) = known["models"]
    assert (model["id"], model["parameters"], model["vision"]) == ("Qwen2.5-Coder-1.5B", 1_500_000_000, False)
    assert model["help"]["reason"] == "the model has 1.5 billion parameters"
    assert "offers hard tools as easier functions" in model["help"]["parts"]
    assert found["running"] == []


async def test_what_was_learned_is_listed_with_its_meaning(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await gateway.probed()
    gateway.gateway.pool.engines[0].knowledge.learn("mock", {"alternates": True})
    _, found = await gateway.get(PATH)
    fact = {"name": "alternates", "value": True, "source": "learned", "meaning": "user and assistant have to alternate"}
    assert fact in found["engines"][0]["models"][0]["facts"]


async def test_an_engine_that_is_away_says_why() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with running_gateway(url) as gateway:
        await gateway.gateway.pool.identify()
        _, found = await gateway.get(PATH)
    (known,) = found["engines"]
    assert (known["ready"], known["why_not"]) == (False, "it does not answer: connection refused")
    assert found["gateway"]["ready"] is False


async def test_an_engine_that_lists_no_models_shows_those_of_the_settings(engine: MockEngine) -> None:
    engine.lists()
    async with running_gateway(engine, default_model="big") as gateway:
        await gateway.probed()
        _, found = await gateway.get(PATH)
    (known,) = found["engines"]
    assert (known["any_model"], [model["id"] for model in known["models"]]) == (True, ["big"])


async def test_a_response_in_flight_is_listed_until_its_end(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    paused = Paused(engine)
    streaming = asyncio.create_task(gateway.stream("Hi"))
    (run,) = await until(gateway, "writing")
    assert (run["model"], run["engine"], run["owner"], run["channel"]) == ("mock", engine.url, None, "http")
    assert run["seconds"] >= 0
    assert (await gateway.get(PATH))[1]["engines"][0]["running"] == 1
    paused.go_on.set()
    events = await streaming
    assert events[-1]["response"]["id"] == run["id"]
    assert (await gateway.get(PATH))[1]["running"] == []


async def test_a_response_whose_engine_is_silent_is_reading_the_prompt(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def silent(write: Writer) -> None:
        await go_on.wait()
        await write(text("Hi"))

    engine.will(silent)
    streaming = asyncio.create_task(gateway.stream("Hi"))
    (running,) = await until(gateway, "reading the prompt")
    assert running["prompt_read"] is None
    go_on.set()
    await streaming


LONG = "word " * 2_000


@pytest.mark.parametrize(("asked", "sent"), [(LONG, True), ("Hi", None)])
async def test_a_long_prompt_is_read_with_reports_of_how_far(asked: str, sent: bool | None) -> None:
    go_on = asyncio.Event()

    async def reading(write: Writer) -> None:
        reports = [{"total": 4}, {"total": 4, "processed": 1, "cache": 0, "time_ms": 7}]
        await write(b"".join(chunk({"role": "assistant", "content": None}, prompt_progress=report) for report in reports))
        await go_on.wait()
        await write(text("Hi"))

    mock = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    mock.will(reading)
    async with started(mock), running_gateway(mock) as gateway:
        streaming = asyncio.create_task(gateway.stream(asked))
        (running,) = await until(gateway, "reading the prompt, 25%")
        # The client has got nothing: it still gets its signs of life.
        assert [run.reads for run in gateway.gateway.in_flight.runs] == [0]
        (row,) = (await gateway.get("/inspector/requests"))[1]["data"]
        go_on.set()
        events = await streaming
        (ended,) = await rows(gateway)
        view = await opened(gateway, 1)
    assert mock.last.get("return_progress") is sent
    assert (running["prompt_read"], row["prompt_read"], ended["prompt_read"]) == (0.25, 0.25, None)
    assert events[-1]["type"] == "response.completed"
    assert view["exact"] is True


async def test_a_response_that_waits_for_a_busy_engine_says_so(engine: MockEngine) -> None:
    async with running_gateway(engine, engine_requests=1) as gateway:
        paused = Paused(engine)
        first = asyncio.create_task(gateway.stream("Hi"))
        await until(gateway, "writing")
        second = asyncio.create_task(gateway.stream("Hi"))
        while len(running := (await gateway.get(PATH))[1]["running"]) < 2:
            pass
        while running[1]["state"] != "waiting for the engine":
            running = (await gateway.get(PATH))[1]["running"]
        (known,) = (await gateway.get(PATH))[1]["engines"]
        assert (known["running"], known["waiting"]) == (1, 1)
        paused.go_on.set()
        await asyncio.gather(first, second)


async def test_a_key_sees_its_own_responses_and_the_admin_key_all(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": ("a",), "bob": ("b",)}, admin_key=("root",)) as gateway:
        paused = Paused(engine, 2)
        body = {"model": "mock", "input": "Hi"}
        asked = [asyncio.create_task(gateway.post(body, **as_key(key))) for key in ("a", "b")]
        for _ in asked:
            await paused.begun.acquire()
        owners = {
            key: [run["owner"] for run in (await gateway.get(PATH, **as_key(key)))[1]["running"]] for key in ("a", "b", "root")
        }
        assert {key: sorted(names) for key, names in owners.items()} == {"a": ["ada"], "b": ["bob"], "root": ["ada", "bob"]}
        paused.go_on.set()
        await asyncio.gather(*asked)


async def test_a_key_without_a_name_is_not_shown_by_its_hash(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("k",), admin_key=("root",)) as gateway:
        paused = Paused(engine)
        asked = asyncio.create_task(gateway.post({"model": "mock", "input": "Hi"}, **as_key("k")))
        await paused.begun.acquire()
        (run,) = (await gateway.get(PATH, **as_key("root")))[1]["running"]
        paused.go_on.set()
        await asked
    assert run["owner"] == f"unnamed-{hash_of_key(b'k')[:6]}"


@pytest.mark.parametrize("options", [{}, as_key("wrong")])
async def test_without_a_valid_key_nothing_is_shown(engine: MockEngine, options: dict[str, Any]) -> None:
    async with running_gateway(engine, api_key=("right",)) as gateway:
        status, found = await gateway.get(PATH, **options)
        assert status == 401
        assert engine.url not in str(found)
        assert (await gateway.get(PATH, **as_key("right")))[0] == 200


async def test_the_number_of_the_process_is_for_the_operator(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("k",), admin_key=("root",)) as gateway:
        assert (await gateway.get(PATH, **as_key("k")))[1]["gateway"]["pid"] is None
        assert (await gateway.get(PATH, **as_key("root")))[1]["gateway"]["pid"] == os.getpid()
