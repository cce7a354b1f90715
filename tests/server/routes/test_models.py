"""Which model answers: by the name in the request, by the names in the settings, or because there is no other."""

from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, Refusal, text
from support.gateway import GatewayUnderTest, running_gateway
from support.operations import counted_calls

pytestmark = pytest.mark.usefixtures("without_embeddings")

NOTICE = "model gpt-5 is not known here: answered by mock"


async def websocket_response(gateway: GatewayUnderTest, **fields: Any) -> dict[str, Any]:
    async with gateway.client.ws_connect(gateway.url + "/v1/responses") as socket:
        await socket.send_json({"type": "response.create", "input": "Hi", **fields})
        while True:
            event: dict[str, Any] = await socket.receive_json()
            if event["type"] in ("response.completed", "error"):
                return event


# ---- a name that no engine knows -------------------------------------------------------------------------------------


async def test_the_only_model_answers_for_a_name_that_is_not_known_and_says_so(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    response = await gateway.create(model="gpt-5")
    assert (response["model"], response["antiphon_notices"]) == ("mock", [NOTICE])
    assert gateway.notice == NOTICE
    assert "OpenAI-Model" not in gateway.headers
    events = await gateway.stream(model="gpt-5")
    assert [(event["response"]["model"], event["response"]["antiphon_notices"]) for event in (events[0], events[-1])] == [
        ("mock", [NOTICE]),
        ("mock", [NOTICE]),
    ]
    completed = await websocket_response(gateway, model="gpt-5")
    assert (completed["response"]["model"], completed["response"]["antiphon_notices"]) == ("mock", [NOTICE])
    assert {body["model"] for body in engine.requests} == {"mock"}


async def test_the_only_model_answers_in_the_background_too(gateway: GatewayUnderTest) -> None:
    status, queued = await gateway.post({"model": "gpt-5", "input": "Hi", "background": True})
    assert (status, queued["model"], queued["antiphon_notices"]) == (200, "mock", [NOTICE])
    response = await Background(gateway).ended(queued["id"])
    assert (response["status"], response["model"], response["antiphon_notices"]) == ("completed", "mock", [NOTICE])


async def test_a_name_that_is_known_has_no_notice(gateway: GatewayUnderTest) -> None:
    for fields in ({"model": "mock"}, {"model": None}):
        response = await gateway.create(**fields)
        assert response["model"] == "mock"
        assert "antiphon_notices" not in response
        assert gateway.notice == ""


async def test_with_several_models_a_name_that_is_not_known_is_a_404_that_lists_them(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine, model_names={"gpt-4o": "gemma3"}) as gateway:
        for fields in ({}, {"stream": True}, {"background": True}):
            status, answer = await gateway.post({"model": "gpt-5", "input": "Hi", **fields})
            assert (status, answer["error"]["code"], answer["error"]["param"]) == (404, "model_not_found", "model")
            assert answer["error"]["message"] == (
                "The model 'gpt-5' does not exist here. It must be one of: qwen3, gemma3, gpt-4o."
            )
        refused = await websocket_response(gateway, model="gpt-5")
        assert (refused["status"], refused["error"]["code"]) == (404, "model_not_found")
        chat = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}
        assert (await gateway.post(chat, path="/v1/chat/completions"))[0] == 404
        assert (await gateway.post({"model": "gpt-5", "input": "Hi"}, path="/v1/responses/input_tokens"))[0] == 404
    assert engine.requests == []


async def test_a_model_that_an_engine_got_later_is_found(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine) as gateway:
        await gateway.create(model="qwen3")
        engine.lists("qwen3", "gemma3", "gpt-oss")
        assert (await gateway.create(model="gpt-oss"))["model"] == "gpt-oss"


async def test_a_model_that_an_engine_got_later_is_listed(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        await gateway.create()
        engine.lists("mock", "gpt-oss")
        assert [model["id"] for model in (await gateway.get("/v1/models"))[1]["data"]] == ["mock", "gpt-oss"]


async def test_a_name_without_a_tag_means_the_latest(engine: MockEngine) -> None:
    engine.lists("qwen3:latest", "qwen3:8b", "gemma3")
    async with running_gateway(engine) as gateway:
        for asked, answered in {"qwen3": "qwen3:latest", "gemma3:latest": "gemma3", "qwen3:8b": "qwen3:8b"}.items():
            assert (await gateway.create(model=asked))["model"] == answered
        assert (await gateway.get("/v1/models/qwen3"))[0] == 200
    assert [body["model"] for body in engine.requests] == ["qwen3:latest", "gemma3", "qwen3:8b"]


async def test_a_variant_of_a_model_that_is_listed_need_not_be_listed(engine: MockEngine) -> None:
    engine.lists("qwen/qwen3", "base")
    async with running_gateway(engine) as gateway:
        for name in ("qwen/qwen3@q4_k_m", "base:adapter"):
            response = await gateway.create(model=name)
            assert (response["model"], "antiphon_notices" in response) == (name, False)
        assert (await gateway.get("/v1/models/base:adapter"))[1]["id"] == "base:adapter"
        assert (await gateway.post({"model": "base-two", "input": "Hi"}))[0] == 404
    assert [body["model"] for body in engine.requests] == ["qwen/qwen3@q4_k_m", "base:adapter"]


async def test_a_name_that_an_engine_may_know_which_is_away_is_a_503(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine, "http://127.0.0.1:9") as gateway:
        status, answer = await gateway.post({"model": "gpt-5", "input": "Hi"})
        assert (status, answer["error"]["code"]) == (503, "engine_unavailable")
        assert "http://127.0.0.1:9" in answer["error"]["message"]


# ---- the settings ----------------------------------------------------------------------------------------------------


async def test_the_default_model_answers_for_names_that_are_not_known_and_for_none(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine, default_model="gemma3") as gateway:
        response = await gateway.create(model="gpt-5")
        notice = "model gpt-5 is not known here: answered by gemma3"
        assert (response["model"], response["antiphon_notices"]) == ("gemma3", [notice])
        response = await gateway.create(model=None)
        assert (response["model"], "antiphon_notices" in response) == ("gemma3", False)
        assert (await gateway.create(model="qwen3"))["model"] == "qwen3"
        _, listed = await gateway.get("/v1/models")
        assert [model["slug"] for model in listed["models"]] == ["gemma3", "qwen3"], "Codex gets the first"


async def test_a_default_model_that_no_engine_has_is_named_in_the_error(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine, default_model="missing") as gateway:
        assert [model["id"] for model in (await gateway.get("/v1/models"))[1]["data"]] == ["qwen3", "gemma3"]
        status, answer = await gateway.post({"input": "Hi"})
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
        assert "'missing'" in answer["error"]["message"]
        assert (await gateway.create(model="qwen3"))["model"] == "qwen3"


async def test_a_model_answers_for_the_other_names_that_the_settings_give_it(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine, model_names={"gpt-5": "gemma3", "absent": "nothing"}) as gateway:
        response = await gateway.create(model="gpt-5")
        assert (response["model"], "antiphon_notices" in response) == ("gemma3", False)
        assert (await websocket_response(gateway, model="gpt-5"))["response"]["model"] == "gemma3"
        status, known = await gateway.get("/v1/models/gpt-5")
        assert (status, known["id"]) == (200, "gpt-5")
        _, listed = await gateway.get("/v1/models")
        assert [model["id"] for model in listed["data"]] == ["qwen3", "gemma3", "gpt-5"]
        assert listed["models"][0]["slug"] == "qwen3", "Codex is given a real model"
        assert (await gateway.get("/v1/models/absent"))[0] == 404


async def test_a_passed_through_body_names_the_model_that_answers(engine: MockEngine) -> None:
    engine.lists("qwen3", "gemma3")
    async with running_gateway(engine, model_names={"gpt-5": "gemma3"}, default_model="qwen3") as gateway:
        chat = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        for asked, answered, notice in [
            ("gpt-5", "gemma3", ""),
            ("o9", "qwen3", "model o9 is not known here: answered by qwen3"),
            (None, "qwen3", ""),
        ]:
            async with gateway.client.post(gateway.url + "/v1/chat/completions", json=chat | {"model": asked}) as answer:
                assert (answer.status, answer.headers.get("antiphon-notice", "")) == (200, notice)
            assert engine.last == chat | {"model": answered}


# ---- engines that list no models -------------------------------------------------------------------------------------


async def test_an_engine_without_a_list_of_models_gets_any_name(engine: MockEngine) -> None:
    engine.lists()
    async with running_gateway(engine) as gateway:
        assert (await gateway.get("/ready"))[0] == 200
        response = await gateway.create(model="org/some-model")
        assert (response["model"], "antiphon_notices" in response) == ("org/some-model", False)
        assert (await gateway.get("/v1/models"))[1]["data"] == []
        assert (await gateway.get("/v1/models/org/some-model"))[1]["id"] == "org/some-model"
    assert engine.last["model"] == "org/some-model"


async def test_the_default_model_of_an_engine_without_a_list_is_listed(engine: MockEngine) -> None:
    engine.lists()
    async with running_gateway(engine, default_model="big", model_names={"gpt-5": "big"}) as gateway:
        _, listed = await gateway.get("/v1/models")
        assert [model["slug"] for model in listed["models"]] == ["big", "gpt-5"]
        assert (await gateway.create(model=None))["model"] == "big"
        assert (await gateway.create(model="gpt-5"))["model"] == "big"


async def test_the_models_that_the_settings_name_are_listed_for_an_engine_without_a_list(engine: MockEngine) -> None:
    engine.list_answer = Refusal(500, {"error": "no hub cache"})
    async with running_gateway(engine, model_names={"gpt-5": "org/big", "gpt-4": "org/small"}) as gateway:
        _, listed = await gateway.get("/v1/models")
        assert [model["id"] for model in listed["data"]] == ["org/big", "org/small", "gpt-5", "gpt-4"]
        assert listed["models"][0]["slug"] == "org/big", "Codex is given the engine's own name"
        assert (await gateway.create(model="gpt-4"))["model"] == "org/small"
        assert (await gateway.create(model="org/other"))["model"] == "org/other"


async def test_beside_an_engine_that_lists_its_models_the_other_one_gets_the_unknown_names(engine: MockEngine) -> None:
    other = MockEngine()
    await other.start()
    other.lists()
    other.will(text("from the other"))
    async with running_gateway(engine, other) as gateway:
        for known in gateway.gateway.pool.engines:
            await known.identify()
        assert (await gateway.create(model="gpt-5"))["output_text"] == "from the other"
        assert (await gateway.create(model="mock"))["output_text"] == "Hello world"
    await other.stop()
    assert [body["model"] for body in other.requests] == ["gpt-5"]


# ---- the help that a model gets --------------------------------------------------------------------------------------

SMALL, STRONG = "Qwen2.5-Coder-1.5B", "Qwen3-Coder-480B"


async def test_the_list_says_which_models_get_help_and_why(engine: MockEngine) -> None:
    engine.lists(SMALL, STRONG)
    async with running_gateway(engine, model_names={"little": SMALL, "large": STRONG}) as gateway:
        _, listed = await gateway.get("/v1/models")
    given = {
        "easier_tools": True,
        "constrains_answers": False,
        "stops_loops": True,
        "lean_codex": True,
        "reason": "the model has 1.5 billion parameters",
    }
    assert listed["antiphon_help"] == {SMALL: given, "little": given}
    assert all(model.keys() == {"id", "object", "created", "owned_by"} for model in listed["data"])
    instructions = {entry["slug"]: entry["base_instructions"] for entry in listed["models"]}
    limits = {entry["slug"]: entry["truncation_policy"]["limit"] for entry in listed["models"]}
    assert instructions[SMALL] == instructions["little"] != instructions[STRONG] == instructions["large"]
    assert "*** Begin Patch" in instructions[STRONG]
    assert "@@" not in instructions[SMALL], "a small model copies an example"
    assert (limits[SMALL], limits[STRONG]) == (2000, 8192)


async def test_with_help_off_the_list_is_the_same_for_all_models(engine: MockEngine) -> None:
    engine.lists(SMALL, STRONG)
    async with running_gateway(engine, help="off") as gateway:
        _, listed = await gateway.get("/v1/models")
    assert listed.keys() == {"object", "data", "models"}
    small, strong = [{**entry, "slug": "", "display_name": ""} for entry in listed["models"]]
    assert small == strong


async def test_a_model_of_an_engine_that_lists_none_gets_help_by_its_name(engine: MockEngine) -> None:
    engine.list_answer = Refusal(500, {"error": "no hub cache"})
    async with running_gateway(engine, default_model=SMALL) as gateway:
        _, listed = await gateway.get("/v1/models")
    assert listed["antiphon_help"].keys() == {SMALL}


async def test_a_list_of_two_thousand_models_takes_twice_the_calls_of_one_thousand(engine: MockEngine) -> None:
    calls = {}
    for size in (1000, 2000):
        engine.lists(*(f"model-{number}-1.5B" for number in range(size)))
        names = {f"name-{number}": f"model-{number}-1.5B" for number in range(0, size, 2)}
        async with running_gateway(engine, model_names=names) as gateway:
            with counted_calls() as counted:
                _, listed = await gateway.get("/v1/models")
        assert len(listed["data"]) == len(listed["antiphon_help"]) == size * 3 / 2
        calls[size] = counted[0]
    assert calls[2000] <= 2.1 * calls[1000]
