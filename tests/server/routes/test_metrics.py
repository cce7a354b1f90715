"""GET /metrics: every metric moves when it should, has few labels, and is shown to nobody who may not see it."""

import asyncio
from typing import Any

import pytest
from support import batches
from support.engine import CUT, DONE, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import CHECKER, DEFAULTS, GatewayUnderTest, running_gateway, started
from support.metrics import scrape
from support.raw_client import dialled
from support.stores import interposed
from support.toy_tool import DICE, Dice, roll
from support.ways_in import Doors, until

from antiphon import __version__
from antiphon.app.options import Intervals
from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import StoreUnavailable
from antiphon.gateway.usage.model_names import MOST_UNLISTED_MODELS, MOST_VALUES
from antiphon.ids import hash_of_key
from antiphon.settings.keys import to_hashed
from antiphon.settings.settings import Settings
from antiphon.tools.runner import ToolContext
from bench.processes import free_port

BODY = {"model": "mock", "input": "Hi"}
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 7},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
SAID = chunk({"content": "Hel"}) + chunk({"content": "lo"}) + chunk(finish="stop") + chunk(usage=USAGE) + DONE


@pytest.mark.usefixtures("both_transports")
async def test_a_response_is_counted_with_its_times_and_its_tokens(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(SAID, SAID)
    await gateway.stream("Hi")
    await gateway.create("Hi")
    seen = await scrape(gateway)
    mine = {"model": "mock", "key": "none"}
    assert seen.value("antiphon_responses_total", channel="http", outcome="completed", **mine) == 2
    assert seen.value("antiphon_response_seconds_count", channel="http", model="mock") == 2
    assert seen.value("antiphon_time_to_first_token_seconds_count", model="mock") == 2
    assert seen.value("antiphon_inter_token_seconds_count", model="mock") == 2
    first, whole = (seen.value(f"antiphon_{name}_seconds_sum") for name in ("time_to_first_token", "response"))
    assert 0 < first <= whole
    assert 0 < seen.value("antiphon_inter_token_seconds_sum") < whole
    for name, tokens in (("input", 12), ("cached_input", 7), ("output", 5), ("reasoning", 2)):
        assert seen.value(f"antiphon_{name}_tokens_total", **mine) == 2 * tokens
    assert seen.value("antiphon_engine_answers_total", engine=engine.url, outcome="ok") == 2


async def test_requests_are_counted_by_route_method_and_status(gateway: GatewayUnderTest) -> None:
    await gateway.create("Hi")
    await gateway.post(BODY, path="/openai/responses")
    await gateway.post({"model": "mock", "input": 7})
    await gateway.get("/v1/responses/resp_1")
    await gateway.get("/openai/files/file-1/content")
    await gateway.get("/nowhere/else")
    await gateway.get("/health")
    await gateway.get("/v1/models", method="PROPFIND")
    async with dialled(gateway) as client:
        await client.send(b"not HTTP\r\n\r\n")
        await client.rest()
    seen = await scrape(gateway)
    name = "antiphon_http_requests_total"
    assert seen.value(name, route="/v1/responses", method="POST", status="200") == 2
    assert seen.value(name, route="/v1/responses", method="POST", status="400") == 1
    assert seen.value(name, route="/v1/responses/{id}", method="GET", status="404") == 1
    assert seen.value(name, route="/v1/files/{id}/content", method="GET", status="404") == 1
    assert seen.value(name, route="unknown", status="404") == 1
    assert seen.value(name, route="/health", method="GET", status="200") == 1
    assert seen.value(name, method="other", status="405") == 1
    assert seen.value(name, route="unreadable", status="400") == 1


async def test_a_refused_request_is_counted_without_the_model_that_it_names(gateway: GatewayUnderTest) -> None:
    """A client may name any model: each would be a series."""
    for number in range(3):
        await gateway.post({"model": f"any-{number}", "input": 7})
    seen = await scrape(gateway)
    assert seen.value("antiphon_responses_total", outcome="refused", model="none") == 3
    assert seen.value("antiphon_errors_total", code="invalid_type") == 3
    assert seen.labels("antiphon_responses_total", "model") == {"none"}


async def test_the_channels_are_counted_apart(gateway: GatewayUnderTest) -> None:
    async with gateway.client.ws_connect(gateway.url + "/v1/responses") as socket:
        await socket.send_json({"type": "response.create", **BODY})
        while (await socket.receive_json())["type"] != "response.completed":
            pass
        assert (await scrape(gateway)).value("antiphon_websockets_open") == 1
    await gateway.post(BODY, path="/v1/responses/compact")
    _, queued = await gateway.post(BODY | {"background": True})
    async with gateway.client.get(f"{gateway.url}/v1/responses/{queued['id']}?stream=true") as followed:
        await followed.read()
    seen = await scrape(gateway)
    assert seen.labels("antiphon_responses_total", "channel") == {"websocket", "compact", "background"}
    assert seen.value("antiphon_responses_total", channel="background", outcome="completed") == 1


async def test_responses_that_run_and_clients_that_leave_are_counted(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "Hello"}))
        begun.set()
        await go_on.wait()

    engine.will(slow)
    async with gateway.client.post(f"{gateway.url}/v1/responses", json=BODY | {"stream": True}) as streamed:
        await streamed.content.readuntil(b"output_text.delta")
        await begun.wait()
        seen = await scrape(gateway)
        assert seen.value("antiphon_responses_running", channel="http", stream="true") == 1
        assert seen.value("antiphon_engine_running", engine=engine.url) == 1
        streamed.close()
    go_on.set()
    await gateway.gateway.in_flight.drain(5)
    seen = await scrape(gateway)
    assert seen.value("antiphon_responses_running") == 0
    assert seen.value("antiphon_responses_total", outcome="left") == 1
    assert seen.value("antiphon_http_requests_total", route="/v1/responses", status="499") == 1


async def test_what_is_asked_again_is_counted_by_its_reason(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Sorry."), answer(call("add", "{}"), finish="tool_calls"))
    add = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": False}
    await gateway.create("Hi", tools=[add], tool_choice="required")
    seen = await scrape(gateway)
    assert seen.value("antiphon_asked_again_total", reason="repair") == 1
    assert seen.value("antiphon_engine_answers_total", outcome="ok") == 2


async def test_an_answer_that_fails_is_counted_by_its_code(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await write(CUT)

    engine.will(cut, Refusal(400, {"error": {"message": "no"}}))
    await gateway.stream("Hi")
    await gateway.post(BODY)
    seen = await scrape(gateway)
    assert seen.value("antiphon_responses_total", outcome="failed", model="mock") == 1
    assert seen.value("antiphon_responses_total", outcome="refused", model="mock") == 1
    assert seen.value("antiphon_errors_total") == 2
    assert seen.value("antiphon_engine_answers_total", engine=engine.url, outcome="ok") == 0
    assert seen.value("antiphon_engine_answers_total", engine=engine.url) == 2


async def test_the_state_of_the_engines_is_shown(engine: MockEngine) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    async with running_gateway(engine, gone, engine_requests=1, intervals=Intervals(engine_retry=600)) as gateway:
        await gateway.gateway.pool.identify()
        seen = await scrape(gateway)
    assert seen.value("antiphon_engine_up", engine=engine.url) == 1
    assert seen.value("antiphon_engine_up", engine=gone) == 0
    assert seen.labels("antiphon_engine_waiting", "engine") == {engine.url, gone}
    assert seen.value("antiphon_engine_info", engine=engine.url, dialect="plain") == 1
    assert seen.value("antiphon_build_info", version=__version__) == 1


async def test_the_requests_that_wait_for_an_engine_are_shown(engine: MockEngine) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(write: Writer) -> None:
        asked.set()
        await go_on.wait()
        await write(text("Hello"))

    engine.will(slow)
    async with running_gateway(engine, engine_requests=1) as gateway:
        first = asyncio.create_task(gateway.post(BODY))
        await asked.wait()
        second = asyncio.create_task(gateway.post(BODY))
        seen = await scrape(gateway)
        while not seen.value("antiphon_engine_waiting"):
            seen = await scrape(gateway)
        go_on.set()
        await asyncio.gather(first, second)
    assert seen.value("antiphon_engine_running", engine=engine.url) == 1
    assert seen.value("antiphon_engine_waiting", engine=engine.url) == 1


async def test_the_store_and_the_checks_are_timed(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"], "additionalProperties": False}
    engine.will(text('{"to": "Ada"}'))
    await gateway.create("Hi", text={"format": {"type": "json_schema", "name": "x", "strict": True, "schema": schema}})
    seen = await scrape(gateway)
    assert seen.value("antiphon_store_operation_seconds_count", operation="put") == 1
    assert seen.value("antiphon_store_operation_seconds_sum", operation="put") > 0
    assert seen.value("antiphon_check_seconds_count") >= 1
    assert seen.value("antiphon_checks_unfinished_total") == 0
    assert seen.value("antiphon_store_up") == 1


async def test_a_store_that_fails_is_shown(engine: MockEngine) -> None:
    async def fails(*_: Any) -> None:
        raise StoreUnavailable

    store, interference = interposed()
    interference.instead["check"] = fails
    async with running_gateway(engine, shares=store) as gateway:
        seen = await scrape(gateway)
    assert seen.value("antiphon_store_up") == 0
    assert not seen.labels("antiphon_background_jobs", "state")


async def test_the_background_queue_is_shown(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=0) as gateway:
        for _ in range(2):
            await gateway.post(BODY | {"background": True})
        seen = await scrape(gateway)
    assert seen.value("antiphon_background_jobs", state="waiting") == 2
    assert seen.value("antiphon_background_jobs", state="running") == 0


async def test_the_lines_of_batches_are_shown(engine: MockEngine) -> None:
    doors = Doors(engine)
    async with running_gateway(engine) as gateway, batches.sdk(gateway) as client:
        made = await batches.begin(client, [batches.line(str(number)) for number in range(6)])
        await until(lambda: doors.waiting == 4)
        seen = await scrape(gateway)
        assert seen.value("antiphon_batch_lines", state="waiting") == 2
        assert seen.value("antiphon_batch_lines", state="running") == 4
        doors.open(100)
        await batches.ended(client, made.id)
        seen = await scrape(gateway)
        assert seen.value("antiphon_batch_lines", state="waiting") == 0
        assert seen.value("antiphon_responses_total", channel="batch", outcome="completed") == 6


# ---- labels ----------------------------------------------------------------------------------------------------------


async def test_of_too_many_models_the_rest_is_one_label(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    models = [f"model-{number}" for number in range(MOST_VALUES + 3)]
    engine.lists(*models)
    for model in models:
        await gateway.post({"model": model, "input": "Hi", "store": False})
    seen = await scrape(gateway)
    assert len(seen.labels("antiphon_output_tokens_total", "model")) == MOST_VALUES + 1
    assert seen.value("antiphon_responses_total", model="other") == 3


async def test_names_that_clients_invent_use_up_no_labels() -> None:
    """The engine lists no models, and answers for all of them."""
    async with started(MockEngine()) as engine:
        engine.lists()
        async with running_gateway(engine, default_model="real", model_names={"alias": "named"}) as gateway:
            for model in [f"any-{number}" for number in range(MOST_VALUES + 3)] + ["real", "alias"]:
                await gateway.post({"model": model, "input": "Hi", "store": False})
            seen = await scrape(gateway)
    labels = seen.labels("antiphon_responses_total", "model")
    assert labels == {f"any-{number}" for number in range(MOST_UNLISTED_MODELS)} | {"real", "named", "other"}


async def test_a_name_that_no_response_completed_for_gets_no_label() -> None:
    async with started(MockEngine()) as engine:
        engine.lists()
        engine.will(Refusal(404, {"error": {"message": "no such model"}}), CUT)
        async with running_gateway(engine) as gateway:
            for model in ("refused", "cut", "good"):
                await gateway.post({"model": model, "input": "Hi", "store": False})
            seen = await scrape(gateway)
    assert seen.labels("antiphon_responses_total", "model") == {"other", "good"}


async def test_variants_of_a_listed_model_use_up_no_labels(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for number in range(MOST_VALUES + 3):
        await gateway.post({"model": f"mock:any-{number}", "input": "Hi", "store": False})
    await gateway.post(BODY)
    labels = (await scrape(gateway)).labels("antiphon_responses_total", "model")
    assert {"mock", "other"} < labels
    assert len(labels) == MOST_UNLISTED_MODELS + 2


async def test_a_key_is_shown_by_its_name_and_never_by_itself_or_its_hash(engine: MockEngine) -> None:
    secrets = {"ada": "sk-of-ada-0123456789", "plain": "sk-without-a-name-012", "admin": "sk-of-the-admin-01234"}
    settings: dict[str, Any] = {
        "api_key": (secrets["plain"],),
        "keys": {"ada": (secrets["ada"],)},
        "admin_key": (secrets["admin"],),
    }
    async with running_gateway(engine, **settings) as gateway:
        for key in secrets.values():
            status, _ = await gateway.post(BODY, headers={"Authorization": f"Bearer {key}"})
            assert status == 200
        seen = await scrape(gateway, secrets["admin"])
    assert seen.labels("antiphon_responses_total", "key") == {"ada", "unnamed", "admin"}
    hidden = {part for key in secrets.values() for part in (key, hash_of_key(key.encode()))}
    assert [part for part in hidden if part in seen.text] == []


# ---- who may read them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "status", "words"),
    [
        (None, 401, "metrics_key"),
        ("sk-wrong", 401, "Incorrect"),
        ("sk-client", 403, "admin_key or a metrics_key"),
        ("sk-admin", 200, ""),
        ("sk-metrics", 200, ""),
    ],
)
async def test_where_keys_are_set_the_metrics_need_one_that_is_for_them(
    engine: MockEngine, key: str | None, status: int, words: str
) -> None:
    keys: dict[str, Any] = {"api_key": ("sk-client",), "admin_key": ("sk-admin",), "metrics_key": ("sk-metrics",)}
    async with running_gateway(engine, **keys) as gateway:
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        async with gateway.client.get(gateway.url + "/metrics", headers=headers) as answered:
            assert answered.status == status
            assert words in await answered.text()


async def test_a_key_for_the_metrics_is_for_nothing_else(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("sk-client",), metrics_key=("sk-metrics",)) as gateway:
        status, _ = await gateway.post(BODY, headers={"Authorization": "Bearer sk-metrics"})
        assert status == 401


async def test_a_key_for_the_metrics_is_needed_where_clients_need_none(engine: MockEngine) -> None:
    async with running_gateway(engine, metrics_key=("sk-metrics",)) as gateway:
        assert (await gateway.post(BODY))[0] == 200
        status, _ = await gateway.get("/metrics")
        assert status == 401
        await scrape(gateway, "sk-metrics")


async def test_the_keys_for_the_metrics_can_be_replaced_while_it_runs(engine: MockEngine) -> None:
    async with running_gateway(engine, metrics_key=("sk-old",)) as gateway:
        new = Settings(upstream=(engine.url,), port=0, metrics_key=(to_hashed("sk-new"),), **DEFAULTS)
        await gateway.reload(new)
        status, _ = await gateway.get("/metrics", headers={"Authorization": "Bearer sk-old"})
        assert status == 401
        await scrape(gateway, "sk-new")


async def test_without_keys_a_page_whose_name_was_pointed_here_reads_no_metrics(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.get("/metrics", headers={"Host": "evil.example"})
    assert (status, body["error"]["code"]) == (403, "host_not_allowed")


async def test_metrics_can_be_turned_off(engine: MockEngine) -> None:
    async with running_gateway(engine, metrics=False) as gateway:
        await gateway.stream("Hi")
        status, body = await gateway.get("/metrics")
    assert (status, body["error"]["code"]) == (404, "metrics_off")
    assert "setting metrics" in body["error"]["message"]


async def test_calls_of_tools_that_the_gateway_runs_are_counted_and_timed(engine: MockEngine) -> None:
    class OneSided(Dice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            if call.arguments == '{"sides": 1}':
                raise ValueError("there is no such die")
            return roll(call)

    calls = [call("roll", f'{{"sides": {sides}}}', id=f"c{sides}", index=at) for at, sides in enumerate((1, 6, 20))]
    engine.will(answer(*calls, finish="tool_calls"), text("Done."))
    extensions = Extensions(tools={"dice": OneSided()}, checker=CHECKER)
    async with running_gateway(engine, extensions=extensions) as gateway:
        await gateway.post(BODY | {"tools": [DICE]})
        seen = await scrape(gateway)
    assert seen.value("antiphon_tool_calls_total", kind="dice", outcome="ok") == 2
    assert seen.value("antiphon_tool_calls_total", kind="dice", outcome="failed") == 1
    assert seen.value("antiphon_tool_call_seconds_count", kind="dice") == 3


async def test_a_call_that_is_stopped_is_counted_as_such(engine: MockEngine) -> None:
    begun = asyncio.Event()

    class Slow(Dice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

    engine.will(answer(call("roll", '{"sides": 6}'), finish="tool_calls"))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Slow()}, checker=CHECKER)) as gateway:
        async with gateway.client.post(f"{gateway.url}/v1/responses", json=BODY | {"tools": [DICE], "stream": True}):
            await begun.wait()
        await gateway.gateway.in_flight.drain(5)
        seen = await scrape(gateway)
    assert seen.value("antiphon_tool_calls_total", kind="dice", outcome="stopped") == 1
    assert seen.value("antiphon_tool_calls_total") == seen.value("antiphon_tool_call_seconds_count") == 1
