"""Loads each subject in turn, several rounds, and reports their CPU per delta as a ratio to nginx's."""

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from types import FrameType
from typing import NamedTuple, NoReturn

import msgspec

from bench.load import Found, Task
from bench.page import keep
from bench.processes import BenchFailed, cpu_seconds, stolen_seconds
from bench.subjects import Subject, find_nginx, started

RESULTS = Path(__file__).parent / "results" / "streams.json"
NO_NGINX = "bench: nginx is not there to compare with. Install it, on Debian with: apt-get install nginx-light"
# Name, default and most. The defaults take about 90 seconds.
OPTIONS = ("streams", 200, 400), ("deltas", 225, 10_000), ("interval-ms", 20, 1000), ("rounds", 5, 20)
SIGNALS = signal.SIGINT, signal.SIGTERM
HEAD = "subject                streams   deltas  CPU µs/delta  × nginx  deltas/chunk  % of a core: subject engine client stolen"
LINE = "{:<21}{:>9}{:>9}{:>14.1f}{:>9.2f}{:>14.2f}{:>22.0f}{:>7.0f}{:>7.0f}{:>7.0f}"


class Round(NamedTuple):
    cpu_us_per_delta: float
    # About 1; more, and the subject fell behind and sent deltas together, which is less work than one by one.
    deltas_per_chunk: float
    # Of one core: whether one of the three was at its limit, and how far the machine's host disturbed them.
    subject_percent: float
    engine_percent: float
    client_percent: float
    stolen_percent: float


def measure(subject: Subject, engine: int, streams: int, deltas: int, interval_ms: int) -> Round:
    lasting = deltas * interval_ms / 1000
    limit = 30 + 3 * lasting
    task = Task(subject.api, subject.port, streams, deltas, ramp=min(1.0, lasting / 4), limit=limit)
    command = [sys.executable, "-m", "bench.load", msgspec.json.encode(task).decode()]
    before = cpu_seconds(subject.pid), cpu_seconds(engine), stolen_seconds()
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit + 30)
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"{subject.name}: the load did not come to its end") from None
    after = cpu_seconds(subject.pid), cpu_seconds(engine), stolen_seconds()
    cpu, engine_cpu, stolen = (later - earlier for earlier, later in zip(before, after, strict=True))
    if done.returncode != 0:
        raise BenchFailed(f"{subject.name}: {done.stderr.decode(errors='replace')[-2000:]}")
    found = msgspec.json.decode(done.stdout, type=Found)
    percents = (100 * spent / found.seconds for spent in (cpu, engine_cpu, found.cpu_seconds, stolen))
    return Round(cpu / found.deltas * 1e6, found.deltas / found.chunks, *percents)


def run(nginx: str, chosen: argparse.Namespace) -> dict[str, list[Round]]:
    interval = chosen.interval_ms
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder, started(nginx, interval, Path(folder)) as servers:
        engine, subjects = servers
        measured: dict[str, list[Round]] = {subject.name: [] for subject in subjects}
        for subject in subjects:
            # What happens only once is no delta's cost.
            measure(subject, engine, 20, 20, interval)
        for number in range(chosen.rounds):
            for subject in subjects:
                print(f"round {number + 1} of {chosen.rounds}: {subject.name} …", file=sys.stderr)
                measured[subject.name].append(measure(subject, engine, chosen.streams, chosen.deltas, interval))
        return measured


def report(measured: dict[str, list[Round]], chosen: argparse.Namespace) -> None:
    medians = {name: Round(*map(median, zip(*rounds, strict=True))) for name, rounds in measured.items()}
    deltas = chosen.streams * chosen.deltas * chosen.rounds
    base = medians["nginx"].cpu_us_per_delta
    if not base:
        raise BenchFailed("this load is too small to be measured: nginx took no tick of CPU for it")
    rows = []
    print(HEAD)
    for name, (cost, *others) in medians.items():
        ratio = cost / base
        print(LINE.format(name, chosen.streams, deltas, cost, ratio, *others))
        rounds = [one._asdict() for one in measured[name]]
        row = {"subject": name, "streams": chosen.streams, "deltas": deltas, "ratio_to_nginx": ratio}
        rows.append(row | medians[name]._asdict() | {"rounds": rounds})
    keep("streams", _table(medians))
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode({"load": vars(chosen), "subjects": rows}), indent=2) + b"\n")


def _table(medians: dict[str, Round]) -> str:
    base = medians["nginx"].cpu_us_per_delta
    head = "| server | CPU per delta, µs | × nginx | deltas per chunk |\n| --- | --- | --- | --- |\n"
    rows = (
        f"| {name} | {one.cpu_us_per_delta:.1f} | {one.cpu_us_per_delta / base:.2f} | {one.deltas_per_chunk:.2f} |\n"
        for name, one in medians.items()
    )
    return head + "".join(rows)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    for name, default, _ in OPTIONS:
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"default {default}")
    chosen = parser.parse_args()
    for name, _, most in OPTIONS:
        if not 1 <= vars(chosen)[name.replace("-", "_")] <= most:
            parser.error(f"--{name} must be 1 to {most}")
    return chosen


def interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """The children are stopped on the way out, and a second signal must not break that off."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    chosen = options()
    nginx = find_nginx()
    if nginx is None:
        print(NO_NGINX, file=sys.stderr)
        return 2
    for each in SIGNALS:
        signal.signal(each, interrupted)
    try:
        report(run(nginx, chosen), chosen)
    except BenchFailed as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
