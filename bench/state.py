"""What state costs a gateway: storing a response, and continuing one by its id instead of sending the whole history."""

import argparse
import contextlib
import http.client
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from bench.load import Task
from bench.page import keep
from bench.processes import BenchFailed, cpu_seconds, free_port, running

STREAMS = 200
DELTAS = 225, 50
INTERVAL_MS = 20
ROUNDS = 5
CHAINS = 1, 10, 100, 1000
REQUESTS = 40
TEXT = "And what is the answer to that? " * 10


class Cost(NamedTuple):
    """Of one request: its CPU, and how long it took, in milliseconds."""

    cpu: float
    wall: float


class Gateway:
    """Antiphon before the benchmark's engine."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def respond(self, **members: Any) -> dict[str, Any]:
        body = msgspec.json.encode({"model": "bench", "max_output_tokens": 1, **members})
        self._connection.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        response: dict[str, Any] = msgspec.json.decode(answer.read())
        if answer.status != 200:
            raise BenchFailed(f"status {answer.status}: {response}")
        return response

    def cost(self, ask: Callable[[], object], times: int) -> Cost:
        took = []
        before = cpu_seconds(self.pid)
        for _ in range(times):
            began = time.perf_counter()
            ask()
            took.append(time.perf_counter() - began)
        return Cost(1000 * (cpu_seconds(self.pid) - before) / times, 1000 * median(took))

    def load(self, api: str, deltas: int) -> float:
        """The CPU of one of many streams at once, in milliseconds."""
        lasting = deltas * INTERVAL_MS / 1000
        task = Task(api, self.port, STREAMS, deltas, ramp=min(1.0, lasting / 2), limit=30 + 3 * lasting)
        before = cpu_seconds(self.pid)
        done = subprocess.run([sys.executable, "-m", "bench.load", msgspec.json.encode(task).decode()], capture_output=True)
        if done.returncode != 0:
            raise BenchFailed(done.stderr.decode(errors="replace")[-2000:])
        return 1000 * (cpu_seconds(self.pid) - before) / STREAMS


@contextlib.contextmanager
def started(store: str, interval_ms: int, folder: Path) -> Iterator[Gateway]:
    engine, port = free_port(), free_port()
    (folder / "antiphon.toml").write_text('log_level = "warning"\nprobe = false\n')
    antiphon = str(Path(sys.executable).with_name("antiphon"))
    options = ["--config", f"{folder}/antiphon.toml", "--upstream", f"http://127.0.0.1:{engine}", "--port", str(port)]
    options += ["--store", store]
    with contextlib.ExitStack() as stack:
        command = [sys.executable, "-m", "bench.engine", str(engine), str(interval_ms)]
        stack.enter_context(running("engine", command, engine, "/v1/models", folder))
        yield Gateway(stack.enter_context(running("antiphon", [antiphon, "serve", *options], port, "/ready", folder)), port)


def measure_storing(gateway: Gateway) -> Iterator[str]:
    """Stored and not, by turns, so that whatever disturbs the machine disturbs both."""
    for deltas in DELTAS:
        rounds = [(gateway.load("unstored", deltas), gateway.load("responses", deltas)) for _ in range(ROUNDS)]
        # The first is for what happens only once.
        yield compared(f"{STREAMS} streams at once, {deltas} deltas", rounds[1:])


def measure_alone(gateway: Gateway) -> Iterator[str]:
    rounds = []
    for _ in range(ROUNDS):
        without, stored = (gateway.cost(partial(gateway.respond, input=TEXT, store=store), 100) for store in (False, True))
        rounds.append((without.cpu, stored.cpu))
    yield compared("one after another, one delta", rounds[1:])


def compared(name: str, rounds: list[tuple[float, float]]) -> str:
    without, stored = (median(costs) for costs in zip(*rounds, strict=True))
    return f"| {name} | {without:.2f} | {stored:.2f} | {100 * (stored / without - 1):+.0f} % |"


def measure_chains(gateway: Gateway) -> Iterator[str]:
    items: list[dict[str, Any]] = []
    last: str | None = None
    for length in range(1, CHAINS[-1] + 1):
        response = gateway.respond(input=TEXT, **({"previous_response_id": last} if last else {}))
        last = response["id"]
        items += [{"role": "user", "content": TEXT}, *response["output"]]
        if length in CHAINS:
            continued = {"input": TEXT, "previous_response_id": last}
            whole = {"input": [*items, {"role": "user", "content": TEXT}]}
            rounds = [
                [gateway.cost(partial(gateway.respond, store=False, **asked), REQUESTS) for asked in (continued, whole)]
                for _ in range(ROUNDS)
            ]
            by_id, sent = (Cost(*map(median, zip(*costs, strict=True))) for costs in zip(*rounds, strict=True))
            yield f"| {length:,} | {by_id.cpu:.1f} | {sent.cpu:.1f} | {by_id.wall:.1f} | {sent.wall:.1f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="a database of Postgres, instead of SQLite")
    store: str | None = parser.parse_args().postgres
    lines = []

    def show(line: str) -> None:
        """As soon as it is known: the whole takes minutes."""
        print(line, flush=True)
        lines.append(line)

    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        folder = Path(name)
        try:
            with started(store or f"sqlite:{folder}/responses.db", INTERVAL_MS, folder) as gateway:
                show("| CPU of a request, in ms | not stored | stored | |\n| --- | --- | --- | --- |")
                for row in measure_storing(gateway):
                    show(row)
            with started(store or f"sqlite:{folder}/responses.db", 1, folder) as gateway:
                for row in measure_alone(gateway):
                    show(row)
                show("\n| responses before it | CPU by id | CPU sent whole | ms by id | ms sent whole |")
                show("| --- | --- | --- | --- | --- |")
                for row in measure_chains(gateway):
                    show(row)
        except BenchFailed as failed:
            print(f"bench: {failed}", file=sys.stderr)
            return 1
    keep("state", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
