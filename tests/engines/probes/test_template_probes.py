"""What the probes learn from real chat templates, on real llama.cpp: each demand from a template that has it, and from one that
has not. Nothing is generated for it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support import demanding_templates as t
from support.engine import Body, MockEngine, Refusal
from support.known_engines import KINDS, prompt_of
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.core.knowledge.dialects import LLAMACPP, SGLANG, VLLM
from antiphon.core.knowledge.template_demands import REMEDIES
from antiphon.engines.affinity import NO_ROUTING
from antiphon.engines.probes.findings import Finding, NoAnswer, Verdict
from antiphon.engines.probes.prober import PROBES, findings_of, learned, probe
from antiphon.engines.requests import EngineOptions
from antiphon.engines.token_counts import count_by_template
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session
from antiphon.wire.chat import ChatMessage, ChatRequest

WORKS, PARTLY, DOES_NOT, UNKNOWN = Verdict.WORKS, Verdict.PARTLY, Verdict.DOES_NOT, Verdict.UNKNOWN
SILENT = [each for each in PROBES if not each.generates(LLAMACPP)]

# What is learned of a template that takes and shows everything.
FREE: dict[str, Any] = {
    "takes_system_role": True,
    "alternates": False,
    "begins_with_user": False,
    "call_id_length": None,
    "takes_parallel_calls": True,
    "shows_text_with_calls": True,
    "shows_reasoning": True,
    "reasoning_member": "reasoning_content",
    "shows_tools": True,
    "reads_calls": True,
    "answer_prefix": "",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", ends=False)


@asynccontextmanager
async def serving(model: Path, template: str) -> AsyncIterator[Engine]:
    with running_llamacpp(model, template=template) as url:
        async with make_session() as session:
            engine = Engine(url, session)
            await engine.identify()
            yield engine


async def examined(model: Path, template: str) -> dict[str, Finding]:
    """What the probes find that generate nothing."""
    async with serving(model, template) as engine:
        found = [finding async for finding in findings_of(engine, "tiny", quick=False, probes=SILENT)]
    return {finding.capability: finding for finding in found}


# Template → the capabilities that fall short, in which words, and the facts that differ.
DEMANDING: dict[str, tuple[str, dict[str, tuple[Verdict, str]], dict[str, Any]]] = {
    "no answer without a user": (
        t.ANSWERS_USERS,
        {"first message": (DOES_NOT, "no user message: accepted, but the prompt does not ask the model for an answer then")},
        {"begins_with_user": True},
    ),
    "strict turns": (
        t.STRICT_TURNS,
        {
            "user messages in a row": (DOES_NOT, "two user messages: rejected: Conversation roles must alternate"),
            "first message": (DOES_NOT, "an assistant message: rejected: Conversation roles must alternate"),
            "late system message": (DOES_NOT, "roles must alternate"),
            "tools": (DOES_NOT, "the template does not show them"),
            "call ids": (UNKNOWN, "they are written as text"),
            "parallel calls": (UNKNOWN, "they are written as text"),
            "text beside calls": (UNKNOWN, "they are written as text"),
        },
        {"alternates": True, "begins_with_user": True, "shows_tools": False},
    ),
    "alternates": (
        t.ALTERNATES,
        {
            "user messages in a row": (DOES_NOT, "two user messages: rejected: conversation roles must alternate"),
            "first message": (DOES_NOT, "an assistant message: rejected: conversation roles must alternate"),
        },
        {"alternates": True, "begins_with_user": True},
    ),
    "system with the last user": (
        t.SYSTEM_WITH_LAST_USER,
        {"system role": (DOES_NOT, "the model does not see it after the result of a call")},
        {"takes_system_role": False},
    ),
    "needs a user": (
        t.NEEDS_USER,
        {"first message": (DOES_NOT, "no user message: rejected: No user query found")},
        {"begins_with_user": True},
    ),
    "needs a user for tools": (
        t.NEEDS_USER_FOR_TOOLS,
        {"first message": (DOES_NOT, "an assistant message, with tools: rejected: There is no first user message")},
        {"begins_with_user": True},
    ),
    "checks ids": (t.CHECKS_IDS, {"call ids": (DOES_NOT, "rejected: Tool call IDs should be")}, {"call_id_length": 9}),
    "one call": (
        t.ONE_CALL,
        {"parallel calls": (DOES_NOT, "two calls in a message: rejected: This model only")},
        {"takes_parallel_calls": False},
    ),
    "first call": (
        t.FIRST_CALL,
        {"parallel calls": (DOES_NOT, "of two calls in a message, not both are shown")},
        {"takes_parallel_calls": False},
    ),
    "calls or text": (
        t.CALLS_OR_TEXT,
        {"text beside calls": (DOES_NOT, "accepted, but the text is not shown")},
        {"shows_text_with_calls": False},
    ),
    "text or calls": (
        t.TEXT_OR_CALLS,
        {"text beside calls": (DOES_NOT, "accepted, but the call is not shown")},
        {"shows_text_with_calls": False},
    ),
    "thought or text": (
        t.THOUGHT_OR_TEXT,
        {"text beside calls": (DOES_NOT, "with reasoning: rejected: Cannot pass both")},
        {"shows_text_with_calls": False},
    ),
    "no thoughts": (
        t.NO_THOUGHTS,
        {"earlier reasoning": (PARTLY, "reasoning_content is not shown; between <think> and </think> it is")},
        {"reasoning_member": None},
    ),
    "cuts thoughts": (
        t.CUTS_THOUGHTS,
        {"earlier reasoning": (DOES_NOT, "neither reasoning_content nor text between <think> and </think> is shown")},
        {"shows_reasoning": False},
    ),
    "recent thoughts": (
        t.RECENT_THOUGHTS,
        {"earlier reasoning": (PARTLY, "is shown in the current turn, not before the last user message")},
        {},
    ),
    "no tools": (t.NO_TOOLS, {"tools": (DOES_NOT, "the template does not show them")}, {"shows_tools": False}),
    "no calls": (
        t.NO_CALLS,
        {
            "tools": (DOES_NOT, "but not the calls, or not their results"),
            "call ids": (UNKNOWN, "does not show calls"),
            "parallel calls": (UNKNOWN, "does not show calls"),
            "text beside calls": (UNKNOWN, "does not show calls"),
        },
        {"shows_tools": False},
    ),
    "no results": (
        t.NO_RESULTS,
        {
            "tools": (DOES_NOT, "or not their results"),
            "call ids": (UNKNOWN, "does not show calls"),
            "parallel calls": (UNKNOWN, "does not show calls"),
            "text beside calls": (UNKNOWN, "does not show calls"),
        },
        {"shows_tools": False},
    ),
}


async def test_a_template_that_takes_everything_has_no_demand(model: Path) -> None:
    findings = await examined(model, t.TAKES_ALL)
    findings.pop("context window")
    assert {name: finding.detail for name, finding in findings.items() if finding.verdict is not WORKS} == {}
    assert learned(list(findings.values())) == FREE


@pytest.mark.parametrize("name", DEMANDING)
async def test_each_demand_is_found_with_what_is_done_about_it_and_the_flag_that_would_fix_it(model: Path, name: str) -> None:
    template, short, facts = DEMANDING[name]
    findings = await examined(model, template)
    findings.pop("context window")
    assert {name for name, finding in findings.items() if finding.verdict is not WORKS} == set(short)
    for capability, (verdict, words) in short.items():
        finding = findings[capability]
        assert finding.verdict is verdict
        assert words in finding.detail
        if verdict is not UNKNOWN and capability in REMEDIES:
            assert finding.remedy
            assert "--chat-template-file FILE" in finding.advice
    seen = learned(list(findings.values()))
    assert {fact: value for fact, value in seen.items() if FREE[fact] != value} == facts


@pytest.mark.parametrize(("template", "verdict"), [(t.TAKES_ALL, WORKS), (t.RECENT_THOUGHTS, WORKS), (t.CUTS_THOUGHTS, PARTLY)])
async def test_reasoning_works_only_if_the_model_sees_its_earlier_thoughts(
    model: Path, template: str, verdict: Verdict
) -> None:
    async with serving(model, template) as engine:
        probes = [each for each in PROBES if each.capability == "reasoning"]
        (finding,) = [finding async for finding in findings_of(engine, "tiny", quick=False, probes=probes)]
    assert finding.verdict is verdict
    assert ("not shown to the model" in finding.detail) is (verdict is PARTLY)
    assert bool(finding.remedy) is (verdict is PARTLY)


async def test_a_thought_before_a_result_is_not_of_the_current_turn_if_a_user_message_follows_it(model: Path) -> None:
    """llama.cpp takes the template for DeepSeek V3.2's, and cannot answer results: so such a message is sent."""
    assert learned([*(await examined(model, t.RECENT_THOUGHTS)).values()])["shows_reasoning"] is True
    found = await examined(model, "{#- dsml_token DSML function_calls -#}" + t.RECENT_THOUGHTS)
    assert found["answer format"].facts["answers_results"] is False
    assert found["earlier reasoning"].verdict is DOES_NOT
    assert found["earlier reasoning"].facts["shows_reasoning"] is False


async def test_nothing_is_generated_where_prompts_are_shown(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(model, t.ALTERNATES) as engine:
        paths: list[str] = []
        post = engine.post

        async def recorded(path: str, body: bytes, headers: Mapping[str, str] = NO_ROUTING) -> Any:
            paths.append(path)
            return await post(path, body, headers)

        monkeypatch.setattr(engine, "post", recorded)
        found = [finding async for finding in findings_of(engine, "tiny", quick=True, probes=SILENT)]
    assert set(paths) == {"/apply-template", "/tokenize"}
    assert {finding.capability for finding in found} >= {*REMEDIES, "chat template"}


def test_every_demand_has_a_flag_on_each_engine_that_takes_a_template() -> None:
    for dialect in (LLAMACPP, VLLM, SGLANG):
        for capability in REMEDIES:
            assert "--chat-template" in dialect.advice[capability], f"{capability} on {dialect.name}"


# ---- engines that do not show prompts --------------------------------------------------------------------------------


@asynccontextmanager
async def mocked(mock: MockEngine, chat_template: str | None = None) -> AsyncIterator[Engine]:
    await mock.start()
    try:
        async with make_session() as session:
            engine = Engine(mock.url, session, EngineOptions(chat_template=chat_template))
            await engine.identify()
            yield engine
    finally:
        await mock.stop()


async def silently(engine: Engine) -> list[Finding]:
    """What is found without a generation."""

    async def no_generation() -> None:
        raise NoAnswer("it takes a generation")

    probes = [each for each in PROBES if not each.generates(engine.dialect)]
    return [each async for each in findings_of(engine, "mock", quick=False, probes=probes, wait_until_idle=no_generation)]


def in_tokens(template: Callable[[Body], str]) -> dict[str, Any]:
    """The routes of an engine that shows its prompts as tokens, one for each byte."""
    return {
        "/tokenize": lambda body: {"tokens": [*template(body).encode()]},
        "/detokenize": lambda body: {"prompt": bytes(body["tokens"]).decode()},
    }


async def test_a_prompt_that_is_shown_as_tokens_is_read() -> None:
    """vLLM shows it so. What it says to tool_choice is not seen there, so only a chat request shows whether it reads calls."""
    mock = MockEngine(owned_by="vllm", paths=in_tokens(lambda body: prompt_of(body, tools=False)))
    async with mocked(mock) as engine:
        found = await silently(engine)
        assert mock.requests == []
        whole = learned(await probe(engine, "mock"))
    assert learned(found).items() >= {"shows_tools": False, "reasoning_member": "reasoning", "alternates": False}.items()
    assert "reads_calls" not in learned(found)
    assert whole["reads_calls"] is True


async def test_the_tokens_of_a_prompt_that_is_shown_as_tokens_are_counted() -> None:
    mock = MockEngine(owned_by="vllm", paths=in_tokens(lambda body: prompt_of(body, tools=True)))
    chat = ChatRequest(model="mock", messages=[ChatMessage(role="user", content="Hello there")])
    async with mocked(mock) as engine:
        counted = await count_by_template(engine, chat)
    assert counted is not None
    assert counted >= len("Hello there")


async def test_the_template_that_the_settings_name_is_read_before_anything_is_generated() -> None:
    mock = KINDS["vllm"].engine()
    async with mocked(mock, t.CHECKS_IDS + t.ONE_CALL) as engine:
        found = await silently(engine)
    assert learned(found) == {"call_id_length": 9, "takes_parallel_calls": False}
    assert mock.requests == []
    assert "alphanumeric strings with length 9; only supports single tool-calls at once" in found[0].detail


async def test_what_is_seen_counts_more_than_what_the_template_says() -> None:
    async with mocked(KINDS["vllm"].engine(), t.CHECKS_IDS) as engine:
        found = await probe(engine, "mock")
    assert found[0].facts == {"call_id_length": 9}
    assert learned(found)["call_id_length"] is None


@pytest.mark.parametrize(("status", "says_why"), [(400, True), (500, False)], ids=["with its words", "as a bare 500"])
async def test_without_rendering_a_demand_is_found_by_its_rejection(status: int, says_why: bool) -> None:
    """Some engines break down over an error of the template, and do not say why."""
    mock = KINDS["vllm"].engine()

    def refuses(body: Body) -> str | None:
        calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
        if any(len(call["id"]) != 9 for call in calls):
            return "Tool call IDs should be alphanumeric strings with length 9!"
        if body["messages"][0]["role"] != "user":
            return "Conversation must start with a user message"
        return None

    sound = mock.otherwise
    mock.otherwise = lambda body: (
        Refusal(status, {"error": {"message": words if says_why else "Internal Server Error"}})
        if (words := refuses(body))
        else sound(body)
    )
    async with mocked(mock) as engine:
        found = {finding.capability: finding for finding in await probe(engine, "mock")}
    assert (found["call ids"].verdict, found["call ids"].facts) == (DOES_NOT, {"call_id_length": 9})
    assert "--chat-template FILE" in found["call ids"].advice
    assert (found["first message"].verdict, found["first message"].facts) == (DOES_NOT, {"begins_with_user": True})
    assert found["parallel calls"].facts == {}


@pytest.mark.parametrize(("name", "shown"), [("ollama", True), ("ollama without tools", False)])
async def test_what_an_engine_reports_of_tools_is_known_before_anything_is_generated(name: str, shown: bool) -> None:
    mock = KINDS[name].engine()
    async with mocked(mock) as engine:
        found = await silently(engine)
    assert learned(found) == {"shows_tools": shown, "reads_calls": shown}
    assert mock.requests == []
