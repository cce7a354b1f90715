"""The detection of engines, their models and their versions."""

from typing import Any

import aiohttp
import pytest
from support.engine import MockEngine
from support.gateway import free_port, running_gateway

from antiphon.engines.detection import detect, find_local_engines, follow

# What each engine answers, reduced to the signs that identify it.
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("someone", {}),
    "llamacpp": ("llamacpp", {"/props": {"default_generation_settings": {}}}),
    "vllm": ("vllm", {"/version": {"version": "0.32.0"}}),
    "lmdeploy": ("lmdeploy", {}),
    "sglang": ("sglang", {"/get_server_info": {"tp_size": 1}}),
    "ollama": ("library", {"/api/version": {"version": "0.15"}}),
    "lmstudio": ("organization_owner", {"/api/v0/models": {"data": [{"compatibility_type": "gguf"}]}}),
}


@pytest.mark.parametrize("name", ENGINES)
async def test_an_engine_is_detected_by_its_signs(name: str) -> None:
    owner, paths = ENGINES[name]
    engine = MockEngine(owned_by=owner, paths=paths)
    await engine.start()
    async with aiohttp.ClientSession() as session:
        found = await detect(session, engine.url, {})
    await engine.stop()
    assert found is not None
    assert found.dialect.name == name
    assert [model.id for model in found.models] == ["mock"]


@pytest.mark.parametrize(
    ("owner", "paths", "version"),
    [
        ("llamacpp", {"/props": {"build_info": "b1234-abc"}}, "b1234-abc"),
        ("vllm", {"/version": {"version": "0.32.0"}}, "0.32.0"),
        ("sglang", {"/get_server_info": {"tp_size": 1, "version": "0.6"}}, "0.6"),
        ("library", {"/api/version": {"version": "0.15"}}, "0.15"),
        ("library", {"/api/version": {"version": 15}}, None),
        ("someone", {"/version": {"version": "9"}}, None),
    ],
)
async def test_the_version_of_an_engine_is_read(owner: str, paths: dict[str, Any], version: str | None) -> None:
    engine = MockEngine(owned_by=owner, paths=paths)
    await engine.start()
    async with running_gateway(engine) as gateway:
        (known,) = gateway.gateway.pool.engines
        await known.identify()
    await engine.stop()
    assert known.version == version


async def test_an_older_llamacpp_is_detected_by_its_props() -> None:
    engine = MockEngine(paths={"/props": {"default_generation_settings": {"n_ctx": 1}}})
    await engine.start()
    async with aiohttp.ClientSession() as session:
        found = await detect(session, engine.url, {})
    await engine.stop()
    assert found is not None
    assert found.dialect.name == "llamacpp"


async def test_other_servers_are_not_detected_as_engines() -> None:
    async with aiohttp.ClientSession() as session:
        assert await detect(session, f"http://127.0.0.1:{await free_port()}", {}) is None
        web_page = MockEngine()
        await web_page.start()
        web_page._models = {"hello": "world"}
        assert await detect(session, web_page.url, {}, lists_models=False) is None
        web_page.lists()
        assert await detect(session, web_page.url, {}) is None
        found = await detect(session, web_page.url, {}, lists_models=False)
        assert found is not None, "an engine that was named need not list its models"
        assert (found.dialect.name, found.models) == ("plain", ())
        await web_page.stop()


@pytest.mark.parametrize(
    ("owner", "paths", "window", "vision"),
    [
        (
            "llamacpp",
            {"/props": {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}}},
            8192,
            ["text", "image"],
        ),
        (
            "library",
            {
                "/api/version": {"version": "0.15"},
                "/api/show": lambda body: {
                    "model_info": {"general.x": 1, "qwen3.context_length": 40960},
                    "capabilities": ["tools", "vision"] if body["model"] == "mock" else [],
                },
            },
            40960,
            ["text", "image"],
        ),
        ("vllm", {}, 2048, ["text"]),
        ("someone", {}, 32768, ["text"]),
    ],
)
async def test_codex_gets_the_real_window_and_the_modalities(
    owner: str, paths: dict[str, Any], window: int, vision: list[str]
) -> None:
    engine = MockEngine(owned_by=owner, paths=paths)
    engine._models["data"][0]["max_model_len"] = 2048
    await engine.start()
    async with running_gateway(engine) as gateway, gateway.client.get(gateway.url + "/v1/models") as answer:
        (entry,) = (await answer.json())["models"]
    await engine.stop()
    assert entry["context_window"] == window
    assert entry["input_modalities"] == vision
    assert entry["apply_patch_tool_type"] == "freeform"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("capabilities/tools", True),
        ("capabilities/vision", False),
        ("abilities/vision", None),
        ("data/0/id", "a"),
        ("data/1/id", None),
        ("meta/*.length", 7),
        ("meta/x.length/deeper", None),
    ],
)
def test_a_key_is_followed_and_false_differs_from_missing(key: str, found: Any) -> None:
    document = {"capabilities": ["tools"], "data": [{"id": "a"}], "meta": {"x.length": 7}}
    assert follow(document, key) == found


async def test_the_dialect_can_be_given(engine: MockEngine) -> None:
    async with running_gateway(engine, dialect="vllm") as gateway:
        await gateway.create(max_output_tokens=20)
    assert engine.last["max_completion_tokens"] == 20


async def test_the_well_known_ports_are_tried(engine: MockEngine) -> None:
    port, own = int(engine.url.rpartition(":")[2]), await free_port()
    ports = {port: "x", own: "y"}
    async with aiohttp.ClientSession() as session:
        assert await find_local_engines(session, {}, own_port=own, ports=ports) == [engine.url]
        assert await find_local_engines(session, {}, own_port=port, ports=ports) == []
