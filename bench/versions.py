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
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
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


def per_delta(version: Version) -> float:
    """In microseconds."""
    lasting = DELTAS * INTERVAL_MS / 1000
    task = Task("unstored", version.paced_port, STREAMS, DELTAS, ramp=min(1.0, lasting / 4), limit=60 + 3 * lasting)
    before = cpu_seconds(version.paced_pid)
    done = subprocess.run([sys.executable, "-m", "bench.load", msgspec.json.encode(task).decode()], capture_output=True)
    if done.returncode != 0:
        raise BenchFailed(done.stderr.decode(errors="replace")[-2000:])
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


MEASURES: dict[str, Callable[[Version], float]] = {
    "µs per delta": per_delta,
    "ms per whole answer": lambda version: per_request(version, WHOLE),
    "ms per stream of 16 deltas": lambda version: per_request(version, STREAMED),
}


@contextlib.contextmanager
def started(commands: list[str], folder: Path) -> Iterator[list[Version]]:
    (folder / "antiphon.toml").write_text(CONFIG)
    with contextlib.ExitStack() as stack:

        def start(name: str, command: list[str], port: int, ready: str) -> int:
            return stack.enter_context(running(name, command, port, ready, folder))

        engines = []
        for interval in (INTERVAL_MS, 1):
            engines.append(port := free_port())
            start(f"engine-{interval}", [sys.executable, "-m", "bench.engine", str(port), str(interval)], port, "/v1/models")
        versions = []
        for number, command in enumerate(commands):
            places: list[int] = []
            for engine in engines:
                port = free_port()
                settings = ["--config", f"{folder}/antiphon.toml", "--upstream", f"http://127.0.0.1:{engine}"]
                pid = start(f"version-{number}-{engine}", [command, "serve", *settings, "--port", str(port)], port, "/ready")
                places += [pid, port]
            versions.append(Version(*places))
        yield versions


def measure_round(versions: list[Version], number: int, measured: dict[str, tuple[list[float], list[float]]]) -> None:
    """Round -1 does not count: what happens only once is not the cost of a request."""
    for name, measure in MEASURES.items():
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            cost = measure(versions[at])
            if number >= 0:
                measured[name][at].append(cost)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=12)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder,
        started([chosen.old, chosen.new], Path(folder)) as both,
    ):
        measured: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in MEASURES}
        for number in range(-1, chosen.rounds):
            print(f"round {number + 1} of {chosen.rounds} …" if number >= 0 else "warming up …", file=sys.stderr)
            for name, measure in MEASURES.items():
                for at in (0, 1) if number % 2 == 0 else (1, 0):
                    cost = measure(both[at])
                    if number >= 0:
                        measured[name][at].append(cost)
    print(f"{'':<28}{'old':>9}{'new':>9}{'ratio':>9}{'median of the rounds':>23}")
    for name, (old, new) in measured.items():
        paired = median(after / before for before, after in zip(old, new, strict=True))
        print(f"{name:<28}{median(old):>9.2f}{median(new):>9.2f}{median(new) / median(old):>9.3f}{paired:>23.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
