"""`antiphon doctor`: reports what the engines can and cannot do, what Antiphon does about it, and what would fix it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from antiphon.app import engine_options
from antiphon.cli.serve import no_engine_found
from antiphon.core.help import HelpSetting, size
from antiphon.core.knowledge import EngineKnowledge
from antiphon.core.model_names import ModelNames
from antiphon.engines.detection import WELL_KNOWN_PORTS, find_local_engines
from antiphon.engines.prober import learned, probe, teach
from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.upstream import Engine
from antiphon.settings import Settings
from antiphon.transport import make_session

STYLES = {
    Verdict.WORKS: "green",
    Verdict.PARTLY: "yellow",
    Verdict.DOES_NOT: "red",
    Verdict.UNKNOWN: "dim",
    Verdict.GIVEN: "yellow",
    Verdict.NOT_GIVEN: "green",
}
# The row about the help that a small model gets.
HELP = "help"
CHANGE_HELP = 'To change it: help = "auto", "off" or "full" in antiphon.toml, ANTIPHON_HELP or --model-help'
NO_MODEL = "the engine lists no models. Name the model to test with --model NAME, or set default_model."


@dataclass(frozen=True, slots=True)
class Report:
    """The findings about one model of one engine, or the problem that prevented them."""

    url: str
    dialect: str
    model: str
    findings: Sequence[Finding] = ()
    # None: not known.
    parameters: int | None = None
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        if self.problem:
            return {"url": self.url, "error": self.problem}
        members = ("capability", "verdict", "detail", "remedy", "advice")
        return {
            "url": self.url,
            "dialect": self.dialect,
            "model": self.model,
            "parameters": self.parameters,
            "capabilities": [{name: getattr(finding, name) for name in members} for finding in self.findings],
            "learned": learned(self.findings),
        }


def run_doctor(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """Returns the exit code: 1 if an engine could not be tested."""
    console = Console()
    # On standard error, because standard output may be read as JSON.
    with Console(stderr=True).status("Testing the engines…"):
        reports = asyncio.run(make_reports(settings, model))
    if as_json:
        document = msgspec.json.encode({"engines": [report.as_json() for report in reports]})
        console.file.write(msgspec.json.format(document).decode() + "\n")
    else:
        for report in reports:
            console.print(_table(report) if not report.problem else Text(f"{report.url}: {report.problem}", "red"))
    return 1 if any(report.problem for report in reports) else 0


async def make_reports(settings: Settings, model: str | None, ports: Mapping[int, str] = WELL_KNOWN_PORTS) -> list[Report]:
    async with make_session(settings.transport) as session:
        roots = settings.upstream or await find_local_engines(session, {}, own_port=settings.port, ports=ports)
        if not roots:
            raise no_engine_found(ports)
        named = ModelNames(settings.model_names, settings.default_model).models
        engines = [Engine(root, session, engine_options(settings)) for root in roots]
        return [await _report(engine, model, named, settings.help) for engine in engines]


async def _report(engine: Engine, wanted: str | None, named: Sequence[str], help: HelpSetting) -> Report:
    """`named` are the models of the settings, for an engine that lists none."""
    await engine.identify()
    if not engine.ready:
        problem = f"the engine {engine.unusable}" if engine.unusable else "no engine answers at this URL"
        return Report(engine.root, "", "", problem=problem)
    served = [model.id for model in engine.models]
    model = wanted or next(iter(served or named), None)
    if model is None:
        return Report(engine.root, engine.dialect.name, "", problem=NO_MODEL)
    if served and model not in served:
        return Report(
            engine.root,
            engine.dialect.name,
            model,
            problem=f"the engine has no model {model}. --model must be one of: {', '.join(served)}",
        )
    findings = await probe(engine, model)
    teach(engine, model, findings)
    findings.append(_help_finding(engine.knowledge, model, help))
    return Report(engine.root, engine.dialect.name, model, findings, engine.knowledge.parameters_of(model))


def _help_finding(knowledge: EngineKnowledge, model: str, setting: HelpSetting) -> Finding:
    help, parameters = knowledge.help_for(model, setting), knowledge.parameters_of(model)
    if help:
        return Finding(HELP, Verdict.GIVEN, f"{help.reason}. {CHANGE_HELP}", ", ".join(help.parts), "", {})
    unknown = "the number of its parameters is not known, so the model counts as strong"
    strong = f"the model has {size(parameters)} parameters, and needs none" if parameters is not None else unknown
    reason = 'the setting help is "off"' if setting == "off" else strong
    return Finding(HELP, Verdict.NOT_GIVEN, f"{reason}. {CHANGE_HELP}", "", "", {})


def _table(report: Report) -> Table:
    table = Table(title=f"{report.dialect} at {report.url}, model {report.model}", title_justify="left", show_lines=True)
    table.add_column("capability", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what was seen, what Antiphon does about it, how to fix it", overflow="fold")
    for finding in report.findings:
        text = Text(finding.detail)
        if finding.remedy:
            text.append(f"\nAntiphon {finding.remedy}.")
        if finding.advice:
            text.append(f"\nTo fix it on the engine: {finding.advice}", "cyan")
        table.add_row(Text(finding.capability), Text(finding.verdict, STYLES[finding.verdict]), text)
    return table
