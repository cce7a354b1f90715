"""The probes: a table of small requests that show what an engine can do, and what the gateway learns from them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon import logs
from antiphon.core.dialect import Dialect
from antiphon.engines.probes import answers, messages, models, tools
from antiphon.engines.probes.client import TIME_LIMIT, ProbeClient, Wait, no_wait
from antiphon.engines.probes.findings import Finding, NoAnswer, Observation, Verdict
from antiphon.engines.upstream import Engine

# Only the first models of an engine are probed before a client asks for them.
PROBED_AT_START = 4
# Seconds until a busy engine is checked again.
IDLE_CHECK_INTERVAL = 1.0


def _never(dialect: Dialect) -> bool:
    return False


def _always(dialect: Dialect) -> bool:
    return True


def _shows_prompts(dialect: Dialect) -> bool:
    return dialect.template is not None


@dataclass(frozen=True, slots=True)
class Probe:
    """`is_quick`: on this engine the probe costs few enough tokens to be run as soon as the gateway finds it. `generates`: on
    this engine it has the model write something."""

    capability: str
    run: Callable[[ProbeClient], Awaitable[Observation]]
    is_quick: Callable[[Dialect], bool] = _never
    generates: Callable[[Dialect], bool] = _always


PROBES: tuple[Probe, ...] = (
    Probe("system role", messages.system_role, _always),
    Probe("developer role", messages.developer_role),
    Probe("late system message", messages.late_system_message),
    Probe("user messages in a row", messages.users_in_a_row, _always),
    Probe("tools", tools.tools, _always),
    Probe("parallel calls", tools.parallel_calls),
    Probe("required choice", tools.required_choice, _always),
    Probe("named choice", tools.named_choice, _always),
    Probe("strict arguments", tools.strict_arguments),
    Probe("json_schema", answers.json_schema, _always),
    Probe("json_schema with tools", answers.json_schema_with_tools, _always),
    Probe("answer format", answers.answer_format, _always, generates=_never),
    Probe("reasoning efforts", answers.reasoning_efforts, _shows_prompts, lambda dialect: not _shows_prompts(dialect)),
    # A grammar makes the model think, and briefly; without one it takes a whole answer.
    Probe("reasoning", answers.reasoning, lambda dialect: dialect.grammar_member is not None),
    Probe("usage in streams", answers.usage, _always),
    Probe("logprobs", answers.logprobs, _always),
    Probe("images", models.images),
    Probe("tokenizer endpoint", models.tokenizer),
    Probe("context window", models.context_window),
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
    client = ProbeClient(engine, model, time_limit, wait_until_idle)
    for probe in probes:
        if not quick or probe.is_quick(engine.dialect):
            yield await _find(probe, client)


async def _find(probe: Probe, client: ProbeClient) -> Finding:
    try:
        observation = await probe.run(client)
    except NoAnswer as reason:
        observation = Observation(Verdict.UNKNOWN, str(reason))
    falls_short = observation.verdict in (Verdict.PARTLY, Verdict.DOES_NOT)
    return Finding(
        capability=probe.capability,
        verdict=observation.verdict,
        detail=observation.detail,
        remedy="" if observation.verdict is Verdict.WORKS else observation.remedy,
        advice=client.dialect.advice.get(probe.capability, "") if falls_short else "",
        facts=observation.facts,
    )


# ---- learned facts ---------------------------------------------------------------------------------------------------


def learned(findings: Sequence[Finding]) -> dict[str, Any]:
    return {fact: value for finding in findings for fact, value in finding.facts.items()}


def teach(engine: Engine, model: str, findings: Sequence[Finding]) -> None:
    engine.knowledge.learn(model, learned(findings))


class BackgroundProber:
    """Runs the quick probes of each engine that is found, while no client uses it: on an engine with one slot a client would
    wait for a probe."""

    def __init__(
        self,
        is_busy: Callable[[Engine], bool],
        idle_check_interval: float = IDLE_CHECK_INTERVAL,
        probes: Sequence[Probe] = PROBES,
    ) -> None:
        self._is_busy = is_busy
        self._idle_check_interval = idle_check_interval
        self._probes = probes
        self._running: dict[Engine, asyncio.Task[None]] = {}

    def start(self, engine: Engine) -> None:
        if engine.dialect.loads_on_demand:
            return
        if (earlier := self._running.pop(engine, None)) is not None:
            earlier.cancel()
        self._running[engine] = asyncio.create_task(self._probe(engine))

    async def wait(self) -> None:
        """Returns when the probes that are running now have ended."""
        if self._running:
            # Not `gather`: a caller that is cancelled here must not cancel the probes.
            await asyncio.wait(self._running.values())

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        await self.wait()

    async def _wait_until_idle(self, engine: Engine) -> None:
        # There is no event for an engine that becomes idle, and a short delay does no harm.
        while self._is_busy(engine):  # noqa: ASYNC110
            await asyncio.sleep(self._idle_check_interval)

    async def _probe(self, engine: Engine) -> None:
        for model in engine.models[:PROBED_AT_START]:
            findings: list[Finding] = []
            try:
                async for finding in findings_of(
                    engine,
                    model.id,
                    quick=True,
                    wait_until_idle=lambda: self._wait_until_idle(engine),
                    probes=self._probes,
                ):
                    findings.append(finding)
                    teach(engine, model.id, [finding])
            except Exception as bug:
                # No client asked for this: what goes wrong here must not reach one.
                logs.log("probing failed", level=logging.ERROR, exc_info=bug, engine=engine.root, model=model.id)
                return
            finally:
                unknown = [finding.capability for finding in findings if finding.verdict is Verdict.UNKNOWN]
                logs.log("probed", engine=engine.root, model=model.id, learned=learned(findings), unknown=unknown)
