"""Two installations of Antiphon side by side: CPU per delta and per request, interleaved in one run.

    python -m bench.versions OLD/bin/antiphon NEW/bin/antiphon [--rounds 12]

A ratio above 1 means that the second one costs more. Rounds alternate, because machines differ from minute to minute.
"""

import argparse
import contextlib
import http.client
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from bench.load import Task
from bench.processes import BenchFailed, cpu_seconds, free_port, running

STREAMS, DELTAS, INTERVAL_MS = 200, 100, 20
REQUESTS = 300
BODY = '{"model":"bench","store":false,"stream":%s,"max_output_tokens":%d,"input":"And what is the answer?"}'
WHOLE, STREAMED = BODY % ("false", 1), BODY % ("true", 16)
CONFIG = 'log_level = "warning"\nprobe = false\nstore = "memory:"\n'


class Version(NamedTuple):
    """Behind a paced engine, and behind one that answers at once."""

    paced_pid: int
    paced_port: int
    quick_pid: int
    quick_port: int


Measure = Callable[[Version], float]


def run_load(port: int, streams: int, deltas: int) -> None:
    lasting = deltas * INTERVAL_MS / 1000
    task = Task("unstored", port, streams, deltas, ramp=min(1.0, lasting / 4), limit=60 + 3 * lasting)
    done = subprocess.run([sys.executable, "-m", "bench.load", msgspec.json.encode(task).decode()], capture_output=True)
    if done.returncode != 0:
        raise BenchFailed(done.stderr.decode(errors="replace")[-2000:])


def per_delta(version: Version) -> float:
    """In microseconds."""
    before = cpu_seconds(version.paced_pid)
    run_load(version.paced_port, STREAMS, DELTAS)
    return (cpu_seconds(version.paced_pid) - before) / (STREAMS * DELTAS) * 1e6


def per_request(version: Version, body: str) -> float:
    """In milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", version.quick_port, timeout=60)
    before = cpu_seconds(version.quick_pid)
    for _ in range(REQUESTS):
        connection.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise BenchFailed(f"status {answer.status}: {answer.read()[:500]!r}")
        answer.read()
    connection.close()
    return (cpu_seconds(version.quick_pid) - before) / REQUESTS * 1e3


MEASURES: dict[str, Measure] = {
    "µs per delta": per_delta,
    "ms per whole answer": lambda version: per_request(version, WHOLE),
    "ms per stream of 16 deltas": lambda version: per_request(version, STREAMED),
}


class Candidate(NamedTuple):
    """A command that starts Antiphon, and the settings that it gets beside the common ones."""

    command: list[str]
    settings: str = ""


@contextlib.contextmanager
def started(candidates: list[Candidate], folder: Path) -> Iterator[list[Version]]:
    with contextlib.ExitStack() as stack:

        def start(name: str, command: list[str], port: int, ready: str) -> int:
            return stack.enter_context(running(name, command, port, ready, folder))

        engines = []
        for interval in (INTERVAL_MS, 1):
            engines.append(port := free_port())
            start(f"engine-{interval}", [sys.executable, "-m", "bench.engine", str(port), str(interval)], port, "/v1/models")
        versions = []
        for number, candidate in enumerate(candidates):
            config = folder / f"antiphon-{number}.toml"
            config.write_text(CONFIG + candidate.settings)
            places: list[int] = []
            for engine in engines:
                port = free_port()
                settings = ["--config", str(config), "--upstream", f"http://127.0.0.1:{engine}", "--port", str(port)]
                pid = start(f"version-{number}-{engine}", [*candidate.command, "serve", *settings], port, "/ready")
                places += [pid, port]
            versions.append(Version(*places))
        yield versions


def measure_all(
    versions: list[Version], rounds: int, measures: Mapping[str, Measure] = MappingProxyType(MEASURES)
) -> dict[str, list[list[float]]]:
    """For each measure, and each version, what each round has cost. The order changes from round to round."""
    measured: dict[str, list[list[float]]] = {name: [[] for _ in versions] for name in measures}
    for number in range(-1, rounds):
        print(f"round {number + 1} of {rounds} …" if number >= 0 else "warming up …", file=sys.stderr)
        for name, measure in measures.items():
            for at in sorted(range(len(versions)), reverse=number % 2 != 0):
                cost = measure(versions[at])
                # What happens only once is not the cost of a request.
                if number >= 0:
                    measured[name][at].append(cost)
    return measured


def ratio(costs: list[float], base: list[float]) -> float:
    """The median of the rounds, each compared with the other one's in the same round."""
    return median(cost / before for cost, before in zip(costs, base, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=12)
    chosen = parser.parse_args()
    candidates = [Candidate([chosen.old]), Candidate([chosen.new])]
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder, started(candidates, Path(folder)) as both:
        measured = measure_all(both, chosen.rounds)
    print(f"{'':<28}{'old':>9}{'new':>9}{'ratio':>9}{'median of the rounds':>23}")
    for name, (old, new) in measured.items():
        print(f"{name:<28}{median(old):>9.2f}{median(new):>9.2f}{median(new) / median(old):>9.3f}{ratio(new, old):>23.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
