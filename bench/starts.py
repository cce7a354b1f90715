"""A server that was just started: how long it takes to its first answer, its memory, and what an open stream adds to it."""

import http.client
import time
from pathlib import Path

from bench.native import Load, Programs
from bench.processes import BenchFailed, family, memory_kb
from bench.requests import Asked, request
from bench.results import Shown
from bench.scenarios import Size, closed, paced
from bench.subjects import Subject, started

NAME = "start"
COLD = Shown(NAME, "just started", "time to the first answer", "s")
IDLE = Shown(NAME, "just started", "memory", "MB")
PER_STREAM = Shown(NAME, "1,000 open streams × 10/s", "memory per stream", "KB")
FIGURES = COLD, IDLE, PER_STREAM
# LiteLLM can take 50, for which the memory is enough that it has from before.
TOO_FEW = "the streams that it can take are too few to show in its memory"
# What happens only once must not count as the memory of a stream.
WARM = closed(Asked(interval=1, deltas=16), 200)
OPEN = paced("text", 1000, 10)
PAUSE = 0.01
SETTLED = 1.0


def measure_start(subject: Subject, programs: Programs, folder: Path, size: Size) -> dict[Shown, float]:
    begun = time.monotonic()
    with started(subject, programs.engine_port, folder, pause=PAUSE) as server:
        _ask_once(server.port, request(subject.api, Asked(stream=False)))
        cold = time.monotonic() - begun
        settle(server.pid)
        idle = memory_kb(server.pid)
        figures = {COLD: cold, IDLE: idle / 1024}
        if subject.name == "litellm":
            return figures
        programs.measure(subject.api, server.port, server.pid, WARM(size))
        before = memory_kb(server.pid)
        load: Load = OPEN(size)
        found = programs.measure(subject.api, server.port, server.pid, load)
    return figures | {PER_STREAM: (found.memory_kb - before) / load.connections}


def settle(pid: int) -> None:
    """Until it has had the same processes for a while: what a server starts only to find something out is not its memory."""
    since = time.monotonic()
    last = family(pid)
    while time.monotonic() - since < SETTLED:
        time.sleep(PAUSE)
        if (now := family(pid)) != last:
            since, last = time.monotonic(), now


def _ask_once(port: int, sent: bytes) -> None:
    """The first answer, as a client gets it. A server that is up may be without its engine for a moment."""
    head, _, body = sent.partition(b"\r\n\r\n")
    path = head.split()[1].decode()
    for _ in range(500):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status == 200:
            return
        time.sleep(PAUSE)
    raise BenchFailed(f"no answer but HTTP {answer.status}")
