"""Loads each subject in turn, several rounds, and tells their CPU per delta as a ratio to nginx's."""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from bench.processes import BenchFailed, cpu_seconds
from bench.subjects import Subject, find_nginx, started

RESULTS = Path(__file__).parent / "results" / "streams.json"
NO_NGINX = "nginx is not there to compare with. Install it, on Debian with: apt-get install nginx-light"
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Load:
    streams: int
    deltas: int
    interval_ms: int

    @property
    def seconds(self) -> float:
        return self.deltas * self.interval_ms / 1000


@dataclass(frozen=True, slots=True)
class Round:
    deltas: int
    cpu_us_per_delta: float
    # More than 1: the subject fell behind and sent several deltas together, which is cheaper than its work at this pace.
    deltas_per_chunk: float
    # Parts of a core, to see that neither was the bottleneck.
    subject_load: float
    engine_load: float
    client_load: float


def measure(subject: Subject, engine: int, load: Load) -> Round:
    limit = 30 + 3 * load.seconds
    command = [sys.executable, "-m", "bench.load", "--api", subject.api, "--port", str(subject.port)]
    command += ["--streams", str(load.streams), "--deltas", str(load.deltas)]
    # The streams begin one after another, but the last well before the first ends.
    command += ["--ramp", str(min(1.0, load.seconds / 4)), "--seconds", str(limit)]
    before = cpu_seconds(subject.pid), cpu_seconds(engine)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit + 30)
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"{subject.name}: the load did not come to its end") from None
    cpu, engine_cpu = cpu_seconds(subject.pid) - before[0], cpu_seconds(engine) - before[1]
    if done.returncode != 0:
        raise BenchFailed(f"{subject.name}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return Round(
        deltas=found["deltas"],
        cpu_us_per_delta=cpu / found["deltas"] * 1e6,
        deltas_per_chunk=found["deltas"] / found["chunks"],
        subject_load=cpu / found["seconds"],
        engine_load=engine_cpu / found["seconds"],
        client_load=found["client_cpu_seconds"] / found["seconds"],
    )


def run(nginx: str, load: Load, rounds: int) -> dict[Subject, list[Round]]:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder, started(nginx, load.interval_ms, Path(folder)) as began:
        engine, subjects = began
        measured: dict[Subject, list[Round]] = {subject: [] for subject in subjects}
        for subject in subjects:
            measure(subject, engine, Load(WARM_UP, WARM_UP, load.interval_ms))
        for number in range(rounds):
            for subject in subjects:
                print(f"round {number + 1} of {rounds}: {subject.name} …", file=sys.stderr)
                measured[subject].append(measure(subject, engine, load))
        return measured


def report(measured: dict[Subject, list[Round]], load: Load) -> None:
    rows = []
    for subject, rounds in measured.items():
        cost, chunk, share = (
            statistics.median(values)
            for values in zip(*((one.cpu_us_per_delta, one.deltas_per_chunk, one.subject_load) for one in rounds), strict=True)
        )
        rows.append((subject.name, cost, chunk, share, [asdict(one) for one in rounds]))
    base = rows[0][1]
    print(f"{'subject':<22} {'streams':>7} {'deltas':>8} {'CPU µs/delta':>12} {'ratio':>6} {'deltas/chunk':>12} {'core':>5}")
    subjects = []
    for name, cost, chunk, share, rounds_made in rows:
        deltas = sum(int(one["deltas"]) for one in rounds_made)
        print(f"{name:<22} {load.streams:>7} {deltas:>8} {cost:>12.1f} {cost / base:>6.2f} {chunk:>12.2f} {share:>5.0%}")
        subjects.append(
            {
                "subject": name,
                "streams": load.streams,
                "deltas": deltas,
                "cpu_us_per_delta": cost,
                "ratio_to_nginx": cost / base,
                "rounds": rounds_made,
            }
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"load": asdict(load), "subjects": subjects}, indent=2) + "\n")


def bounded(low: int, high: int) -> type[int]:
    class Bounded(int):
        def __new__(cls, text: str) -> "Bounded":
            value = super().__new__(cls, text)
            if not low <= value <= high:
                raise argparse.ArgumentTypeError(f"must be {low} to {high}")
            return value

    return Bounded


def main() -> int:
    pass


if __name__ == "__main__":
    sys.exit(main())
