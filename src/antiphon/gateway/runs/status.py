"""What a gateway is doing right now: its engines, what is known of their models, and the responses in flight."""

import asyncio
from collections.abc import Mapping
from typing import Any

from antiphon.core.exchange.steps import Ask, AwaitProbe, Check, Compact, Count, Done, Estimate, ListTools, RunTools, Step
from antiphon.core.knowledge.knowledge import Model
from antiphon.engines.load import LoadReport
from antiphon.engines.upstream import Engine
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.runs.run import ResponseRun
from antiphon.gateway.state.owners import shown_owner

# ---- What the log says of a response when it has ended. Nothing of what was asked or answered ------------------------


def run_summary(run: ResponseRun) -> dict[str, Any]:
    response, engine = run.response, run.engine
    members: dict[str, Any] = {
        "response_id": response.id,
        "model": response.model,
        "engine": engine.root,
        "dialect": engine.dialect.name,
        "stream": run.streams,
        "outcome": response.status,
    }
    if response.usage is not None:
        members |= {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
    if run.first_output is not None:
        members["first_output_seconds"] = round(run.first_output - run.arrived, 4)
    if run.error is not None:
        members["error"] = run.error.code or run.error.kind
    if notices := run.notices:
        members["notices"] = notices
    return members


# The step that a response takes → its state. While it asks, more is known.
STATES: Mapping[type[Step], str] = {
    AwaitProbe: "waiting for the probe of tools",
    Check: "checking",
    Compact: "compacting",
    Count: "counting",
    Done: "ending",
    Estimate: "counting",
    ListTools: "listing tools",
    RunTools: "running tools",
}
READING = "reading the prompt"
NO_ANSWER = "it does not answer: {silence}"


def engines_status(gateway: Gateway) -> list[dict[str, Any]]:
    return [_engine(gateway, engine) for engine in gateway.pool.engines]


def running_status(gateway: Gateway, owner: str | None) -> list[dict[str, Any]]:
    """The responses in flight, the oldest first: of this owner, or of all if it is None."""
    runs = [run for run in gateway.in_flight.runs if owner is None or run.owner == owner]
    return [_run(run) for run in sorted(runs, key=lambda run: run.arrived)]


def _engine(gateway: Gateway, engine: Engine) -> dict[str, Any]:
    queue = gateway.admission.engines.queue(engine)
    named = [Model(id=name, created=0, owned_by="engine") for name in gateway.pool.names.models]
    models = engine.models or (named if engine.knowledge.takes_any_model else ())
    return {
        "url": engine.root,
        "dialect": engine.dialect.name,
        "version": engine.version,
        "embedded": engine.is_embedded,
        "ready": engine.ready,
        "why_not": None if engine.ready else why_not_ready(engine),
        # It is ready, but does not answer when it is asked how it is.
        "unhealthy": engine.unhealthy if engine.ready else None,
        "running": queue.running,
        "waiting": gateway.admission.engines.waiting(engine),
        "limit": queue.places,
        "reported": _report(gateway.pool.loads.report_of(engine)),
        # It lists none, and serves any that a request names.
        "any_model": engine.knowledge.takes_any_model,
        "models": [_model(gateway, engine, model) for model in models],
    }


def _report(report: LoadReport | None) -> dict[str, Any] | None:
    """How busy the engine says that it is, with the requests of others."""
    if report is None:
        return None
    return {"running": report.running, "waiting": report.waiting, "cache_usage": report.cache_usage}


def why_not_ready(engine: Engine) -> str:
    if engine.loading is not None:
        return f"it is {engine.loading}"
    if engine.unusable is not None:
        return f"it {engine.unusable}"
    return NO_ANSWER.format(silence=engine.silence) if engine.silence is not None else "it has not been asked yet"


def _model(gateway: Gateway, engine: Engine, model: Model) -> dict[str, Any]:
    knowledge = engine.knowledge
    help = knowledge.help_for(model.id, gateway.environment.help)
    return {
        "id": model.id,
        "window": model.window,
        "slots": model.slots,
        "vision": model.vision,
        "loaded": model.loaded,
        "parameters": knowledge.parameters_of(model.id),
        "help": {"reason": help.reason, "parts": help.parts} if help else None,
        "facts": [fact._asdict() | {"meaning": fact.meaning} for fact in knowledge.facts_about(model.id)],
    }


def _run(run: ResponseRun) -> dict[str, Any]:
    return {
        "id": run.response.id,
        "model": run.response.model,
        "engine": run.engine.root,
        "owner": shown_owner(run.owner) if run.owner else None,
        "channel": run.channel,
        "seconds": round(asyncio.get_running_loop().time() - run.arrived, 3),
        "state": _state(run),
        "prompt_read": _prompt_read(run),
    }


def _prompt_read(run: ResponseRun) -> float | None:
    """How much of the prompt the engine has read, from 0 to 1, while it does that and reports it."""
    is_reading = isinstance(run.step, Ask) and not run.waits and run.first_output is None
    return run.progress.share if is_reading and run.progress is not None else None


def _state(run: ResponseRun) -> str:
    if not isinstance(run.step, Ask):
        return STATES[type(run.step)]
    if run.waits:
        return "waiting for the engine"
    if run.first_output is not None:
        return "writing"
    share = _prompt_read(run)
    return READING if share is None else f"{READING}, {share:.0%}"
