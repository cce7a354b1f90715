"""Child processes that never outlive the run, the cores they run on, and the CPU time and memory that they take."""

import asyncio
import contextlib
import http.client
import itertools
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

READY_WITHIN = 60.0
STOPPED_WITHIN = 3.0
# Not those that the system gives to connections (Linux: from 32768), which could have one before its server does; and none on
# which engines are looked for. Each process takes others, by turns: what has got one may not listen on it yet.
PORTS = itertools.cycle(range(12_000 + os.getpid() % 16, 23_000, 16))
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class BenchFailed(Exception):
    """The run has no result; the message says why."""


def free_port() -> int:
    while True:
        port = next(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def allow_many_descriptors() -> None:
    """Each stream takes two of a server, which has our limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """A signal ends the measurement like Ctrl-C, so that all that it has started is stopped."""
    measuring = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Once: a second one must not interrupt the stopping.
        loop.add_signal_handler(number, lambda: measuring.cancelling() or measuring.cancel())
    await measuring


@contextlib.contextmanager
def on_cores(cores: set[int] | None) -> Iterator[None]:
    """What is started meanwhile inherits these cores, with all threads that it will have. None: any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, (cores or before) & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running(
    name: str,
    command: list[str],
    port: int,
    ready: str,
    folder: Path,
    *,
    cores: set[int] | None = None,
    environment: Mapping[str, str] = {},
    pause: float = 0.05,
) -> Iterator[int]:
    """Starts a server, waits until a GET of `ready` is answered with 200, and gives its pid; stops it on the way out."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("ANTIPHON_")}
    variables |= {"ANTIPHON_STORE": "memory:", **environment}
    log = folder / f"{name}.log"
    # Its own session: Ctrl-C reaches us alone, and a worker can be stopped with its master.
    with log.open("wb") as output, on_cores(cores):
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables, start_new_session=True
        )
    try:
        _await_ready(child, port, ready, name, log, pause)
        yield child.pid
    finally:
        _stop(child)


def _await_ready(child: subprocess.Popen[bytes], port: int, path: str, name: str, log: Path, pause: float) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and child.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        time.sleep(pause)
    raise BenchFailed(f"{name} did not become ready:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        # The group is gone once its last process is; a master that died may have left its worker.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOPPED_WITHIN)


# ---- what they take --------------------------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    """A process and its descendants, as far as they live."""
    found = [pid]
    for parent in found:
        for children in _of_threads(parent, "children"):
            found += map(int, children.split())
    return found


def cpu_times(pid: int) -> dict[int, float]:
    """Seconds of CPU of a process and of each of its descendants. The scheduler counts nanoseconds, for each thread."""
    return {each: sum(int(stat.split()[0]) / 1e9 for stat in _of_threads(each, "schedstat")) for each in family(pid)}


def cpu_seconds(pid: int) -> float:
    return sum(cpu_times(pid).values())


def _of_threads(pid: int, name: str) -> Iterator[str]:
    """What this file of each thread says. A thread, or the whole process, may have ended since it was listed."""
    with contextlib.suppress(OSError):
        for thread in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                yield Path(thread.path, name).read_text()


def memory_kb(pid: int) -> int:
    """The resident memory of a process and its descendants."""
    found = 0
    for each in family(pid):
        with contextlib.suppress(OSError):
            found += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * resource.getpagesize() // 1024
    return found


def stolen_seconds() -> float:
    """What the host of a virtual machine kept for itself, so far: it shows in everybody's CPU time."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / TICKS_PER_SECOND
