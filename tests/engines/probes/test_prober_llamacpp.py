"""The probes of real llama.cpp: its template decides what it can do, and the reasoning format where reasoning appears."""

from pathlib import Path

import pytest
from support.gateway import running_gateway
from support.llamacpp import running_llamacpp
from support.templates import ALTERNATING, OPENS_THOUGHT, THINKING, THINKING_WITH_TOOLS
from support.tiny_model import CHATML, write_tiny_model

from antiphon.engines.probes.answers import Knowledge, ask_for_code_word
from antiphon.engines.probes.client import TIME_LIMIT, ProbeClient
from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.probes.prober import learned, probe, teach
from antiphon.engines.requests import EngineOptions
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session

WORKS, PARTLY, DOES_NOT, UNKNOWN = Verdict.WORKS, Verdict.PARTLY, Verdict.DOES_NOT, Verdict.UNKNOWN

# The verdicts that do not depend on the template.
ALWAYS = {
    "required choice": DOES_NOT,
    "named choice": DOES_NOT,
    "strict arguments": UNKNOWN,
    "json_schema": WORKS,
    "json_schema with tools": WORKS,
    "answer format": WORKS,
    "reasoning efforts": WORKS,
    "usage in streams": WORKS,
    "cached tokens": WORKS,
    "logprobs": PARTLY,
    "images": DOES_NOT,
    "tokenizer endpoint": WORKS,
    "context window": PARTLY,
    "system role": WORKS,
    "developer role": WORKS,
    "late system message": WORKS,
    "user messages in a row": WORKS,
    "chat template": WORKS,
    "first message": WORKS,
    "call ids": WORKS,
    "tool calls": WORKS,
    "text beside calls": WORKS,
    "earlier reasoning": WORKS,
}
FORMATS = {
    "deepseek": "comes in reasoning_content",
    # This build of llama.cpp treats it like deepseek.
    "deepseek-legacy": "comes in reasoning_content",
    "none": "comes in reasoning_content; by default it would come in the text, between <think> and </think>",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", ends=False)


async def probed(model: Path, template: str, reasoning_format: str = "deepseek") -> tuple[dict[str, Finding], Engine]:
    with running_llamacpp(model, template=template, reasoning_format=reasoning_format) as url:
        async with make_session() as session:
            engine = Engine(url, session)
            await engine.identify()
            findings = await probe(engine, "tiny")
            teach(engine, "tiny", findings)
    return {finding.capability: finding for finding in findings}, engine


@pytest.mark.parametrize("reasoning_format", FORMATS)
@pytest.mark.parametrize(("template", "tools"), [(THINKING, DOES_NOT), (THINKING_WITH_TOOLS, WORKS)], ids=["bare", "tools"])
async def test_the_table_of_llamacpp(model: Path, template: str, tools: Verdict, reasoning_format: str) -> None:
    findings, engine = await probed(model, template, reasoning_format)
    verdicts = {capability: finding.verdict for capability, finding in findings.items()}
    assert verdicts == ALWAYS | {"tools": tools, "parallel calls": WORKS, "reasoning": WORKS}
    assert findings["reasoning"].detail == FORMATS[reasoning_format]
    dialect = engine.knowledge.dialect_for("tiny")
    assert (dialect.shows_tools, dialect.enforces_required, dialect.takes_logprobs_with_tools) == (tools is WORKS, False, False)
    assert dialect.returns_logprobs
    assert not dialect.shows_images
    assert dialect.constrains_json
    assert not engine.knowledge.dialect_for("tiny").opens_thought


async def test_a_template_without_reasoning_leaves_it_in_the_text(model: Path) -> None:
    findings, engine = await probed(model, CHATML)
    assert findings["reasoning"].verdict is PARTLY
    assert "between <think> and </think>" in findings["reasoning"].detail
    assert findings["earlier reasoning"].verdict is PARTLY
    assert findings["parallel calls"].verdict is UNKNOWN, "it shows no calls at all"
    assert "--chat-template-file" in findings["tools"].advice
    assert not engine.knowledge.dialect_for("tiny").opens_thought


@pytest.mark.parametrize("reasoning_format", FORMATS)
async def test_a_template_that_opens_the_thought_is_learned(model: Path, reasoning_format: str) -> None:
    findings, engine = await probed(model, OPENS_THOUGHT, reasoning_format)
    assert findings["reasoning"].verdict is PARTLY
    assert engine.knowledge.dialect_for("tiny").opens_thought


async def test_a_template_that_wants_turns_to_alternate_is_learned(model: Path) -> None:
    findings, engine = await probed(model, ALTERNATING)
    assert findings["user messages in a row"].verdict is DOES_NOT
    assert "must alternate" in findings["user messages in a row"].detail
    assert findings["late system message"].verdict is DOES_NOT
    assert engine.knowledge.dialect_for("tiny").alternates is True


async def test_the_gateway_learns_from_a_real_engine_before_its_first_stream(model: Path) -> None:
    """Otherwise only the first answer would show that the template opens the thought."""
    with running_llamacpp(model, template=OPENS_THOUGHT) as url:
        async with running_gateway(url, probe=True) as gateway:
            await gateway.probed()
            (engine,) = gateway.gateway.pool.engines
            assert engine.knowledge.dialect_for("tiny").shows_tools is False
            assert engine.knowledge.dialect_for("tiny").opens_thought
            events = await gateway.stream(model="tiny", max_output_tokens=24)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["reasoning"]


async def test_the_quick_probes_teach_all_that_the_full_set_does(model: Path) -> None:
    with running_llamacpp(model, template=THINKING_WITH_TOOLS) as url:
        async with make_session() as session:
            engine = Engine(url, session)
            await engine.identify()
            assert learned(await probe(engine, "tiny", quick=True)) == learned(await probe(engine, "tiny"))


# ---- what a model knows of its tools ---------------------------------------------------------------------------------


async def knowledge_of(model: Path, template: str) -> Knowledge:
    """As of an engine that shows no prompts."""
    with running_llamacpp(model, template=template) as url:
        async with make_session() as session:
            engine = Engine(url, session, EngineOptions(dialect="plain"))
            await engine.identify()
            return await ask_for_code_word(ProbeClient(engine, model.stem, TIME_LIMIT), "auto")


@pytest.mark.parametrize("template", [THINKING, THINKING_WITH_TOOLS], ids=["no tools", "tools"])
async def test_a_model_of_random_weights_never_hits_on_the_code_word(model: Path, template: str) -> None:
    assert await knowledge_of(model, template) is not Knowledge.KNOWS


@pytest.mark.smollm2
@pytest.mark.parametrize(("template", "knows"), [(THINKING, False), (THINKING_WITH_TOOLS, True)], ids=["no tools", "tools"])
async def test_a_small_model_knows_the_code_word_if_its_template_shows_tools(
    model_cache: Path, template: str, knows: bool
) -> None:
    assert (await knowledge_of(model_cache / "models" / "smollm2.gguf", template) is Knowledge.KNOWS) is knows
