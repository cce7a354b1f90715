"""Child processes that never outlive the run, and the CPU time that they have taken."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

READY_WITHIN = 20.0
STOPPED_WITHIN = 3.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class BenchFailed(Exception):
    """The run has no result; the message says why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(name: str, command: list[str], port: int, ready: str, folder: Path) -> Iterator[int]:
    """Starts a server, waits until a GET of `ready` is answered with 200, and gives its pid; stops it on the way out."""
    # Its own session: Ctrl-C reaches us alone, and a worker can be stopped with its master.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANTIPHON_")}
    environment["ANTIPHON_STORE"] = "memory:"
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        _await_ready(child, port, ready, name, log)
        yield child.pid
    finally:
        _stop(child)


def _await_ready(child: subprocess.Popen[bytes], port: int, path: str, name: str, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and child.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise BenchFailed(f"{name} did not become ready:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        # The group is gone once its last process is; a master that died may have left its worker.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOPPED_WITHIN)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, as far as they live."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    # The name in parentheses may contain anything, so the fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND + sum(cpu_seconds(int(child)) for child in children)


def stolen_seconds() -> float:
    """What the host of a virtual machine kept for itself, so far: it shows in everybody's CPU time."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / TICKS_PER_SECOND
