"""The embedded engine's process: real llama.cpp in a real child process, behind a real gateway."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.streams import check_stream, parse
from support.tiny_model import write_tiny_model

from antiphon.child_processes.child import RestartPauses
from antiphon.core.knowledge.knowledge import Loading
from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.process import DEFAULT_PAUSES, EngineProcess, ModelOptions
from antiphon.installation import how_to_install

# Seconds between two looks at something that has no event. The test's timeout limits the wait.
STEP = 0.02


@asynccontextmanager
async def running_embedded(
    model: Path, *engines: MockEngine, pauses: RestartPauses = DEFAULT_PAUSES, **options: Any
) -> AsyncIterator[tuple[GatewayUnderTest, EngineProcess]]:
    embedded = EngineProcess(str(model), ModelOptions(Path(), **{"threads": 1, **options}), pauses)
    running = asyncio.create_task(embedded.run())
    try:
        async with running_gateway(*engines, embedded=embedded) as gateway:
            while not gateway.gateway.pool.engines[-1].ready:
                if running.done():
                    running.result()
                await gateway.gateway.pool.engines[-1].identify()
                await asyncio.sleep(STEP)
            yield gateway, embedded
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError, CannotEmbed):
            await running


def is_listening(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


async def test_a_model_is_served_with_its_name_its_window_and_tools(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf", context=2048)
    async with running_embedded(model, slots=3) as (gateway, embedded):
        events = await gateway.stream(model="pebble", max_output_tokens=20)
        assert events[-1]["response"]["usage"]["output_tokens"] <= 20
        (engine,) = gateway.gateway.pool.engines
        assert [(known.id, known.window) for known in engine.models] == [("pebble", 2048)]
        assert engine.dialect.name == "llamacpp"
        async with gateway.client.get(embedded.url + "/props", headers={"Authorization": f"Bearer {embedded.key}"}) as props:
            reported = await props.json()
            assert reported["total_slots"] == 3
            assert reported["chat_template_caps"]["supports_tool_calls"]
    assert not is_listening(embedded.url)


async def test_the_context_can_be_chosen(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf", context=2048)
    async with running_embedded(model, context=512) as (gateway, _):
        assert gateway.gateway.pool.engines[0].models[0].window == 512


async def test_only_the_gateway_has_access(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    async with running_embedded(model) as (gateway, embedded):
        asked = gateway.client.post(f"{embedded.url}/v1/chat/completions", json={"messages": []})
        async with asked as answer:
            assert answer.status == 401


async def test_a_killed_engine_fails_its_stream_once_and_comes_back(tmp_path: Path) -> None:
    # Long enough for the requests before the restart.
    pauses = RestartPauses(first=3.0)
    model = write_tiny_model(tmp_path / "pebble.gguf", context=131072, ends=False)
    async with running_embedded(model, pauses=pauses, context=32768) as (gateway, embedded):
        url, first = embedded.url, embedded.pid
        assert first is not None
        body = {"model": "pebble", "input": "Hi", "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answer:
            raw = await answer.content.readuntil(b"output_text.delta")
            os.kill(first, signal.SIGKILL)
            raw += await answer.content.read()
        events = parse(raw)
        check_stream(events)
        assert events[-1]["type"] == "response.failed"
        # The end of its connections is seen a little earlier than that of its process.
        async with asyncio.timeout(30):
            while not embedded.loading.failures:
                await asyncio.sleep(STEP)
        for stream in (True, False):
            status, answered = await gateway.post({"model": "pebble", "input": "Hi", "stream": stream})
            assert (status, answered["error"]["code"]) == (503, "engine_unavailable")
            died = "loading pebble. It has died before: it was killed by signal 9"
            assert answered["error"]["message"] == f"The embedded engine is {died}."
            assert int(gateway.headers["Retry-After"]) >= 1
        status = 503
        async with asyncio.timeout(30):
            while status == 503:
                status, _ = await gateway.post({"model": "pebble", "input": "Hi", "max_output_tokens": 5})
                await asyncio.sleep(STEP)
        assert status == 200
        assert embedded.pid != first
        assert embedded.url == url


async def test_its_process_reports_what_it_does_until_it_can_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = EngineProcess(str(write_tiny_model(tmp_path / "pebble.gguf")), ModelOptions(Path(), threads=1))
    assert embedded.loading == Loading("pebble", "loading")
    reported: asyncio.Queue[Loading] = asyncio.Queue()
    embedded.progressed = reported.put_nowait
    running = asyncio.create_task(embedded.run())
    try:
        with caplog.at_level("INFO", "antiphon"):
            # It dies again and again, before it is stable.
            for times in (1, 2):
                while [record.message for record in caplog.records].count("engine started") < times:
                    await asyncio.sleep(STEP)
                assert embedded.loading.stage == "starting"
                assert embedded.pid is not None
                os.kill(embedded.pid, signal.SIGKILL)
                while (loading := await reported.get()).failures < times:
                    assert loading.stage in ("loading", "starting")
                assert loading == Loading("pebble", failures=times, reason="it was killed by signal 9")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(("stable_after", "pauses"), [(60.0, [0.01, 0.02, 0.03, 0.03]), (0.0, [0.01, 0.01, 0.01, 0.01])])
async def test_the_pauses_before_restarts_grow_until_the_engine_is_stable(
    stable_after: float, pauses: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    async with running_embedded(model, pauses=RestartPauses(0.01, 0.03, stable_after)) as (_, embedded):
        # The model can no longer be loaded, so every restart fails.
        model.write_bytes(model.read_bytes()[:-5000])
        assert embedded.pid is not None
        os.kill(embedded.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while len(deaths(caplog)) < 4:
                await asyncio.sleep(STEP)
    assert [death["restarts_in"] for death in deaths(caplog)[:4]] == pauses
    assert "signal 9" in deaths(caplog)[0]["reason"]
    assert "failed to load model" in deaths(caplog)[1]["reason"]


def deaths(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["members"] for record in caplog.records if record.message == "engine died"]


async def test_a_port_in_use_is_replaced(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    embedded = EngineProcess(str(model), ModelOptions(Path(), threads=1))
    taken = embedded.url
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", int(taken.rpartition(":")[2]))
    async with other, running_gateway(embedded=embedded) as gateway:
        running = asyncio.create_task(embedded.run())
        while (await gateway.post({"input": "Hi", "max_output_tokens": 5}))[0] == 503:
            await asyncio.sleep(STEP)
        assert gateway.gateway.pool.engines[0].root == embedded.url != taken
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_model_that_cannot_be_loaded_is_reported_with_llamacpps_message(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    model.write_bytes(model.read_bytes()[:-5000])
    with pytest.raises(CannotEmbed, match=r"could not be served: it exited with code 1\n[\s\S]*failed to load model"):
        await EngineProcess(str(model), ModelOptions(Path())).run()


async def test_without_llamacpp_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CannotEmbed, match=re.escape(how_to_install("embedded"))):
        await EngineProcess(str(tmp_path / "any.gguf"), ModelOptions(Path())).run()


def test_only_a_model_that_needs_it_has_a_sampling_of_its_own(tmp_path: Path) -> None:
    weights = EngineProcess("smollm2", ModelOptions(tmp_path)).weights
    assert weights is not None
    smollm2 = weights.sampling
    assert (smollm2.temperature, smollm2.top_p, smollm2.most_tokens) == (0.2, 0.9, 1024)
    assert smollm2.free_extra["dry_multiplier"] > 0
    assert EngineProcess("pebble.gguf", ModelOptions(tmp_path)).weights is None


@pytest.mark.usefixtures("without_embeddings")
async def test_the_models_name_chooses_between_engines(engine: MockEngine, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    async with running_embedded(model, engine) as (gateway, _):
        await gateway.gateway.pool.engines[0].identify()
        assert (await gateway.create())["output_text"] == "Hello world"
        assert (await gateway.create(model="pebble", max_output_tokens=5))["model"] == "pebble"
        assert len(engine.requests) == 1
        async with gateway.client.get(gateway.url + "/v1/models") as answer:
            assert {known["id"] for known in (await answer.json())["data"]} == {"mock", "pebble"}


async def test_a_request_for_a_model_that_is_still_loading_goes_to_no_other_engine(engine: MockEngine, tmp_path: Path) -> None:
    embedded = EngineProcess(str(tmp_path / "pebble.gguf"), ModelOptions(Path()))
    async with running_gateway(engine, embedded=embedded) as gateway:
        assert (await gateway.create())["output_text"] == "Hello world"
        status, _ = await gateway.post({"model": "pebble", "input": "Hi"})
    assert status == 503
    assert len(engine.requests) == 1
