"""What it costs to continue a chain of responses by its id, and to send the whole history instead."""

import argparse
import contextlib
import http.client
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from bench.native import programs
from bench.page import keep
from bench.processes import BenchFailed, cpu_seconds
from bench.subjects import antiphon
from bench.subjects import started as start_subject

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


@contextlib.contextmanager
def started(store: str, folder: Path) -> Iterator[Gateway]:
    with programs(folder) as tools, start_subject(antiphon("antiphon", store=store), tools.engine_port, folder) as server:
        yield Gateway(server.pid, server.port)


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
            with started(store or f"sqlite:{folder}/responses.db", folder) as gateway:
                show("| responses before it | CPU by id | CPU sent whole | ms by id | ms sent whole |")
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
