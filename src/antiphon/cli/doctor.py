"""`antiphon doctor`: what the engines can and cannot do, what Antiphon does about it, and what would mend it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from antiphon.cli.serve import NONE_FOUND, NoEngine, places_looked_at
from antiphon.engines.detection import look_around
from antiphon.engines.prober import learned, probe
from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.upstream import Engine
from antiphon.settings import Settings
from antiphon.transport import make_session

STYLES = {Verdict.WORKS: "green", Verdict.PARTLY: "yellow", Verdict.DOES_NOT: "red", Verdict.UNKNOWN: "dim"}


@dataclass(frozen=True, slots=True)
class Report:
    """One model of one engine; without findings nothing answered there, or nothing that could be asked."""

    url: str
    dialect: str
    model: str
    findings: Sequence[Finding] = ()
    trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        if self.trouble:
            return {"url": self.url, "error": self.trouble}
        members = ("capability", "verdict", "detail", "remedy", "advice")
        return {
            "url": self.url,
            "dialect": self.dialect,
            "model": self.model,
            "capabilities": [{name: getattr(finding, name) for name in members} for finding in self.findings],
            "learned": learned(self.findings),
        }


def examine(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """The exit code: 1 if an engine could not be examined."""
    console = Console()
    # A progress line would be in the way of whoever reads the JSON.
    with Console(stderr=True).status("Asking the engines…"):
        reports = asyncio.run(examined(settings, model))
    if as_json:
        document = msgspec.json.encode({"engines": [report.as_json() for report in reports]})
        console.file.write(msgspec.json.format(document).decode() + "\n")
    else:
        for report in reports:
            console.print(_table(report) if not report.trouble else Text(f"{report.url}: {report.trouble}", "red"))
    return 1 if any(report.trouble for report in reports) else 0


async def examined(settings: Settings, model: str | None) -> list[Report]:
    async with make_session(settings.transport) as session:
        roots = settings.upstream or await look_around(session, {}, but=settings.port)
        if not roots:
            raise NoEngine(NONE_FOUND.format(places=places_looked_at()))
        return [await _report(Engine(root, session, settings), model) for root in roots]


async def _report(engine: Engine, wanted: str | None) -> Report:
    await engine.know()
    if not engine.ready:
        return Report(engine.root, "", "", trouble="nothing here answers as an engine does")
    served = [model.id for model in engine.models]
    model = wanted or next(iter(served), None)
    if model is None:
        return Report(engine.root, engine.dialect.name, "", trouble="the engine serves no model")
    if model not in served:
        return Report(engine.root, engine.dialect.name, model, trouble=f"it has no model {model}, but {', '.join(served)}")
    return Report(engine.root, engine.dialect.name, model, await probe(engine, model))


def _table(report: Report) -> Table:
    table = Table(title=f"{report.dialect} at {report.url}, model {report.model}", title_justify="left", show_lines=True)
    table.add_column("capability", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what was seen, what Antiphon does, what would mend it", overflow="fold")
    for finding in report.findings:
        told = Text(finding.detail)
        if finding.remedy:
            told.append(f"\nAntiphon {finding.remedy}.")
        if finding.advice:
            told.append(f"\nOn the engine: {finding.advice}", "cyan")
        table.add_row(Text(finding.capability), Text(finding.verdict, STYLES[finding.verdict]), told)
    return table
