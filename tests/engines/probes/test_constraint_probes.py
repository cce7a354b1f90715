"""What the probes find out about constraints, thoughts and efforts: of real llama.cpp with each template, and of mocks."""

from pathlib import Path

import pytest
from support.engine import Refusal, answer, chunk, text
from support.known_engines import KINDS
from support.llamacpp import running_llamacpp
from support.parser_templates import (
    LIKE_COMMAND_R,
    LIKE_DEEPSEEK,
    LIKE_DEEPSEEK_V3_2,
    LIKE_FUNCTIONARY,
    LIKE_GPT_OSS,
    LIKE_KIMI,
)
from support.templates import ALWAYS_THINKS, MAY_THINK, OWN_EFFORTS
from support.tiny_model import CHATML, write_tiny_model

from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.probes.prober import probe
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session

GOOD = '{"word": "quuxible", "number": 1}'


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", ends=False)


async def probed(url: str, model: str) -> dict[str, Finding]:
    async with make_session() as session:
        engine = Engine(url, session)
        await engine.identify()
        return {finding.capability: finding for finding in await probe(engine, model, quick=True)}


async def of_template(model: Path, template: str) -> dict[str, Finding]:
    with running_llamacpp(model, template=template) as url:
        return await probed(url, "tiny")


async def test_a_grammar_is_found_where_a_schema_is_ignored(model: Path) -> None:
    found = await of_template(model, LIKE_KIMI)
    for capability in ("json_schema", "json_schema with tools"):
        assert found[capability].verdict is Verdict.PARTLY
        assert found[capability].detail.endswith("; a grammar is obeyed")
    assert found["json_schema"].facts["constraint_member"] == "grammar"
    assert found["json_schema"].facts["constrains_json"] is True


async def test_a_schema_that_fails_beside_tools_is_told_from_an_engine_that_is_down(model: Path) -> None:
    found = await of_template(model, LIKE_DEEPSEEK)
    assert found["json_schema"].facts == {"constrains_json": True}
    together = found["json_schema with tools"]
    assert together.verdict is Verdict.DOES_NOT
    assert "does not match the expected" in together.detail
    assert together.facts == {"constrains_json_with_tools": False}


async def test_what_was_seen_without_thinking_is_not_said_of_thinking(model: Path) -> None:
    finding = (await of_template(model, MAY_THINK))["json_schema"]
    assert finding.verdict is Verdict.PARTLY
    assert "with thinking, none came" in finding.detail
    assert "asks again without thinking" in finding.remedy
    assert finding.facts == {"constrains_json": True}
    assert (await of_template(model, CHATML))["json_schema"].verdict is Verdict.WORKS


@pytest.mark.parametrize(
    ("template", "prefix"), [(LIKE_GPT_OSS, "<|channel|>final<|message|>"), (LIKE_FUNCTIONARY, "all\n"), (ALWAYS_THINKS, "")]
)
async def test_what_an_answer_must_begin_with_is_known_from_the_template(model: Path, template: str, prefix: str) -> None:
    finding = (await of_template(model, template))["answer format"]
    assert finding.facts == {"answer_prefix": prefix}
    assert finding.verdict is (Verdict.PARTLY if prefix else Verdict.WORKS)
    assert prefix.strip() in finding.detail


async def test_an_engine_that_fails_at_every_answer_after_a_result_is_known_from_the_template(model: Path) -> None:
    finding = (await of_template(model, LIKE_DEEPSEEK_V3_2))["answer format"]
    assert finding.facts == {"answer_prefix": "", "answers_results": False}
    assert finding.verdict is Verdict.PARTLY
    assert "after a result" in finding.detail
    assert "short user message" in finding.remedy
    sound = (await of_template(model, LIKE_DEEPSEEK))["answer format"]
    assert sound.facts == {"answer_prefix": "", "answers_results": True}
    assert sound.verdict is Verdict.WORKS


async def test_an_engine_whose_parser_fails_still_answers(model: Path) -> None:
    found = await of_template(model, LIKE_GPT_OSS)
    assert {each.detail for each in found.values() if "stopped answering" in each.detail} == set()
    assert "does not match the expected" in found["required choice"].detail


async def test_a_parser_that_fails_is_switched_off_for_the_probes_too(model: Path) -> None:
    with running_llamacpp(model, template=LIKE_COMMAND_R) as url:
        async with make_session() as session:
            engine = Engine(url, session)
            await engine.identify()
            found = {finding.capability: finding for finding in await probe(engine, "tiny")}
    assert found["json_schema"].verdict is Verdict.WORKS
    assert found["usage in streams"].verdict is Verdict.WORKS
    assert found["answer format"].verdict is Verdict.PARTLY
    assert "own parser fails" in found["answer format"].detail


async def test_the_efforts_of_a_template_are_rendered(model: Path) -> None:
    finding = (await of_template(model, OWN_EFFORTS))["reasoning efforts"]
    assert finding.verdict is Verdict.PARTLY
    assert "must be low or high" in finding.detail
    assert [*finding.facts["efforts"].values()] == ["none", "low", "low", "low", "high", "high", "high"]
    assert (await of_template(model, MAY_THINK))["reasoning efforts"].verdict is Verdict.WORKS


# ---- mocks -----------------------------------------------------------------------------------------------------------


async def test_one_failure_is_not_a_rejection() -> None:
    mock = KINDS["vllm"].engine()
    sound, failures = mock.otherwise, [Refusal(500, {"error": {"message": "out of memory"}})]
    mock.otherwise = lambda body: failures.pop() if {"response_format", "tools"} <= body.keys() and failures else sound(body)
    await mock.start()
    try:
        assert (await probed(mock.url, "mock"))["json_schema with tools"].verdict is Verdict.WORKS
    finally:
        await mock.stop()


async def test_a_choice_that_is_enforced_without_thinking_may_be_lost_with_it() -> None:
    mock = KINDS["vllm"].engine()
    sound, thought = mock.otherwise, answer(chunk({"reasoning": "Hm."}), finish="length")
    mock.otherwise = lambda body: (
        thought if body.get("tool_choice") == "required" and "reasoning_effort" not in body else sound(body)
    )
    await mock.start()
    try:
        found = await probed(mock.url, "mock")
        assert (found["required choice"].verdict, found["named choice"].verdict) == (Verdict.PARTLY, Verdict.WORKS)
        assert found["required choice"].facts == {"enforces_required": True}
        assert "with thinking, none came" in found["required choice"].detail
    finally:
        await mock.stop()


async def test_an_engine_that_thinks_briefly_works() -> None:
    mock = KINDS["vllm"].engine()
    sound, thought = mock.otherwise, answer(chunk({"reasoning": "Hm."}), chunk({"content": GOOD}))
    mock.otherwise = lambda body: (
        (text(GOOD) if "reasoning_effort" in body else thought) if "response_format" in body else sound(body)
    )
    await mock.start()
    try:
        assert (await probed(mock.url, "mock"))["json_schema"].verdict is Verdict.WORKS
    finally:
        await mock.stop()
