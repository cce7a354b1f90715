"""What can this engine do? A table of small questions, and what their answers teach the gateway."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon import logs
from antiphon.core.dialect import Dialect
from antiphon.engines.probes import answers, messages, models, tools
from antiphon.engines.probes.asker import PATIENCE, Asker, Turn, at_once
from antiphon.engines.probes.findings import Finding, NoAnswer, Seen, Verdict
from antiphon.engines.upstream import Engine

# Of an engine with many models only the first are probed before anyone has asked for them.
PROBED_AT_START = 4
# How soon an engine that is busy is looked at again.
LOOKS_AGAIN = 1.0


def _never(dialect: Dialect) -> bool:
    return False


def _always(dialect: Dialect) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Probe:
    """`quick` tells whether the probe costs few enough tokens on this engine to be run when the gateway finds it."""

    capability: str
    look: Callable[[Asker], Awaitable[Seen]]
    quick: Callable[[Dialect], bool] = _never


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
    # A grammar makes the thought certain and short; without one it takes a whole answer.
    Probe("reasoning", answers.reasoning, lambda dialect: dialect.grammar_member is not None),
    Probe("usage in streams", answers.usage, _always),
    Probe("logprobs", answers.logprobs, _always),
    Probe("images", models.images),
    Probe("tokenizer endpoint", models.tokenizer),
    Probe("context window", models.context_window),
)


async def probe(engine: Engine, model: str, *, quick: bool = False, patience: float = PATIENCE) -> list[Finding]:
    return [finding async for finding in findings_of(engine, model, quick=quick, patience=patience)]


async def findings_of(
    engine: Engine, model: str, *, quick: bool, patience: float = PATIENCE, turn: Turn = at_once
) -> AsyncIterator[Finding]:
    """`turn` is waited for before each question."""
    asker = Asker(engine, model, patience, turn)
    for probe in PROBES:
        if not quick or probe.quick(engine.dialect):
            yield await _find(probe, asker)


async def _find(probe: Probe, asker: Asker) -> Finding:
    try:
        seen = await probe.look(asker)
    except NoAnswer as reason:
        seen = Seen(Verdict.UNKNOWN, str(reason))
    falls_short = seen.verdict in (Verdict.PARTLY, Verdict.DOES_NOT)
    return Finding(
        capability=probe.capability,
        verdict=seen.verdict,
        detail=seen.detail,
        remedy="" if seen.verdict is Verdict.WORKS else seen.remedy,
        advice=asker.dialect.advice.get(probe.capability, "") if falls_short else "",
        facts=seen.facts,
    )


# ---- what is learned -------------------------------------------------------------------------------------------------


def learned(findings: Sequence[Finding]) -> dict[str, Any]:
    return {fact: value for finding in findings for fact, value in finding.facts.items()}


def teach(engine: Engine, model: str, findings: Sequence[Finding]) -> None:
    engine.learn(model, learned(findings))


class Background:
    """The quick probes of each engine that is found, while nobody else wants something of it: an engine with one slot makes
    one wait for the other."""

    def __init__(self, is_busy: Callable[[Engine], bool]) -> None:
        self._is_busy = is_busy
        self._running: dict[Engine, asyncio.Task[None]] = {}

    def begin(self, engine: Engine) -> None:
        if engine.dialect.loads_on_demand:
            return
        if (earlier := self._running.pop(engine, None)) is not None:
            earlier.cancel()
        self._running[engine] = asyncio.create_task(self._probe(engine))

    async def settle(self) -> None:
        """Waits until everything that is being probed now has been."""
        if self._running:
            # Not `gather`: whoever loses patience here must not end the probes.
            await asyncio.wait(self._running.values())

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        await self.settle()

    async def _turn(self, engine: Engine) -> None:
        # Nothing tells when an engine falls idle, and nothing is lost if it is seen a little later.
        while self._is_busy(engine):  # noqa: ASYNC110
            await asyncio.sleep(LOOKS_AGAIN)

    async def _probe(self, engine: Engine) -> None:
        for model in engine.models[:PROBED_AT_START]:
            findings: list[Finding] = []
            try:
                async for finding in findings_of(engine, model.id, quick=True, turn=lambda: self._turn(engine)):
                    findings.append(finding)
                    teach(engine, model.id, [finding])
            except Exception as bug:
                # Nobody asked for this: what goes wrong here must not reach a client.
                logs.log("probing failed", level=logging.ERROR, exc_info=bug, engine=engine.root, model=model.id)
                return
            finally:
                unknown = [finding.capability for finding in findings if finding.verdict is Verdict.UNKNOWN]
                logs.log("probed", engine=engine.root, model=model.id, learned=learned(findings), unknown=unknown)
