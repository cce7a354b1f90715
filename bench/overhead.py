"""What watching a gateway costs: metrics and the inspector on and off, interleaved in one run.

    python -m bench.overhead [--rounds 8]

CPU for each delta, each whole answer and each stream, as a ratio to a gateway with both off. 1.02 means 2 % more. The load
lasts longer than the inspector records every request; "inspector, all" is what it costs while it does.
"""

import argparse
import http.client
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from antiphon.settings import Settings
from bench.page import keep
from bench.processes import BenchFailed, cpu_seconds
from bench.versions import (
    DELTAS,
    MEASURES,
    WHOLE,
    Candidate,
    Measure,
    Version,
    measure_all,
    per_request,
    ratio,
    run_load,
    started,
)

RESULTS = Path(__file__).parent / "results" / "overhead.json"
# What can be switched on and off, as far as this version has it.
SWITCHES = [name for name in ("metrics", "inspector") if name in Settings.__struct_fields__]
OFF = "off"
SCRAPES = 50
# More requests than the inspector records beyond its rate.
BURST = 300


def candidates() -> dict[str, Candidate]:
    """With nothing, with each one alone, and with the inspector recording every request."""
    chosen: dict[str, set[str]] = {OFF: set(), **{name: {name} for name in SWITCHES}, "inspector, all": {"inspector"}}
    return {name: Candidate([sys.executable, "-m", "antiphon"], _settings(on, name)) for name, on in chosen.items()}


def _settings(on: set[str], name: str = "") -> str:
    rate = "inspector_rate = 1000000\n" if name == "inspector, all" else ""
    return rate + "".join(f"{name} = {str(name in on).lower()}\n" for name in SWITCHES)


def use_up_burst(version: Version) -> None:
    """From here on, the inspector records as many requests as its rate allows."""
    run_load(version.paced_port, BURST, DELTAS)
    per_request(version, WHOLE)


def sustained(measure: Measure) -> Measure:
    def of(version: Version) -> float:
        use_up_burst(version)
        return measure(version)

    return of


def per_scrape(version: Version) -> float:
    """Of the metrics, after all that was measured: in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", version.paced_port, timeout=60)
    before = cpu_seconds(version.paced_pid)
    for _ in range(SCRAPES):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise BenchFailed(f"status {answer.status} for /metrics: {answer.read()[:500]!r}")
        answer.read()
    connection.close()
    return (cpu_seconds(version.paced_pid) - before) / SCRAPES * 1e3


def report(measured: dict[str, list[list[float]]], names: list[str], scrape: float, rounds: int) -> None:
    print(f"{'CPU':<28}" + "".join(f"{name:>12}{'× off':>9}" for name in names))
    rows = []
    for measure in MEASURES:
        base, cells = measured[measure][0], []
        for name, costs in zip(names, measured[measure], strict=True):
            cells.append({"watching": name, "median": median(costs), "ratio": ratio(costs, base), "rounds": costs})
        print(f"{measure:<28}" + "".join(f"{cell['median']:>12.3f}{cell['ratio']:>9.3f}" for cell in cells))
        rows.append({"measure": measure, "subjects": cells})
    print(f"one reading of /metrics: {scrape:.2f} ms")
    keep("observing", _table(rows, names, scrape))
    found = {"rounds": rounds, "measures": rows, "ms_per_scrape": scrape}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def _table(rows: list[dict[str, Any]], names: list[str], scrape: float) -> str:
    head = f"| CPU | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}\n"
    cells = ([f"{cell['median']:.3f} (× {cell['ratio']:.3f})" for cell in row["subjects"]] for row in rows)
    lines = (f"| {row['measure']} | {' | '.join(each)} |\n" for row, each in zip(rows, cells, strict=True))
    return f"{head}{''.join(lines)}\nOne reading of `/metrics` takes {scrape:.2f} ms."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="default 8")
    chosen = parser.parse_args()
    subjects = candidates()
    names = list(subjects)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder,
            started(list(subjects.values()), Path(folder)) as versions,
        ):
            measured = measure_all(versions, chosen.rounds, {name: sustained(each) for name, each in MEASURES.items()})
            scrape = per_scrape(versions[names.index("metrics")])
    except BenchFailed as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    report(measured, names, scrape, chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
