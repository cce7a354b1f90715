"""Loads a gateway for minutes with clients that are slow, dead or leave, on a store that fails now and then. Every response
that was acknowledged must be there after a restart. The figures go to docs/soak.md."""

import argparse
import contextlib
import http.client
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from bench.processes import BenchFailed, free_port, running
from soak.load import Found, Task
from soak.measures import Sampler, Samples, descriptors
from soak.page import PAGE, Figures, page

# Milliseconds between two deltas of one answer: a thousand streams at once are a load, and not more than one core can do.
INTERVAL_MS = 200
# Of the calls of the store.
FAILING = 0.005
# After the load, in seconds: what is still running ends, and connections are closed.
SETTLED_WITHIN = 60.0
# What nobody may see.
FORBIDDEN = ("hangs", "broken", "ends ", "500", "internal_error")
# Memory in the end, compared with that after a fifth of the time; and descriptors that may be open in addition after it: the
# store opens more files when many read at once.
MOST_GROWTH = 1.15
SPARE_DESCRIPTORS = 16


def gateway(folder: Path, engine: int, share: float) -> tuple[list[str], int]:
    port = free_port()
    store = f"sqlite:{folder}/responses.db"
    return [sys.executable, "-m", "soak.gateway", str(port), f"http://127.0.0.1:{engine}", store, str(share)], port


def load(port: int, streams: int, seconds: float) -> Found:
    command = [sys.executable, "-m", "soak.load", msgspec.json.encode(Task(port, streams, seconds)).decode()]
    done = subprocess.run(command, capture_output=True, timeout=seconds + 300)
    if done.returncode:
        raise BenchFailed(done.stderr.decode(errors="replace")[-2000:])
    return msgspec.json.decode(done.stdout, type=Found)


def settle(pid: int, before: int) -> int:
    """The descriptors that are left once nothing runs any more."""
    until = time.monotonic() + SETTLED_WITHIN
    while (left := descriptors(pid)) > before + SPARE_DESCRIPTORS and time.monotonic() < until:
        time.sleep(0.5)
    return left


def read_back(port: int, acknowledged: Mapping[str, str | None]) -> Iterator[str]:
    """The responses that are not there, or not as they were."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        for id, text in acknowledged.items():
            connection.request("GET", f"/v1/responses/{id}")
            answer = connection.getresponse()
            response = msgspec.json.decode(answer.read())
            if answer.status != 200 or (text is not None and response["output_text"] != text):
                yield id


def soak(minutes: float, streams: int, interval_ms: int = INTERVAL_MS) -> Figures:
    with tempfile.TemporaryDirectory(prefix="antiphon-soak-") as name:
        folder, engine = Path(name), free_port()
        command, port = gateway(folder, engine, FAILING)
        with contextlib.ExitStack() as stack:
            paced = [sys.executable, "-m", "soak.engine", str(engine), str(interval_ms)]
            with running("engine", paced, engine, "/v1/models", folder):
                pid = stack.enter_context(running("gateway", command, port, "/ready", folder))
                before = descriptors(pid)
                with Sampler(pid) as samples:
                    found = load(port, streams, minutes * 60)
            # Without the engine, no connection to it is kept for later.
            left = settle(pid, before)
            log = (folder / "gateway.log").read_text(errors="replace")
        # A new process on the same database, which fails no more.
        command, port = gateway(folder, engine, 0)
        with running("reader", command, port, "/health", folder):
            lost = list(read_back(port, found.acknowledged))
    return figures(minutes, streams, found, lost, samples, before, left, log)


def figures(
    minutes: float, streams: int, found: Found, lost: list[str], samples: Samples, before: int, left: int, log: str
) -> Figures:
    return Figures(
        minutes=minutes,
        streams=streams,
        outcomes=dict(sorted(found.outcomes.items())),
        acknowledged=len(found.acknowledged),
        lost=len(lost),
        memory_mb={part: round(samples.memory_at(part / 100)) for part in (0, 20, 40, 60, 80, 100)},
        descriptors_before=before,
        descriptors_most=max(samples.descriptors),
        descriptors_after=left,
        bugs=log.count('"bug"'),
    )


def faults(found: Figures) -> list[str]:
    """What must not be; empty if all is well."""
    wrong = [f"{count} × {name}" for name, count in found.outcomes.items() if any(word in name for word in FORBIDDEN)]
    if found.lost:
        wrong.append(f"{found.lost} of {found.acknowledged} acknowledged responses are lost")
    if found.memory_mb[100] > MOST_GROWTH * found.memory_mb[20]:
        wrong.append(f"the memory grew from {found.memory_mb[20]} to {found.memory_mb[100]} MB")
    if found.descriptors_after > found.descriptors_before + SPARE_DESCRIPTORS:
        wrong.append(f"{found.descriptors_after - found.descriptors_before} descriptors are left")
    if found.bugs:
        wrong.append(f"the gateway logged {found.bugs} bugs")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="default 10")
    parser.add_argument("--streams", type=int, default=1000, help="clients at once, default 1000")
    chosen = parser.parse_args()
    # Each stream takes two descriptors of the gateway, which has our limit.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        found = soak(chosen.minutes, chosen.streams)
    except (BenchFailed, subprocess.TimeoutExpired) as failed:
        print(f"soak: {failed}", file=sys.stderr)
        return 1
    text = page(found, PAGE.read_text())
    PAGE.write_text(text)
    print(text)
    for wrong in (found_wrong := faults(found)):
        print(f"soak: {wrong}", file=sys.stderr)
    return 1 if found_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
