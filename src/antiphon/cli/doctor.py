"""`antiphon doctor`: reports what the engines can and cannot do, what Antiphon does about it, and what would fix it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import typer
from msgspec import Struct, structs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from antiphon.app.options import engine_options
from antiphon.app.running_gateways import find
from antiphon.cli.gateway_client import GatewayClient, GatewayFailed, choose_gateway, key_for
from antiphon.cli.serve import NoEngine, no_engine_found
from antiphon.core.knowledge.help import HelpSetting, size
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.knowledge.model_names import ModelNames
from antiphon.engines.detection import WELL_KNOWN_PORTS, find_local_engines
from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.probes.prober import learned, probe, teach
from antiphon.engines.upstream import Engine
from antiphon.installation import as_typed
from antiphon.settings.settings import Settings
from antiphon.transport import make_session

# ---- what a running gateway knows of its engines ---------------------------------------------------------------------


class KnownModel(NamedTuple):
    id: str
    # Each with a name, a value, a source and a meaning.
    facts: Sequence[Mapping[str, Any]]

    @property
    def learned(self) -> list[Mapping[str, Any]]:
        """Without what is true of all engines of the kind."""
        return [fact for fact in self.facts if fact["source"] != "dialect"]


class KnownEngine(NamedTuple):
    url: str
    dialect: str
    is_embedded: bool
    # None: it is ready.
    why_not: str | None
    models: Sequence[KnownModel]

    def model(self, wanted: str | None) -> KnownModel | None:
        """The one of this name, or the first."""
        return next((model for model in self.models if wanted in (None, model.id)), None)


class GatewayKnowledge(NamedTuple):
    """Without a gateway, nothing is known."""

    url: str | None = None
    engines: Sequence[KnownEngine] = ()
    # Why a gateway that runs does not say what it knows.
    problem: str | None = None

    @property
    def embedded(self) -> list[KnownEngine]:
        """They have keys of their own, so that only their gateway can ask them."""
        return [engine for engine in self.engines if engine.is_embedded]

    @property
    def upstream(self) -> list[str]:
        return [engine.url for engine in self.engines if not engine.is_embedded]

    def learned(self, url: str, model: str | None) -> list[Mapping[str, Any]] | None:
        """What the gateway has learned of a model, or the first one; None: it does not know it, or there is no gateway."""
        known = next((engine.model(model) for engine in self.engines if engine.url == url), None)
        return known.learned if known is not None else None


def ask_gateway(settings: Settings, url: str | None = None) -> GatewayKnowledge:
    try:
        url = choose_gateway(settings, url)
    except GatewayFailed:
        return GatewayKnowledge()
    try:
        found = GatewayClient(url, key_for(settings)).member("/inspector/engines", "engines")
    except GatewayFailed as failed:
        return GatewayKnowledge(url, problem=str(failed))
    return GatewayKnowledge(url, [_engine(engine) for engine in found])


def _engine(found: Mapping[str, Any]) -> KnownEngine:
    models = [KnownModel(model["id"], model["facts"]) for model in found["models"]]
    return KnownEngine(found["url"], found["dialect"], found["embedded"], found["why_not"], models)


STYLES = {
    Verdict.WORKS: "green",
    Verdict.PARTLY: "yellow",
    Verdict.DOES_NOT: "red",
    Verdict.UNKNOWN: "dim",
    Verdict.GIVEN: "yellow",
    Verdict.NOT_GIVEN: "green",
}
NO_GATEWAY = GatewayKnowledge()
# The row about the help that a small model gets.
HELP = "help"
CHANGE_HELP = 'To change it: help = "auto", "off" or "full" in antiphon.toml, ANTIPHON_HELP or --model-help'
# The last line about an engine.
OWN_ENGINE = "There is nothing to change: Antiphon runs this engine itself, with the options that help."
NOTHING_TO_CHANGE = "There is nothing to change on the engine."
TO_CHANGE = "To change on the engine, as the table says: {capabilities}."
IS_GATEWAY = (
    "antiphon: {url} is a gateway, not an engine. This shows what it makes of its engines; without --upstream, `antiphon "
    "doctor` shows what it knows of them."
)
NO_MODEL = "the engine lists no models. Name the model to test with --model NAME, or set default_model."


class Report(Struct, frozen=True):
    """The findings about one model of one engine, or the problem that prevented them."""

    url: str
    dialect: str
    model: str
    findings: Sequence[Finding] = ()
    # None: not known.
    parameters: int | None = None
    problem: str = ""
    # What the gateway that is running knows of the model. None: there is none, or it does not know the model.
    known: Sequence[Mapping[str, Any]] | None = None
    # The engine of the gateway itself: nobody else can ask it.
    is_embedded: bool = False

    def as_json(self) -> dict[str, Any]:
        if self.problem:
            return {"url": self.url, "error": self.problem}
        members = ("capability", "verdict", "detail", "remedy", "advice")
        return {
            "url": self.url,
            "dialect": self.dialect,
            "model": self.model,
            "embedded": self.is_embedded,
            "parameters": self.parameters,
            "capabilities": [{name: getattr(finding, name) for name in members} for finding in self.findings],
            "learned": learned(self.findings),
            "known_by_gateway": self.known,
        }


def run_doctor(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """Returns the exit code: 1 if an engine could not be tested, or a gateway that runs does not say which ones it has."""
    console = Console()
    gateway = GatewayKnowledge() if settings.upstream else ask_gateway(settings)
    if gateway.problem is not None:
        typer.echo(as_typed(f"antiphon: {gateway.problem}"), err=True)
    # On standard error, because standard output may be read as JSON.
    try:
        with Console(stderr=True).status("Testing the engines…"):
            reports = asyncio.run(make_reports(settings, model, gateway=gateway))
    except NoEngine:
        if gateway.problem is None:
            raise
        # That is what is to be done first, and the gateway may well have engines.
        return 1
    for url in {each.url for each in find()}.intersection(report.url for report in reports):
        typer.echo(as_typed(IS_GATEWAY.format(url=url)), err=True)
    if as_json:
        document = msgspec.json.encode({"gateway": gateway.url, "engines": [report.as_json() for report in reports]})
        console.file.write(msgspec.json.format(document).decode() + "\n")
    else:
        for report in reports:
            _show(report, gateway.url, console)
    return 1 if any(report.problem for report in reports) else 0


async def make_reports(
    settings: Settings,
    model: str | None,
    ports: Mapping[int, str] = WELL_KNOWN_PORTS,
    gateway: GatewayKnowledge = NO_GATEWAY,
) -> list[Report]:
    """Of the engines that the settings name; else of those of the gateway that is running; else of those that are found."""
    async with make_session(settings.transport) as session:
        # Of a name with several addresses, the first one that answers.
        roots = [url.removeprefix("dns+") for url in settings.upstream or gateway.upstream]
        if not roots and not gateway.engines:
            roots = await find_local_engines(session, {}, own_port=settings.port, ports=ports)
        if not roots and not gateway.engines:
            raise no_engine_found(ports)
        named = ModelNames(settings.model_names, settings.default_model).models
        engines = [Engine(root, session, engine_options(settings)) for root in roots]
        tested = [await _report(engine, model, named, settings.help) for engine in engines]
        tested = [structs.replace(report, known=gateway.learned(report.url, report.model or None)) for report in tested]
        return [*tested, *(_embedded_report(engine, model) for engine in gateway.embedded)]


def _embedded_report(engine: KnownEngine, wanted: str | None) -> Report:
    """What the gateway knows: it has probed its engine itself."""
    model = engine.model(wanted)
    if engine.why_not is not None or model is None:
        problem = f"the engine is not ready: {engine.why_not}" if engine.why_not is not None else f"it has no model {wanted}"
        return Report(engine.url, engine.dialect, wanted or "", problem=problem, is_embedded=True)
    return Report(engine.url, engine.dialect, model.id, known=model.facts, is_embedded=True)


async def _report(engine: Engine, wanted: str | None, named: Sequence[str], help: HelpSetting) -> Report:
    """`named` are the models of the settings, for an engine that lists none."""
    await engine.identify()
    if not engine.ready:
        silence = f"no engine answers at this URL: {engine.silence}"
        problem = f"the engine {engine.unusable}" if engine.unusable else silence
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


def _show(report: Report, gateway: str | None, console: Console) -> None:
    if report.problem:
        console.print(Text(f"{report.url}: {report.problem}", "red"))
    elif report.findings:
        console.print(_table(report))
    if report.known:
        console.print(_known_table(report, gateway or ""))
    elif report.known is not None and not report.problem:
        console.print(Text(f"The gateway at {gateway} has learned nothing else of {report.model}."))
    if not report.problem:
        console.print(Text(conclusion(report), "bold"))


def conclusion(report: Report) -> str:
    """What the reader has to do."""
    if report.is_embedded:
        return OWN_ENGINE
    advised = [finding.capability for finding in report.findings if finding.advice]
    return TO_CHANGE.format(capabilities=", ".join(advised)) if advised else NOTHING_TO_CHANGE


def _known_table(report: Report, gateway: str) -> Table:
    embedded = f"embedded {report.dialect} at {report.url}, model {report.model}, as the gateway at {gateway} knows it"
    learned = f"What the gateway at {gateway} has learned of {report.model or report.url}"
    table = Table(title=embedded if report.is_embedded else learned, title_justify="left")
    for column in ("fact", "source"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it means", overflow="fold")
    for fact in report.known or ():
        table.add_row(Text(fact["name"]), Text(fact["source"]), Text(fact["meaning"]))
    return table


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
