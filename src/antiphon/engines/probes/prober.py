"""The probes: a table of small requests that show what an engine can do, and what the gateway learns from them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from antiphon.core.knowledge import template_demands as demands
from antiphon.core.knowledge.dialect import Dialect
from antiphon.engines.probes import answers, messages, templates, tools
from antiphon.engines.probes.client import TIME_LIMIT, ProbeClient, Wait, no_wait
from antiphon.engines.probes.findings import Finding, NoAnswer, Observation, Verdict
from antiphon.engines.upstream import Engine


def _never(dialect: Dialect) -> bool:
    return False


def _always(dialect: Dialect) -> bool:
    return True


def _shows_no_prompts(dialect: Dialect) -> bool:
    return dialect.template is None


def _checks_no_requests(dialect: Dialect) -> bool:
    """Only a chat request shows whether a field is accepted."""
    return dialect.template is None or not dialect.template.reads_all_fields


def _reports_no_tools(dialect: Dialect) -> bool:
    return _shows_no_prompts(dialect) and not dialect.reported_tools


def _reports_no_calls(dialect: Dialect) -> bool:
    return _checks_no_requests(dialect) and not dialect.reported_tools


class Probe(Struct, frozen=True):
    """`is_quick`: on this engine the probe costs few enough tokens to be run as soon as the gateway finds it.
    `generates`: on this engine the model has to write for it. Otherwise it costs nothing, and is run before the engine is
    ready."""

    capability: str
    run: Callable[[ProbeClient], Awaitable[Observation]]
    is_quick: Callable[[Dialect], bool] = _never
    generates: Callable[[Dialect], bool] = _always


TEMPLATE_TEXT = "chat template"
PROBES: tuple[Probe, ...] = (
    # First, so that what is seen replaces what the text says.
    Probe(TEMPLATE_TEXT, templates.template_text, _always, _never),
    Probe(demands.SYSTEM, messages.system_role, _always, _shows_no_prompts),
    Probe("developer role", messages.developer_role, generates=_shows_no_prompts),
    Probe("late system message", messages.late_system_message, generates=_shows_no_prompts),
    Probe(demands.IN_A_ROW, templates.users_in_a_row, _always, _shows_no_prompts),
    Probe(demands.FIRST_MESSAGE, templates.first_message, _always, _shows_no_prompts),
    Probe(demands.TOOLS, tools.tools, _always, _reports_no_tools),
    Probe("tool calls", tools.tool_calls, _always, _reports_no_calls),
    Probe(demands.IDS, templates.call_ids, _always, _shows_no_prompts),
    Probe(demands.PARALLEL, tools.parallel_calls, _always, _shows_no_prompts),
    Probe(demands.TEXT_WITH_CALLS, templates.text_beside_calls, _always, _shows_no_prompts),
    Probe(demands.EARLIER_REASONING, templates.earlier_reasoning, _always, _shows_no_prompts),
    Probe("required choice", tools.required_choice, _always),
    Probe("named choice", tools.named_choice, _always),
    Probe("strict arguments", tools.strict_arguments),
    Probe("json_schema", answers.json_schema, _always),
    Probe("json_schema with tools", answers.json_schema_with_tools, _always),
    Probe("answer format", templates.answer_format, _always, generates=_never),
    Probe(
        "reasoning efforts", answers.reasoning_efforts, lambda dialect: not _checks_no_requests(dialect), _checks_no_requests
    ),
    # A grammar makes the model think, and briefly; without one it takes a whole answer.
    Probe("reasoning", templates.reasoning, lambda dialect: dialect.grammar_member is not None),
    Probe("usage in streams", answers.usage, _always),
    Probe("cached tokens", answers.cached_tokens),
    Probe("logprobs", answers.logprobs, _always),
    Probe("images", messages.images, _always),
    Probe("tokenizer endpoint", messages.tokenizer, generates=_never),
    Probe("context window", messages.context_window, generates=_never),
)


async def probe(engine: Engine, model: str, *, quick: bool = False, time_limit: float = TIME_LIMIT) -> list[Finding]:
    return [finding async for finding in findings_of(engine, model, quick=quick, time_limit=time_limit)]


async def findings_of(
    engine: Engine,
    model: str,
    *,
    quick: bool,
    time_limit: float = TIME_LIMIT,
    wait_until_idle: Wait = no_wait,
    probes: Sequence[Probe] = PROBES,
) -> AsyncIterator[Finding]:
    """`wait_until_idle` is awaited before each request."""
    dialect = engine.dialect
    chosen = [probe for probe in probes if not quick or probe.is_quick(dialect) or not probe.generates(dialect)]
    async for finding in run_probes(ProbeClient(engine, model, time_limit, wait_until_idle), chosen):
        yield finding


async def run_probes(client: ProbeClient, probes: Sequence[Probe]) -> AsyncIterator[Finding]:
    for probe in probes:
        yield await _find(probe, client)


async def _find(probe: Probe, client: ProbeClient) -> Finding:
    try:
        observation = await probe.run(client)
        may_pass = False
    except NoAnswer as reason:
        observation, may_pass = Observation(Verdict.UNKNOWN, str(reason)), reason.may_pass
    falls_short = observation.verdict in (Verdict.PARTLY, Verdict.DOES_NOT)
    return Finding(
        capability=probe.capability,
        verdict=observation.verdict,
        detail=observation.detail,
        remedy="" if observation.verdict is Verdict.WORKS else observation.remedy,
        advice=client.dialect.advice.get(probe.capability, "") if falls_short else "",
        facts=observation.facts,
        may_pass=may_pass,
    )


# ---- learned facts ---------------------------------------------------------------------------------------------------


def learned(findings: Sequence[Finding]) -> dict[str, Any]:
    return {fact: value for finding in findings for fact, value in finding.facts.items()}


def teach(engine: Engine, model: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        engine.knowledge.learn(model, finding.facts, "template" if finding.capability == TEMPLATE_TEXT else "probed")
