"""What a run has found: bench/results/gateways.json, and the table that is made of it."""

import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from bench.subjects import LITELLM, find_nginx

FILE = Path(__file__).parent / "results" / "gateways.json"
NOTHING = "–"
SHORT_LOADS = "Short loads (`--quick`): a difference of a fifth may be noise.\n"


class Shown(NamedTuple):
    """What a row of the table is about. The scenario's name is that of --only."""

    scenario: str
    load: str
    figure: str
    unit: str
    more_is_better: bool = False


class Row(msgspec.Struct):
    shown: Shown
    # A figure of each round, for each column; and for those that were not measured, why.
    values: dict[str, list[float]]
    missing: dict[str, str]
    # The scenario whose values stand in for those that are missing without a reason.
    beside: str | None = None
    # The load that LiteLLM got in place of this one, if that was too much for it.
    lighter: str = ""

    def middle(self, column: str) -> float | None:
        return median(self.values[column]) if self.values.get(column) else None


class Results(msgspec.Struct):
    date: str
    machine: dict[str, str]
    versions: dict[str, str]
    rounds: int
    quick: bool
    rows: list[Row]
    # The largest share of a core that the mock engine took, and that the machine's host kept for itself.
    engine_share: float = 0.0
    stolen_share: float = 0.0

    def row(self, scenario: str, figure: str) -> Row | None:
        return next((row for row in self.rows if row.shown.scenario == scenario and row.shown.figure == figure), None)

    def middle(self, row: Row, column: str) -> float | None:
        """The median, or that of the scenario beside it."""
        found = row.middle(column)
        if found is None and row.beside and column not in row.missing and (other := self.row(row.beside, row.shown.figure)):
            return other.middle(column)
        return found


def write(found: Results) -> None:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def read() -> Results:
    return msgspec.json.decode(FILE.read_bytes(), type=Results)


# ---- where and with what ---------------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    return {"cpu": model, "cores": str(os.cpu_count()), "kernel": platform.release(), "machine": platform.machine()}


def versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in ("antiphon", "aiohttp", "uvloop", "msgspec")}
    found["python"] = platform.python_version()
    nginx = find_nginx()
    if nginx:
        found["nginx"] = subprocess.run([nginx, "-v"], capture_output=True, text=True).stderr.strip().rpartition("/")[2]
    if LITELLM.exists():
        script = "import importlib.metadata as m; print(m.version('litellm'))"
        found["litellm"] = subprocess.run(
            [LITELLM.with_name("python"), "-c", script], capture_output=True, text=True
        ).stdout.strip()
    return found


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


# ---- the table -------------------------------------------------------------------------------------------------------


def table(found: Results) -> str:
    return "\n".join(_table_lines(found)) + "\n"


def _table_lines(found: Results) -> Iterator[str]:
    beside = any("beside" in row.values for row in found.rows)
    more = " beside |" if beside else ""
    yield f"| load | figure | nginx | aiohttp proxy | **Antiphon** | × nginx | LiteLLM | LiteLLM ÷ Antiphon |{more}"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |" + (" --- |" if beside else "")
    for row in found.rows:
        yield _line(found, row, beside)


def _line(found: Results, row: Row, beside: bool) -> str:
    ours, base, theirs = (found.middle(row, column) for column in ("antiphon", "nginx", "litellm"))
    cells = [row.shown.load, f"{row.shown.figure}, {row.shown.unit}", _cell(row, "nginx"), _cell(row, "proxy")]
    cells += [f"**{_cell(row, 'antiphon')}**", _ratio(ours, base), _cell(row, "litellm") + _lighter(row), _ratio(theirs, ours)]
    if beside:
        cells.append(_cell(row, "beside"))
    return f"| {' | '.join(cells)} |"


def _cell(row: Row, column: str) -> str:
    """The median and the spread of the rounds."""
    values = row.values.get(column)
    if not values:
        return NOTHING
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def _lighter(row: Row) -> str:
    return f" at {row.lighter}" if row.lighter and row.values.get("litellm") else ""


def _ratio(value: float | None, base: float | None) -> str:
    return NOTHING if value is None or not base else number(value / base)


def number(value: float) -> str:
    """With three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def footnotes(found: Results) -> str:
    """How well it was measured; and what was not, and why: each reason once."""
    reasons: dict[str, list[str]] = {}
    for row in found.rows:
        for column, reason in row.missing.items():
            reasons.setdefault(f"{column}: {reason}", []).append(row.shown.scenario)
    lines = [f"- {reason} ({', '.join(dict.fromkeys(scenarios))})." for reason, scenarios in reasons.items()]
    missing = "Not measured:\n\n" + "\n".join(lines) + "\n" if lines else ""
    return f"{SHORT_LOADS}\n{missing}" if found.quick else missing
