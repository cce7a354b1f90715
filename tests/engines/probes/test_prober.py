"""What the probes find out about each engine, and that the gateway learns only what they have seen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from support.engine import CUT, DONE, Answer, Body, MockEngine, Refusal, Writer, call, chunk, objection, text
from support.engine import answer as whole
from support.gateway import running_gateway, started
from support.known_engines import KINDS, NO_PARSER, restamped, shape

from antiphon.core.knowledge.dialects import LLAMACPP, VLLM
from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.probes.prober import PROBES, learned, probe, teach
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session

WORKS, PARTLY, DOES_NOT, UNKNOWN = Verdict.WORKS, Verdict.PARTLY, Verdict.DOES_NOT, Verdict.UNKNOWN

# Capability → the verdict on each of the engines, in the order of KINDS.
EXPECTED: dict[str, tuple[Verdict, Verdict, Verdict, Verdict, Verdict]] = {
    "chat template": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "system role": (WORKS, DOES_NOT, WORKS, WORKS, WORKS),
    "developer role": (DOES_NOT, DOES_NOT, DOES_NOT, DOES_NOT, DOES_NOT),
    "late system message": (WORKS, DOES_NOT, WORKS, WORKS, WORKS),
    "user messages in a row": (WORKS, DOES_NOT, WORKS, WORKS, WORKS),
    "first message": (WORKS, WORKS, WORKS, WORKS, WORKS),
    "tools": (WORKS, WORKS, WORKS, DOES_NOT, DOES_NOT),
    "tool calls": (WORKS, DOES_NOT, WORKS, DOES_NOT, DOES_NOT),
    "call ids": (WORKS, WORKS, WORKS, WORKS, UNKNOWN),
    "parallel calls": (UNKNOWN, DOES_NOT, WORKS, DOES_NOT, UNKNOWN),
    "text beside calls": (WORKS, WORKS, WORKS, WORKS, UNKNOWN),
    "earlier reasoning": (WORKS, WORKS, WORKS, WORKS, WORKS),
    "required choice": (WORKS, WORKS, DOES_NOT, DOES_NOT, DOES_NOT),
    "named choice": (WORKS, WORKS, DOES_NOT, DOES_NOT, DOES_NOT),
    "strict arguments": (WORKS, WORKS, UNKNOWN, UNKNOWN, UNKNOWN),
    "json_schema": (WORKS, WORKS, WORKS, WORKS, WORKS),
    "json_schema with tools": (WORKS, UNKNOWN, WORKS, UNKNOWN, UNKNOWN),
    "answer format": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "reasoning efforts": (WORKS, WORKS, WORKS, WORKS, WORKS),
    "reasoning": (WORKS, PARTLY, WORKS, WORKS, UNKNOWN),
    "usage in streams": (WORKS, WORKS, WORKS, WORKS, WORKS),
    "cached tokens": (DOES_NOT, DOES_NOT, DOES_NOT, DOES_NOT, DOES_NOT),
    "logprobs": (WORKS, WORKS, DOES_NOT, DOES_NOT, DOES_NOT),
    "images": (DOES_NOT, DOES_NOT, DOES_NOT, DOES_NOT, DOES_NOT),
    "tokenizer endpoint": (WORKS, DOES_NOT, DOES_NOT, DOES_NOT, WORKS),
    "context window": (WORKS, PARTLY, WORKS, WORKS, UNKNOWN),
}

# Some of the facts that the gateway learns from each engine.
LEARNED: dict[str, dict[str, bool]] = {
    "vllm": {
        "enforces_required": True,
        "enforces_named": True,
        "constrains_calls": True,
        "takes_logprobs_with_tools": True,
        "returns_logprobs": True,
    },
    "vllm without flags": {
        "takes_system_role": False,
        "alternates": True,
        "reads_calls": False,
        "shows_tools": True,
        "enforces_required": True,
    },
    "ollama": {
        "shows_tools": True,
        "reads_calls": True,
        "enforces_required": False,
        "enforces_named": False,
        "returns_logprobs": False,
    },
    "ollama without tools": {"shows_tools": False, "reads_calls": False, "enforces_required": False},
    "lmdeploy without a tool parser": {"shows_tools": False, "reads_calls": False, "constrains_json": True},
}


@asynccontextmanager
async def known(mock: MockEngine) -> AsyncIterator[Engine]:
    """The engine after its detection."""
    async with started(mock), make_session() as session:
        engine = Engine(mock.url, session)
        await engine.identify()
        yield engine


def by_capability(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.capability: finding for finding in findings}


@pytest.mark.parametrize(("at", "name"), enumerate(KINDS), ids=KINDS)
async def test_the_table_shows_what_an_engine_can_do(at: int, name: str) -> None:
    async with known(KINDS[name].engine()) as engine:
        findings = await probe(engine, "mock")
    assert {finding.capability: finding.verdict for finding in findings} == {
        capability: verdicts[at] for capability, verdicts in EXPECTED.items()
    }
    for finding in findings:
        assert finding.detail
        short = finding.verdict in (PARTLY, DOES_NOT)
        assert bool(finding.remedy) >= short, f"Antiphon has a remedy for {finding.capability}"
        assert not finding.advice or short, "there is no advice for what works"
    facts = learned(findings)
    assert facts.items() >= LEARNED[name].items()
    engine.knowledge.learn("mock", facts)
    assert engine.knowledge.dialect_for("mock").alternates is facts["alternates"]


async def test_no_request_is_sent_twice() -> None:
    mock = KINDS["vllm"].engine()
    async with known(mock) as engine:
        await probe(engine, "mock")
    asked = [msgspec.json.encode(body) for body in mock.requests]
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize(
    ("name", "capability", "advice"),
    [
        ("vllm without flags", "tool calls", "--enable-auto-tool-choice --tool-call-parser"),
        ("vllm without flags", "reasoning", "--reasoning-parser"),
        ("vllm without flags", "context window", "--max-model-len"),
        ("vllm without flags", "cached tokens", "--enable-prompt-tokens-details"),
        ("lmdeploy without a tool parser", "tools", "--tool-call-parser"),
        ("lmdeploy without a tool parser", "tool calls", "--tool-call-parser"),
        ("lmdeploy without a tool parser", "logprobs", "--logprobs-mode"),
        ("ollama without tools", "tools", "ollama show"),
    ],
)
async def test_the_advice_names_the_flag_that_would_help(name: str, capability: str, advice: str) -> None:
    async with known(KINDS[name].engine()) as engine:
        assert advice in by_capability(await probe(engine, "mock"))[capability].advice


async def test_every_learned_fact_is_a_field_of_the_dialect() -> None:
    async with known(KINDS["vllm"].engine()) as engine:
        for facts in LEARNED.values():
            engine.knowledge.learn("mock", facts)
        assert engine.knowledge.dialect_for("mock").shows_tools is False
        assert engine.knowledge.dialect_for("by another name") == engine.knowledge.dialect_for("mock"), (
            "there is no other model"
        )


# ---- uncertain observations ------------------------------------------------------------------------------------------


async def test_an_engine_that_does_not_answer_teaches_nothing() -> None:
    mock = MockEngine()
    done = asyncio.Event()

    async def silent(write: Writer) -> None:
        await done.wait()

    mock.otherwise = lambda body: silent
    async with known(mock) as engine:
        findings = await probe(engine, "mock", time_limit=0.05)
        done.set()
    verdicts = {finding.capability: finding.verdict for finding in findings}
    assert verdicts.pop("tokenizer endpoint") is DOES_NOT, "this needs no answer"
    assert set(verdicts.values()) == {UNKNOWN}
    assert learned(findings) == {}
    assert len(mock.requests) == 3, "an engine that has stopped answering is left alone"
    assert "no answer within 0.05 seconds" in by_capability(findings)["system role"].detail


async def _cut(write: Writer) -> None:
    await write(chunk({"content": ""}))
    await write(CUT)


BROKEN: dict[str, Answer] = {
    "cut": _cut,
    "no end": chunk({"content": ""}),
    "no JSON": b"data: {broken\n\n",
    "busy": Refusal(503, {"error": {"message": "Loading model"}}),
    "rate limited": Refusal(429, {"error": {"message": "slow down"}}),
    "failed": Refusal(500, {"error": {"message": "out of memory"}}),
    "too small": Refusal(400, {"error": {"message": "this is longer than the model's context length"}}),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_teaches_nothing(answer: Answer) -> None:
    mock = KINDS["vllm"].engine()
    sound = mock.otherwise
    mock.otherwise = lambda body: answer if shape(body) in ("json", "required") else sound(body)
    async with known(mock) as engine:
        findings = by_capability(await probe(engine, "mock"))
    assert (findings["json_schema"].verdict, findings["required choice"].verdict) == (UNKNOWN, UNKNOWN)
    assert findings["json_schema"].facts == findings["required choice"].facts == {}
    assert findings["named choice"].verdict is WORKS


async def test_an_error_inside_a_stream_is_a_rejection() -> None:
    mock = KINDS["vllm"].engine()
    sound = mock.otherwise
    failing = chunk({"content": ""}) + b'data: {"error": {"message": "no grammars here", "code": 400}}\n\n' + DONE
    mock.otherwise = lambda body: failing if shape(body) == "json" else sound(body)
    async with known(mock) as engine:
        finding = by_capability(await probe(engine, "mock"))["json_schema"]
    assert finding.verdict is DOES_NOT
    assert "no grammars here" in finding.detail
    assert finding.facts == {"constrains_json": False, "takes_response_format": False}


def _calls_always(body: Body) -> Answer:
    return whole(call(body["tools"][0]["function"]["name"], "{}")) if "tools" in body else text("Hello")


def _only_reasons(body: Body) -> Answer:
    limit = body.get("max_tokens", 0)
    return b"".join([chunk({"reasoning_content": "Hm. " * limit}), chunk(finish="length"), DONE])


def _only_text(body: Body) -> Answer:
    return text("Hello there, ", "and a very good day.")


def _half_an_object(body: Body) -> Answer:
    return text('{"word": "quuxible", "num', finish="length") if "response_format" in body else text("Hello")


def _another_object(body: Body) -> Answer:
    return text('{"greeting": "hello"}') if "response_format" in body else text("Hello")


@pytest.mark.parametrize(
    ("answers", "capability", "verdict", "facts"),
    [
        (_calls_always, "required choice", UNKNOWN, {}),
        (_calls_always, "named choice", DOES_NOT, {"enforces_named": False}),
        (_calls_always, "json_schema with tools", UNKNOWN, {}),
        (_only_reasons, "required choice", UNKNOWN, {}),
        (_only_reasons, "json_schema", UNKNOWN, {}),
        (_only_reasons, "usage in streams", DOES_NOT, {"reports_usage": False}),
        (_only_text, "required choice", DOES_NOT, {"enforces_required": False}),
        (_only_text, "json_schema", DOES_NOT, {"constrains_json": False}),
        (_only_text, "logprobs", DOES_NOT, {"returns_logprobs": False}),
        (_only_reasons, "logprobs", UNKNOWN, {}),
        (_half_an_object, "json_schema", WORKS, {"constrains_json": True}),
        (_another_object, "json_schema", DOES_NOT, {"constrains_json": False}),
    ],
)
async def test_a_verdict_depends_on_structure(answers: Any, capability: str, verdict: Verdict, facts: dict[str, bool]) -> None:
    mock = MockEngine()
    mock.otherwise = answers
    async with known(mock) as engine:
        finding = by_capability(await probe(engine, "mock"))[capability]
    assert (finding.verdict, finding.facts) == (verdict, facts), finding.detail


async def test_an_engine_that_rejects_stream_options_is_probed_without_them() -> None:
    mock = KINDS["vllm"].engine()
    rejects, sound = mock.objects_to, mock.otherwise
    mock.objects_to = lambda body: "unknown field stream_options" if "stream_options" in body else rejects(body)

    def without_usage(body: Body) -> Answer:
        stream = sound(body)
        assert isinstance(stream, bytes)
        return b"".join(frame + b"\n\n" for frame in stream.split(b"\n\n") if frame and b'"usage":{' not in frame)

    mock.otherwise = without_usage
    async with known(mock) as engine:
        findings = await probe(engine, "mock")
        teach(engine, "mock", findings)
        assert engine.knowledge.dialect_for("mock").reports_usage is False
    found = by_capability(findings)
    assert (found["usage in streams"].verdict, found["required choice"].verdict) == (DOES_NOT, WORKS)
    assert found["tools"].verdict is UNKNOWN, "without counts it is not known what the model sees"


async def test_a_thought_that_the_template_opens_is_learned_and_unlearned() -> None:
    mock = KINDS["vllm"].engine()
    sound = mock.otherwise

    def unopened(body: Body) -> Answer:
        if shape(body) != "puzzle":
            return sound(body)
        return restamped("vllm_chat_text_stream", body, "", content="Seventeen, and more.\n</think>\n\n42.")

    mock.otherwise = unopened
    async with known(mock) as engine:
        teach(engine, "mock", await probe(engine, "mock"))
        assert engine.knowledge.dialect_for("mock").opens_thought
        mock.otherwise = sound
        teach(engine, "mock", await probe(engine, "mock"))
        assert not engine.knowledge.dialect_for("mock").opens_thought


def _reporting(body: Body, **usage: Any) -> Answer:
    counts = {"prompt_tokens": 40, "completion_tokens": 1, "total_tokens": 41, **usage}
    return b"".join([chunk({"content": "Hello"}), chunk(finish="stop"), chunk(usage=counts), DONE])


@pytest.mark.parametrize(
    ("details", "verdict", "detail"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 32}}, WORKS, "32 tokens"),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, UNKNOWN, "not cached"),
        ({"prompt_tokens_details": None}, DOES_NOT, "does not have them"),
        ({}, DOES_NOT, "does not have them"),
    ],
)
async def test_cached_tokens_are_found_where_the_same_prompt_comes_twice(details: Body, verdict: Verdict, detail: str) -> None:
    mock = MockEngine(owned_by="sglang")
    mock.otherwise = lambda body: _reporting(body, **details)
    async with known(mock) as engine:
        finding = by_capability(await probe(engine, "mock"))["cached tokens"]
    assert (finding.verdict, finding.facts) == (verdict, {})
    assert detail in finding.detail
    assert finding.advice == ("--enable-cache-report" if verdict is DOES_NOT else "")
    prompts = [body["messages"] for body in mock.requests if len(str(body["messages"])) > 1000]
    assert len(prompts) == 2
    assert prompts[0] == prompts[1]


def _sees(body: Body) -> Answer:
    return _reporting(body, prompt_tokens=40 + 60 * has_image(body))


def _ignores(body: Body) -> Answer:
    return _reporting(body)


def _counts_nothing(body: Body) -> Answer:
    return text("Hello").replace(b"usage", b"unused")


def has_image(body: Body) -> bool:
    return "image_url" in str(body["messages"])


@pytest.mark.parametrize(
    ("answers", "verdict", "facts"),
    [
        (_sees, WORKS, {"shows_images": True}),
        (_ignores, DOES_NOT, {"shows_images": False}),
        (_counts_nothing, UNKNOWN, {}),
    ],
)
async def test_an_image_that_does_not_make_the_prompt_longer_is_not_seen(
    answers: Any, verdict: Verdict, facts: dict[str, bool]
) -> None:
    mock = MockEngine()
    mock.otherwise = answers
    async with known(mock) as engine:
        finding = by_capability(await probe(engine, "mock"))["images"]
    assert (finding.verdict, finding.facts) == (verdict, facts), finding.detail


async def test_the_gateway_learns_that_images_are_ignored_and_says_so() -> None:
    mock = MockEngine()
    mock.otherwise = _ignores
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    question = [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, image]}]
    async with started(mock), running_gateway(mock, probe=True) as gateway:
        await gateway.probed()
        response = await gateway.create(question)
        assert has_image(mock.last), "the engine may have learned to see"
        assert "the model may not see them" in gateway.notice
        assert any("the model may not see them" in notice for notice in response["antiphon_notices"])
        await gateway.create("Hi")
        assert "images" not in gateway.notice


async def test_an_answer_is_ended_once_it_has_shown_enough() -> None:
    """Sixty tokens take long on a slow engine."""
    mock = MockEngine()

    async def endless(write: Writer) -> None:
        while True:
            await write(chunk({"content": "and so on "}))
            await asyncio.sleep(0)

    mock.otherwise = lambda body: endless if shape(body) == "required" else text("Hello")
    async with known(mock) as engine:
        findings = by_capability(await probe(engine, "mock"))
        await mock.cancelled.wait()
    assert findings["required choice"].verdict is DOES_NOT


# ---- the table -------------------------------------------------------------------------------------------------------


def test_the_quick_probes_are_those_that_teach() -> None:
    """At the start no table is shown: a probe that teaches nothing would only cost tokens."""
    quick = {probe.capability for probe in PROBES if probe.is_quick(LLAMACPP)}
    informative = {"developer role", "late system message", "cached tokens", "tokenizer endpoint", "context window"}
    assert quick == set(EXPECTED) - informative - {"strict arguments"}
    assert "reasoning" not in {probe.capability for probe in PROBES if probe.is_quick(VLLM)}, "it takes a whole answer there"


def test_the_mocks_are_strict() -> None:
    plain = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}
    for name, kind in KINDS.items():
        assert kind.refuses({**plain, "nonsense": 1}) == objection({**plain, "nonsense": 1}), name
    assert KINDS["vllm without flags"].refuses({**plain, "tools": [], "tool_choice": "auto"}) == NO_PARSER
