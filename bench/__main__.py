"""CPU, latency and memory of Antiphon beside nginx, a bare aiohttp proxy and LiteLLM: by turns, on the same mock engine."""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bench import results
from bench.native import Load, Measured, Programs, programs
from bench.page import keep
from bench.picture import PICTURE, picture
from bench.processes import BenchFailed, allow_many_descriptors
from bench.results import Results, Row, Shown
from bench.scenarios import BESIDE, QUICK, SCENARIOS, STREAM, Scenario, Size, closed
from bench.scenarios import WHOLE as WHOLE_ANSWER
from bench.starts import FIGURES, TOO_FEW, measure_start
from bench.starts import NAME as START
from bench.subjects import SUBJECTS, Missing, Running, Subject, antiphon, started

ROUNDS = 4
SIGNALS = signal.SIGINT, signal.SIGTERM
# Seconds: what a subject still does after a load is not the cost of the next one's.
PAUSE = 0.2


class Run:
    """The subjects, running; and what was found of them so far."""

    def __init__(self, scenarios: list[Scenario], size: Size, tools: Programs, folder: Path) -> None:
        self._scenarios = scenarios
        self._size = size
        self._tools = tools
        self._folder = folder
        self._servers: dict[str, Running] = {}
        self._reasons: dict[str, str] = {}
        self._rows: dict[Shown, Row] = {}
        self.engine_share = self.stolen_share = 0.0

    def start(self, subjects: dict[str, Subject], stack: contextlib.ExitStack) -> None:
        wanted = {name for scenario in self._scenarios for _, name in scenario.subjects}
        for name in filter(wanted.__contains__, subjects):
            _show(f"starting {name} …")
            try:
                server = stack.enter_context(started(subjects[name], self._tools.engine_port, self._folder))
            except Missing as why:
                self._reasons[name] = str(why)
                continue
            self._servers[name] = server
            # What happens only once is no request's cost.
            for asked in (WHOLE_ANSWER, STREAM):
                self._tools.measure(server.subject.api, server.port, server.pid, closed(asked, 40, 4)(Size()))

    def round(self, number: int) -> None:
        for scenario in self._scenarios:
            # The order changes from round to round.
            for column, name in sorted(scenario.subjects, reverse=number % 2 == 1):
                if name in self._reasons:
                    self._miss(scenario, column, self._reasons[name])
                elif column == "litellm" and scenario.lighter is None:
                    self._miss(scenario, column, "it would take minutes")
                else:
                    self._measure(scenario, column, self._servers[name])

    def starts(self, subjects: dict[str, Subject], number: int) -> None:
        """Each server once more, from its start."""
        for name in ("nginx", "proxy", "antiphon", BESIDE, "litellm"):
            if name not in subjects:
                continue
            _show(f"{START}: {name}")
            try:
                found = measure_start(subjects[name], self._tools, self._folder, self._size)
            except Missing as why:
                for shown in FIGURES:
                    self._row(shown, None).missing[name] = str(why)
                continue
            for shown in FIGURES:
                if shown in found:
                    self._row(shown, None).values.setdefault(name, []).append(found[shown])
                else:
                    self._row(shown, None).missing[name] = TOO_FEW

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def _measure(self, scenario: Scenario, column: str, server: Running) -> None:
        load = whole = scenario.load(self._size)
        if column == "litellm" and scenario.lighter is not None:
            load = scenario.lighter(whole)
        time.sleep(PAUSE)
        try:
            found = self._tools.measure(scenario.api or server.subject.api, server.port, server.pid, load)
        except BenchFailed as failed:
            _show(f"{scenario.name}: {column} failed: {failed}")
            self._miss(scenario, column, "it failed under this load")
            return
        self._take(scenario, column, found)
        if load != whole:
            for row, _ in self._figures(scenario):
                row.lighter = lighter_words(load, whole)

    def _take(self, scenario: Scenario, column: str, found: Measured) -> None:
        self.engine_share = max(self.engine_share, found.engine_share)
        self.stolen_share = max(self.stolen_share, found.stolen_share)
        shown_values = []
        for row, figure in self._figures(scenario):
            value = figure(found)
            row.values.setdefault(column, []).append(value)
            shown_values.append(f"{results.number(value)} {row.shown.unit}")
        used = f"{100 * found.cpu / found.seconds:.0f} % of a core, {found.deltas / max(1, found.chunks):.2f} deltas a chunk"
        _show(f"{scenario.name}: {column} {', '.join(shown_values)} ({used})")

    def _figures(self, scenario: Scenario) -> Iterator[tuple[Row, Callable[[Measured], float]]]:
        for figure in scenario.figures:
            shown = Shown(scenario.name, scenario.title, figure.title, figure.unit, figure.more_is_better)
            yield self._row(shown, scenario.beside), figure.value

    def _miss(self, scenario: Scenario, column: str, reason: str) -> None:
        for row, _ in self._figures(scenario):
            row.missing[column] = reason

    def _row(self, shown: Shown, beside: str | None) -> Row:
        return self._rows.setdefault(shown, Row(shown, {}, {}, beside))


def run(chosen: argparse.Namespace) -> Results:
    size = QUICK if chosen.quick else Size()
    subjects = dict(SUBJECTS)
    scenarios = [each for each in SCENARIOS if not chosen.only or each.name in chosen.only]
    if chosen.beside:
        subjects[BESIDE] = antiphon(BESIDE, (chosen.beside,))
        scenarios = [_with_beside(scenario) for scenario in scenarios]
    if chosen.subjects:
        scenarios = [_with_only(scenario, set(chosen.subjects)) for scenario in scenarios]
        subjects = {name: subject for name, subject in subjects.items() if name in chosen.subjects}
    with (
        tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name,
        programs(Path(name)) as tools,
        contextlib.ExitStack() as stack,
    ):
        running = Run(scenarios, size, tools, Path(name))
        running.start(subjects, stack)
        for number in range(chosen.rounds):
            _show(f"round {number + 1} of {chosen.rounds}")
            running.round(number)
            if not chosen.only or START in chosen.only:
                running.starts(subjects, number)
    return Results(
        date=results.today(),
        machine=results.machine(),
        versions=results.versions(),
        rounds=chosen.rounds,
        quick=chosen.quick,
        rows=running.rows(),
        engine_share=running.engine_share,
        stolen_share=running.stolen_share,
    )


def lighter_words(load: Load, whole: Load) -> str:
    """How a smaller load differs."""
    changed = [f"{load.rate:g}/s"] if whole.rate and load.connections == whole.connections else [f"{load.connections} at once"]
    if load.asked.deltas != whole.asked.deltas:
        changed.append(f"{load.asked.deltas} deltas")
    return ", ".join(changed)


def _with_beside(scenario: Scenario) -> Scenario:
    """The other installation wherever Antiphon has its usual settings."""
    if ("antiphon", "antiphon") not in scenario.subjects:
        return scenario
    return replace(scenario, subjects=(*scenario.subjects, (BESIDE, BESIDE)))


def _with_only(scenario: Scenario, names: set[str]) -> Scenario:
    return replace(scenario, subjects=tuple(pair for pair in scenario.subjects if pair[1] in names))


def report(found: Results, *, whole: bool) -> None:
    text = results.table(found)
    print(text)
    print(results.footnotes(found))
    if not whole:
        return
    results.write(found)
    keep("gateways", f"{text}\n{results.footnotes(found)}")
    PICTURE.write_text(picture(found), encoding="utf-8")


def options() -> argparse.Namespace:
    names = [*(scenario.name for scenario in SCENARIOS), START]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    which = [*SUBJECTS, BESIDE]
    parser.add_argument("--only", nargs="+", choices=names, metavar="ROW", help=f"measure only these rows: {', '.join(names)}")
    parser.add_argument("--subjects", nargs="+", choices=which, metavar="NAME", help=f"only these: {', '.join(which)}")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"default {ROUNDS}, with --quick 1")
    parser.add_argument("--quick", action="store_true", help="one round of short loads, in eight minutes")
    parser.add_argument("--beside", metavar="COMMAND", help="another Antiphon, such as OLD/bin/antiphon, beside this one")
    chosen = parser.parse_args()
    chosen.rounds = chosen.rounds or (1 if chosen.quick else ROUNDS)
    return chosen


def interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """The children are stopped on the way out, and a second signal must not break that off."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    chosen = options()
    allow_many_descriptors()
    for each in SIGNALS:
        signal.signal(each, interrupted)
    try:
        found = run(chosen)
    except BenchFailed as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    report(found, whole=not (chosen.only or chosen.subjects or chosen.beside))
    return 0


if __name__ == "__main__":
    sys.exit(main())
