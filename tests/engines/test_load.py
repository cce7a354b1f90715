"""How busy the engines are, by their own count."""

import pytest
from support.engine import MockEngine, Refusal
from support.gateway import running_gateway, started
from support.metrics import scrape

from antiphon.core.knowledge.dialect import LoadSource
from antiphon.core.knowledge.dialects import LLAMACPP, SGLANG, VLLM
from antiphon.engines.load import EngineLoads, LoadReport, read_load

VLLM_METRICS = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3 8B"} 3.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3 8B"} 2.0 1395066363000
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3 8B"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3 8B"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="Qwen/Qwen3 8B"} 0.5
vllm:num_requests_running_ever 9.0
"""
LLAMACPP_METRICS = b"""# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 1
"""
SGLANG_METRICS = b"""sglang:num_running_reqs{model_name="m"} 7.0
sglang:num_queue_reqs{model_name="m"} 1.0
sglang:token_usage{model_name="m"} 0.28
"""
SLOTS = b'[{"id": 0, "is_processing": true, "n_ctx": 512}, {"id": 1, "is_processing": false}]'


@pytest.mark.parametrize(
    ("body", "source", "report"),
    [
        (VLLM_METRICS, VLLM.load[0], LoadReport(5, 4, 0.5, others=9)),
        (VLLM_METRICS.replace(b"kv_cache", b"gpu_cache"), VLLM.load[0], LoadReport(5, 4, 0.5, others=9)),
        (LLAMACPP_METRICS, LLAMACPP.load[0], LoadReport(2, 1, None, others=3)),
        (SGLANG_METRICS, SGLANG.load[0], LoadReport(7, 1, 0.28, others=8)),
        (SLOTS, LLAMACPP.load[1], LoadReport(1, 0, None, others=1)),
        (b"<html>", VLLM.load[0], None),
        (b"", VLLM.load[0], None),
    ],
)
def test_it_is_read_as_each_engine_reports_it(body: bytes, source: LoadSource, report: LoadReport | None) -> None:
    assert read_load(body, source) == report


def test_our_own_requests_are_not_those_of_others() -> None:
    assert read_load(LLAMACPP_METRICS, LLAMACPP.load[0], ours=2) == LoadReport(2, 1, None, others=1)
    assert read_load(LLAMACPP_METRICS, LLAMACPP.load[0], ours=5) == LoadReport(2, 1, None, others=0)


async def test_the_requests_of_others_count_beside_our_own() -> None:
    one, other = (MockEngine(owned_by="vllm", paths={"/metrics": VLLM_METRICS}) for _ in range(2))
    other.paths["/metrics"] = b"vllm:num_requests_running 0.0\n"
    async with started(one), started(other), running_gateway(one, other) as gateway:
        pool = gateway.gateway.pool
        await pool.identify()
        await pool.loads.look(pool.engines)
        assert [pool.loads.load_of(engine) for engine in pool.engines] == [9, 0]
        assert all([(await pool.choose("mock", f"key {at}")).engines[0] is pool.engines[1] for at in range(20)])
        seen = await scrape(gateway)
        _, shown = await gateway.get("/inspector/engines")
    assert seen.value("antiphon_engine_reported_running", engine=one.url) == 5
    assert seen.value("antiphon_engine_reported_waiting", engine=one.url) == 4
    assert seen.value("antiphon_engine_reported_cache_usage", engine=one.url) == 0.5
    assert seen.labels("antiphon_engine_reported_cache_usage", "engine") == {one.url}
    assert shown["engines"][0]["reported"] == {"running": 5, "waiting": 4, "cache_usage": 0.5}


async def test_an_engine_that_does_not_report_it_is_not_asked_again() -> None:
    mock = MockEngine(paths={"/metrics": Refusal(501), "/slots": SLOTS})
    async with started(mock), running_gateway(mock, dialect="llamacpp") as gateway:
        (engine,) = gateway.gateway.pool.engines
        loads = EngineLoads()
        await engine.identify()
        await loads.look([engine])
        assert loads.report_of(engine) == LoadReport(1, others=1)
        # Neither of them from now on, even if they were there.
        mock.paths["/slots"] = Refusal(501)
        await loads.look([engine])
        mock.paths |= {"/slots": SLOTS, "/metrics": LLAMACPP_METRICS}
        await loads.look([engine])
        assert loads.report_of(engine) is None


async def test_an_engine_that_does_not_answer_is_asked_again() -> None:
    mock = MockEngine(paths={"/metrics": VLLM_METRICS})
    async with started(mock), running_gateway(mock, dialect="vllm") as gateway:
        (engine,) = gateway.gateway.pool.engines
        loads = EngineLoads()
        await engine.identify()
        port = int(mock.url.rpartition(":")[2])
        await mock.stop()
        await loads.look([engine])
        assert loads.report_of(engine) is None
        await mock.start(port)
        await loads.look([engine])
        assert loads.report_of(engine) is not None
