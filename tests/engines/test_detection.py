"""The detection of engines, their models and their versions."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import structs
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.engine import OWN_FIELDS, MockEngine, Refusal
from support.gateway import running_gateway, started
from support.raw_server import raw_server, sized, write_in_pieces

from antiphon.core.knowledge.dialects import LLAMACPP
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.knowledge.known_weights import QWEN25_CODER_1_5B
from antiphon.engines.detection import EngineDocuments, detect, find_local_engines, follow
from antiphon.engines.embedded.weights import known_weights_of
from antiphon.server.parts import APP
from antiphon.settings.sources import load
from bench.processes import free_port

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
        found = await detect(EngineDocuments(session, engine.url, {}))
    await engine.stop()
    assert found is not None
    assert found.dialect.name == name
    assert [model.id for model in found.models] == ["mock"]


@pytest.mark.parametrize(
    ("owner", "paths", "version"),
    [
        ("llamacpp", {"/props": {"build_info": "b1234-abc"}}, "b1234-abc"),
        ("llamacpp", {"/props": {"build_info": "b0-unknown"}}, None),
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
        found = await detect(EngineDocuments(session, engine.url, {}))
    await engine.stop()
    assert found is not None
    assert found.dialect.name == "llamacpp"


# What an engine answers to GET /v1/models that serves chats all the same.
BROKEN_LISTS: dict[str, Refusal | bytes] = {
    "400": Refusal(400, {"error": "no"}),
    "403": Refusal(403, {"error": "no"}),
    "404": Refusal(404, {"error": "no"}),
    "405": Refusal(405, {"error": "no"}),
    "500": Refusal(500, {"error": "no hub cache"}),
    "501": Refusal(501, {"error": "no"}),
    "a page": b"<!doctype html>",
    "nothing": b"",
    "no list": b'{"hello": "world"}',
    "no list of models": b'{"data": "none"}',
    "an empty list": b'{"object": "list", "data": []}',
}


@pytest.mark.parametrize("answer", BROKEN_LISTS.values(), ids=BROKEN_LISTS)
async def test_an_engine_that_was_named_serves_without_a_list_of_models(engine: MockEngine, answer: Refusal | bytes) -> None:
    engine.list_answer = answer
    async with running_gateway(engine) as gateway:
        assert (await gateway.get("/ready"))[0] == 200
        assert (await gateway.create(model="org/mine"))["model"] == "org/mine"
        (known,) = gateway.gateway.pool.engines
        assert (known.dialect.name, known.models, known.unusable) == ("plain", (), None)
    assert engine.last["model"] == "org/mine"


@pytest.mark.usefixtures("without_embeddings")
async def test_the_settings_name_the_model_of_an_engine_without_a_list(engine: MockEngine) -> None:
    engine.list_answer = Refusal(500, {"error": "no cache"})
    async with running_gateway(engine, model_names=load({"model_names": ["org/mine"]}).model_names) as gateway:
        _, listed = await gateway.get("/v1/models")
        response = await gateway.create(model=None)
    assert [model["id"] for model in listed["data"]] == ["org/mine"]
    assert response["model"] == engine.last["model"] == "org/mine"


@pytest.mark.parametrize("answer", [kind for name, kind in BROKEN_LISTS.items() if name != "an empty list"])
async def test_an_engine_that_is_searched_for_has_to_list_its_models(engine: MockEngine, answer: Refusal | bytes) -> None:
    engine.list_answer = answer
    async with aiohttp.ClientSession() as session:
        assert await detect(EngineDocuments(session, engine.url, {})) is None
        port = int(engine.url.rpartition(":")[2])
        assert await find_local_engines(session, {}, own_port=1, ports={port: "x"}) == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "wants an API key, or rejects the one that it got (HTTP 401). Check --upstream-key."),
        (429, "does not answer /v1/models as an engine does (HTTP 429). Check --upstream."),
        (502, "is not there yet: the proxy in front of it answers HTTP 502."),
        (503, "is not ready yet (HTTP 503). It may be loading its model."),
        (504, "is not there yet: the proxy in front of it answers HTTP 504."),
    ],
)
async def test_an_engine_that_cannot_be_used_says_why(
    engine: MockEngine, status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine.list_answer = Refusal(status, {"error": "no"})
    async with running_gateway(engine) as gateway:
        for answer in (await gateway.post({"input": "Hi"}), await gateway.get("/ready"), await gateway.get("/v1/models")):
            assert answer[0] == 503
            assert answer[1]["error"]["message"] == f"The engine at {engine.url} {reason}"
        assert [record.getMessage() for record in caplog.records].count("engine cannot be used") == 1
        engine.list_answer = None
        assert (await gateway.create())["output_text"] == "Hello world"


async def test_the_embedded_engine_that_loads_its_model_is_nothing_to_warn_of(
    engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(engine) as gateway:
        engine.list_answer = Refusal(503, {"error": "Loading model"})
        (loading,) = gateway.app[APP].gateway.pool.engines
        loading.is_embedded, loading.ready = True, False
        assert (await gateway.post({"input": "Hi"}))[0] == 503
        assert "engine cannot be used" not in [record.getMessage() for record in caplog.records]


async def test_an_engine_that_is_not_there_is_not_detected() -> None:
    async with aiohttp.ClientSession() as session:
        gone = EngineDocuments(session, f"http://127.0.0.1:{free_port()}", {})
        assert await detect(gone, lists_models=False) is None
        assert gone.status("/v1/models") is None


async def test_a_list_that_comes_later_is_read(engine: MockEngine) -> None:
    engine.list_answer = Refusal(500, {"error": "no hub cache"})
    engine._models["data"][0]["owned_by"] = "vllm"
    async with running_gateway(engine) as gateway:
        await gateway.create(model="mine")
        (known,) = gateway.gateway.pool.engines
        await gateway.gateway.pool.read_lists()
        engine.list_answer = None
        gateway.gateway.pool._lists_read = -1000
        assert (await gateway.create(model="mine"))["model"] == "mine", "nothing waits for the list"
        await gateway.gateway.pool.read_lists()
        assert (known.dialect.name, [model.id for model in known.models]) == ("vllm", ["mock"])
        assert (await gateway.create(model="mine"))["model"] == "mock"


async def test_the_dialect_of_an_engine_without_a_list_is_detected_by_its_other_signs() -> None:
    engine = MockEngine(paths={"/props": {"default_generation_settings": {"n_ctx": 1}}})
    engine.list_answer = Refusal(500, {"error": "no"})
    await engine.start()
    async with aiohttp.ClientSession() as session:
        found = await detect(EngineDocuments(session, engine.url, {}), lists_models=False)
    await engine.stop()
    assert found is not None
    assert (found.dialect.name, found.models) == ("llamacpp", ())


async def test_a_list_that_arrives_in_pieces_is_read_whole() -> None:
    listed = msgspec.json.encode({"data": [{"id": f"model-{at}", "owned_by": "vllm"} for at in range(50)]})
    written = sized(listed)

    async def in_pieces(writer: asyncio.StreamWriter) -> None:
        await write_in_pieces(writer, written, 500)

    async with raw_server(lambda head: in_pieces) as server, aiohttp.ClientSession() as session:
        found = await detect(EngineDocuments(session, server.url, {}))
    assert found is not None
    assert len(found.models) == 50


async def test_a_list_that_is_cut_off_is_no_answer() -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(sized(b'{"data": []}')[:-3])
        writer.close()

    async with raw_server(lambda head: cut) as server, aiohttp.ClientSession() as session:
        assert await detect(EngineDocuments(session, server.url, {}), lists_models=False) is None


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


CODER = {"n_params": 1_777_088_000, "n_vocab": 151_936, "n_embd": 1536}


@pytest.mark.parametrize(
    ("name", "meta", "is_known"),
    [
        ("whatever", CODER, True),
        ("/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", {**CODER, "n_params": 1_543_714_304}, True),
        ("Qwen2.5-1.5B-Instruct", CODER, False),
        ("whatever", {**CODER, "n_embd": 2048}, False),
        ("whatever", {"n_params": 1_777_088_000}, False),
        ("whatever", None, False),
    ],
)
async def test_weights_are_recognised_by_their_shape_whatever_name_they_have(
    name: str, meta: dict[str, Any] | None, is_known: bool
) -> None:
    engine = MockEngine(owned_by="llamacpp")
    engine.lists(name)
    engine._models["data"][0] |= {"meta": meta, "owned_by": "llamacpp"}
    async with started(engine), running_gateway(engine) as gateway:
        await gateway.gateway.pool.ready_event.wait()
        (found,) = gateway.gateway.pool.engines
        assert (found.knowledge.sampling_for(name) == QWEN25_CODER_1_5B.sampling) is is_known
        assert found.knowledge.dialect_for(name).garbles_calls is is_known
        if is_known:
            by_name = EngineKnowledge(LLAMACPP, [Model(id=name, created=0, owned_by="antiphon", parameters=1_540_000_000)])
            by_name.recognise(name, QWEN25_CODER_1_5B)
            own, other = found.knowledge.traits_of(name, "auto"), by_name.traits_of(name, "auto")
            assert structs.replace(own.help, reason="") == structs.replace(other.help, reason="")
            assert own.sampling == other.sampling


async def test_the_same_weights_get_the_same_prompts_by_name_by_path_and_behind_another_llamacpp() -> None:
    function = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    called = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
    ]
    requests: list[dict[str, Any]] = [
        {"input": "Hi"},
        {"tools": [function]},
        {"tools": [function], "input": called},
        {"tools": [EXEC_COMMAND, APPLY_PATCH]},
    ]
    sent = [[await prompt(name, fields) for fields in requests] for name in ("qwen2.5-coder-1.5b", "my-file", "/models/b.gguf")]
    assert sent[0] == sent[1] == sent[2]
    assert ["museum" in str(chat["messages"]) for chat in sent[0]] == [False, True, True, False]
    assert [chat["temperature"] for chat in sent[0]] == [0.2] * len(requests)


async def prompt(model: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What an engine with the coder's weights is asked, but for the name."""
    engine = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    engine.lists(model)
    engine._models["data"][0] |= {"meta": CODER, "owned_by": "llamacpp"}
    async with started(engine), running_gateway(engine) as gateway:
        if (weights := known_weights_of(model)) is not None:
            # As for the engine that comes with Antiphon, before its model is loaded.
            gateway.gateway.pool.engines[0].knowledge.recognise(model, weights)
        await gateway.gateway.pool.ready_event.wait()
        await gateway.create(model=model, **fields)
        return {name: value for name, value in engine.last.items() if name != "model"}


@pytest.mark.parametrize(
    ("owner", "paths", "meta", "parameters"),
    [
        ("llamacpp", {}, {"n_params": 1_543_714_304}, 1_543_714_304),
        # A router has no such member for a model that is not loaded.
        ("llamacpp", {}, None, None),
        ("llamacpp", {}, {"n_params": "many"}, None),
        (
            "library",
            {
                "/api/version": {"version": "0.15"},
                "/api/show": lambda body: {"model_info": {"general.parameter_count": 3_212_749_888}},
            },
            None,
            3_212_749_888,
        ),
        ("vllm", {}, {"n_params": 5}, None),
    ],
)
async def test_the_number_of_parameters_is_found_where_the_engine_reports_it(
    owner: str, paths: dict[str, Any], meta: dict[str, Any] | None, parameters: int | None
) -> None:
    engine = MockEngine(owned_by=owner, paths=paths)
    engine._models["data"][0]["meta"] = meta
    async with started(engine), running_gateway(engine) as gateway:
        await gateway.gateway.pool.ready_event.wait()
        (found,) = gateway.gateway.pool.engines
        assert found.knowledge.parameters_of("mock") == parameters


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
    port, own = int(engine.url.rpartition(":")[2]), free_port()
    ports = {port: "x", own: "y"}
    async with aiohttp.ClientSession() as session:
        assert await find_local_engines(session, {}, own_port=own, ports=ports) == [engine.url]
        assert await find_local_engines(session, {}, own_port=port, ports=ports) == []
