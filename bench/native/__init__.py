"""The mock engine and the clients, in C: written in Python they would take more CPU than nginx, and be the limit of the run."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from bench.processes import BenchFailed, cpu_seconds, cpu_times, free_port, memory_kb, on_cores, running, stolen_seconds
from bench.requests import Api, Asked, marks, request

SOURCES = Path(__file__).parent
NO_COMPILER = "there is no C compiler (cc) for the mock engine and the clients. On Debian: apt-get install gcc libc6-dev"
# The subject has the first core for itself. Nothing is pinned where there is only one.
CORES = sorted(os.sched_getaffinity(0))
SUBJECT_CORES = {CORES[0]} if len(CORES) > 1 else set(CORES)
ENGINE_CORES = {CORES[1]} if len(CORES) > 1 else set(CORES)
CLIENT_CORES = {CORES[-1]}
FOREVER = 1e9


@dataclass(frozen=True, slots=True)
class Load:
    """A request, and how often it is sent over how many connections."""

    asked: Asked
    connections: int
    requests: int
    # How many begin each second. 0: the next one as soon as a connection is free.
    rate: float = 0.0
    # The window that is measured, in seconds from the start; and the answers before it.
    begin: float = 0.0
    end: float = FOREVER
    warm: int = 0
    limit: float = 120.0


class Latency(msgspec.Struct):
    """In seconds."""

    p50: float
    p99: float


class Point(msgspec.Struct):
    """What the clients have counted at one end of the window."""

    seconds: float
    deltas: int
    chunks: int
    completed: int


class Over(msgspec.Struct):
    first_event: Latency
    first_delta: Latency
    whole: Latency


class Measured(msgspec.Struct):
    """What happened within the window, and what the server took for it."""

    seconds: float
    deltas: int
    # About as many as deltas; fewer, and the server fell behind and sent deltas together, which is less work than one by one.
    chunks: int
    completed: int
    cpu: float
    # Of the two processes that took the most, the part of the busier one.
    split: float
    memory_kb: int
    latency: Over
    # Shares of a core: whether the engine was at its limit, and how far the machine's host disturbed all of them.
    engine_share: float
    stolen_share: float


class Programs:
    """Compiled, with the engine running."""

    def __init__(self, folder: Path, port: int, pid: int, client_cores: set[int] = CLIENT_CORES) -> None:
        self.engine_port = port
        self.engine_pid = pid
        self._client_cores = client_cores
        self._load = folder / "load"

    def measure(self, api: Api, port: int, pid: int, load: Load) -> Measured:
        command = [str(self._load), *map(str, _arguments(api, port, load))]
        with (
            TemporaryDirectory(prefix="antiphon-bench-") as folder,
            (Path(folder) / "errors").open("w+") as errors,
            on_cores(self._client_cores),
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as child,
        ):
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                child.stdin.write(request(api, load.asked))
                child.stdin.close()
                return self._follow(child.stdout, pid)
            except msgspec.DecodeError:
                # It ended without its lines, and its errors say why.
                child.wait(load.limit)
                errors.seek(0)
                raise BenchFailed(errors.read()[-1500:] or "the clients ended without a word") from None
            finally:
                child.kill()

    def _follow(self, lines: IO[bytes], pid: int) -> Measured:
        begin = msgspec.json.decode(lines.readline(), type=Point)
        cpu, engine, stolen = cpu_times(pid), cpu_seconds(self.engine_pid), stolen_seconds()
        end = msgspec.json.decode(lines.readline(), type=Point)
        cpu_end, engine_end, stolen_end = cpu_times(pid), cpu_seconds(self.engine_pid), stolen_seconds()
        memory = memory_kb(pid)
        spent = sorted((seconds - cpu.get(each, 0.0) for each, seconds in cpu_end.items()), reverse=True)
        seconds = end.seconds - begin.seconds
        over = msgspec.json.decode(lines.readline(), type=Over)
        if not end.deltas - begin.deltas + end.completed - begin.completed:
            raise BenchFailed("it fell behind: no answer came within the window")
        return Measured(
            seconds=seconds,
            deltas=end.deltas - begin.deltas,
            chunks=end.chunks - begin.chunks,
            completed=end.completed - begin.completed,
            cpu=sum(spent),
            split=spent[0] / (sum(spent[:2]) or 1.0),
            memory_kb=memory,
            latency=over,
            engine_share=(engine_end - engine) / seconds,
            stolen_share=(stolen_end - stolen) / seconds,
        )


def _arguments(api: Api, port: int, load: Load) -> Iterator[object]:
    """As native/load.c lists them."""
    yield from (port, load.connections, load.requests, load.rate, load.begin, load.end, load.warm, load.limit)
    yield from (load.asked.deltas if load.asked.stream else 0, *marks(api, load.asked))


def compiled(name: str, folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchFailed(NO_COMPILER)
    program = folder / name
    done = subprocess.run([compiler, "-O2", *flags, "-o", program, SOURCES / f"{name}.c"], capture_output=True, text=True)
    if done.returncode:
        raise BenchFailed(f"{name}.c does not compile: {done.stderr[-2000:]}")
    return program


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Programs]:
    compiled("load", folder)
    port = free_port()
    engine = [str(compiled("engine", folder)), str(port)]
    with running("engine", engine, port, "/v1/models", folder, cores=ENGINE_CORES) as pid:
        yield Programs(folder, port, pid)
