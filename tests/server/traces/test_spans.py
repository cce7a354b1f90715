"""Traces: a span for each response and one for each question to an engine, in the trace of the client."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from support.collector import Collector, running_collector
from support.engine import CUT, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import CHECKER, running_gateway
from support.toy_tool import DICE, Dice, roll

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.server.traces.provider import Traces
from antiphon.tools.runner import ToolContext
from bench.processes import free_port

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "rojo=1"}
INTERNAL, SERVER, CLIENT = 1, 2, 3
BODY = {"model": "mock", "input": "My secret question"}
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": False}


@pytest_asyncio.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    async with running_collector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


async def test_a_response_is_a_span_in_the_trace_of_its_client_and_the_engine_is_called_in_it(
    engine: MockEngine, collector: Collector
) -> None:
    engine.will(text("My secret answer"))
    async with running_gateway(engine, otel=True) as gateway:
        status, body = await gateway.post(BODY | {"temperature": 0.5, "max_output_tokens": 7}, headers=CONTEXT)
        assert status == 200
    (span,) = collector.responses
    assert (span.name, span.kind, span.trace, span.parent, span.failed) == ("chat mock", SERVER, TRACE, PARENT, False)
    assert span.service["service.name"] == "antiphon"
    seen = span.attributes
    assert seen.pop("gen_ai.response.time_to_first_chunk") > 0
    assert seen == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "antiphon",
        "gen_ai.request.model": "mock",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 7,
        "gen_ai.response.id": body["id"],
        "gen_ai.response.model": "mock",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "antiphon.channel": "http",
        "antiphon.status": "completed",
    }
    (called,) = collector.children(span)
    assert (called.name, called.kind, called.trace) == ("chat mock", CLIENT, TRACE)
    assert called.attributes["server.port"] == int(engine.url.rpartition(":")[2])
    assert called.attributes["antiphon.reason"] == "first"
    # The engine's own spans belong to the question.
    assert engine.headers[-1]["traceparent"] == f"00-{TRACE}-{called.id}-01"
    assert engine.headers[-1]["tracestate"] == "rojo=1"
    assert span.began <= called.began <= called.ended <= span.ended


async def test_the_words_are_those_of_the_conventions(engine: MockEngine, collector: Collector) -> None:
    async with running_gateway(engine, otel=True) as gateway:
        await gateway.stream("Hi")
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in collector.spans for name in span.attributes if name.startswith("gen_ai.")}
    assert len(used) > 8
    assert used - known == set()


async def test_neither_prompts_nor_answers_nor_keys_are_sent(engine: MockEngine, collector: Collector) -> None:
    engine.will(text("My secret answer"), Refusal(400, {"error": {"message": "My secret complaint"}}))
    async with running_gateway(engine, otel=True, api_key=("My secret key",)) as gateway:
        for _ in range(2):
            await gateway.post(BODY, headers={"Authorization": "Bearer My secret key"})
    assert len(collector.responses) == 2
    assert not any(b"secret" in body for body in collector.bodies)


async def test_every_question_to_an_engine_has_a_span_with_its_reason(engine: MockEngine, collector: Collector) -> None:
    engine.will(text("Sorry."), answer(call("add", "{}"), finish="tool_calls"))
    async with running_gateway(engine, otel=True) as gateway:
        await gateway.create("Hi", tools=[ADD], tool_choice="required")
    (span,) = collector.responses
    assert span.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert [each.attributes["antiphon.reason"] for each in collector.children(span)] == ["first", "repair"]
    assert len({headers["traceparent"] for headers in engine.headers[-2:]}) == 2


async def test_every_call_of_a_tool_that_the_gateway_runs_has_a_span(engine: MockEngine, collector: Collector) -> None:
    class OneSided(Dice):
        async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
            return ToolResult("My secret complaint", failed=True) if call.id == "bad" else roll(call)

    calls = [call("roll", '{"sides": 6, "why": "secret"}', id=id, index=at) for at, id in enumerate(("good", "bad"))]
    engine.will(answer(*calls, finish="tool_calls"), text("A six."))
    async with running_gateway(
        engine, otel=True, extensions=Extensions(tools={"dice": OneSided()}, checker=CHECKER)
    ) as gateway:
        await gateway.post(BODY | {"tools": [DICE]})
    (span,) = collector.responses
    assert span.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    good, bad = (each for each in collector.children(span) if each.kind == INTERNAL)
    assert (good.name, good.failed, bad.name, bad.failed) == ("execute_tool roll", False, "execute_tool roll", True)
    assert good.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "roll",
        "gen_ai.tool.call.id": "good",
        "gen_ai.tool.type": "extension",
        "antiphon.tool.kind": "dice",
    }
    assert bad.attributes["error.type"] == "tool_failed"
    asked = [each for each in collector.children(span) if each.kind == CLIENT]
    assert asked[0].ended <= good.began <= good.ended <= asked[1].began
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    assert {name for name in good.attributes if name.startswith("gen_ai.")} <= known
    assert not any(b"secret" in body for body in collector.bodies)


async def test_without_a_trace_of_the_client_one_begins_here(engine: MockEngine, collector: Collector) -> None:
    async with running_gateway(engine, otel=True) as gateway:
        await gateway.create("Hi")
        await gateway.create("Hi")
    first, second = collector.responses
    assert first.parent == second.parent == ""
    assert first.trace != second.trace


async def test_a_client_that_does_not_want_to_be_traced_is_not(engine: MockEngine, collector: Collector) -> None:
    async with running_gateway(engine, otel=True) as gateway:
        await gateway.post(BODY, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert collector.spans == []
    assert engine.headers[-1]["traceparent"].startswith(f"00-{TRACE}-")
    assert engine.headers[-1]["traceparent"].endswith("-00")


async def test_a_failure_has_the_code_of_its_error(engine: MockEngine, collector: Collector) -> None:
    async def cut(write: Writer) -> None:
        await write(chunk({"content": "half"}))
        await write(CUT)

    engine.will(cut, Refusal(400, {"error": {"message": "no"}}))
    async with running_gateway(engine, otel=True) as gateway:
        await gateway.stream("Hi")
        await gateway.post(BODY)
        await gateway.post({"model": "mock", "input": 7})
    failed, refused, unread = collector.responses
    assert failed.failed
    assert refused.failed
    assert unread.failed
    assert failed.attributes["error.type"] == "server_error"
    assert all(each.failed for span in (failed, refused) for each in collector.children(span))
    assert unread.attributes["error.type"] == "invalid_type"
    assert collector.children(unread) == []


async def test_a_client_that_leaves_ends_its_spans(engine: MockEngine, collector: Collector) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "Hello"}))
        await go_on.wait()

    engine.will(slow)
    async with running_gateway(engine, otel=True) as gateway:
        async with gateway.client.post(f"{gateway.url}/v1/responses", json=BODY | {"stream": True}) as streamed:
            await streamed.content.readuntil(b"output_text.delta")
            streamed.close()
        go_on.set()
    (span,) = collector.responses
    assert span.attributes["error.type"] == "client_disconnected"
    assert len(collector.children(span)) == 1


async def test_websockets_and_background_responses_are_traced(engine: MockEngine, collector: Collector) -> None:
    async with running_gateway(engine, otel=True) as gateway:
        async with gateway.client.ws_connect(gateway.url + "/v1/responses", headers=CONTEXT) as socket:
            await socket.send_json({"type": "response.create", **BODY})
            while (await socket.receive_json())["type"] != "response.completed":
                pass
        _, queued = await gateway.post(BODY | {"background": True}, headers=CONTEXT)
        async with gateway.client.get(f"{gateway.url}/v1/responses/{queued['id']}?stream=true") as followed:
            await followed.read()
    traces = {span.attributes["antiphon.channel"]: span.trace for span in collector.responses}
    assert traces.keys() == {"websocket", "background"}
    assert traces["websocket"] == TRACE
    # It runs apart from the request, and maybe on another machine.
    assert traces["background"] != TRACE


async def test_a_name_in_the_environment_counts(
    engine: MockEngine, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "the-gateway")
    async with running_gateway(engine, otel=True) as gateway:
        await gateway.create("Hi")
    assert {span.service["service.name"] for span in collector.spans} == {"the-gateway"}


async def test_nothing_is_sent_unless_the_setting_says_so(engine: MockEngine, collector: Collector) -> None:
    """A variable that is there for other programs is not enough."""
    async with running_gateway(engine) as gateway:
        await gateway.post(BODY, headers=CONTEXT)
    assert collector.bodies == []


async def test_a_collector_that_is_away_costs_no_response_and_does_not_delay_the_end(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    traces = Traces("1.0", closing_time=0.1)
    extensions = Extensions(checker=CHECKER, observers=[traces.observer(lambda engine: "plain")])
    async with running_gateway(engine, extensions=extensions) as gateway:
        assert (await gateway.create("Hi"))["status"] == "completed"
    # OpenTelemetry itself would try for ten seconds.
    async with asyncio.timeout(5):
        await traces.close()


async def test_what_opentelemetry_logs_is_in_our_log(caplog: pytest.LogCaptureFixture) -> None:
    await Traces("1.0").close()
    ours = logging.getLogger("antiphon")
    ours.addHandler(caplog.handler)
    try:
        logging.getLogger("opentelemetry.exporter").warning("The collector is %s.", "away")
    finally:
        ours.removeHandler(caplog.handler)
    lines = [(record.getMessage(), record.__dict__["members"]["reason"]) for record in caplog.records]
    assert ("traces", "The collector is away.") in lines
