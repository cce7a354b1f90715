"""A program as a child process. A signal to stop leaves none of the processes behind that were started for it.

Codex, for one, ends the commands that it runs only at SIGINT, and only without its user interface. At any other signal it ends
at once, and its commands go on.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

# Windows has no SIGHUP.
STOP_SIGNALS = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
# Seconds that processes have to end by themselves. Then they are killed.
STOP_TIMEOUT = 5.0
# Of prctl(2).
PR_SET_CHILD_SUBREAPER = 36


class Stopped(BaseException):
    """A signal to stop has arrived. Not an Exception: nothing but the end of the command handles it."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """In the block, a signal to stop raises Stopped. After it, no process is left that the block has started."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    _adopt_orphans()
    # What is ignored stays ignored: `nohup` does that.
    for number in (number for number in STOP_SIGNALS if before[number] is not signal.SIG_IGN):
        signal.signal(number, _stop)
    try:
        yield
    except Stopped:
        _end_all(descendants(os.getpid()))
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    if number != signal.SIGINT:
        # Another one must not disturb the end.
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)


def _adopt_orphans() -> None:
    """Where the system can do it, processes whose parent ends become children of this one, and are found when it stops."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_process(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Returns its exit code. Only within `stop_signals`."""
    process = subprocess.Popen(command, env=environment)
    while True:
        try:
            return _exit_code(process)
        except Stopped as stopped:
            if stopped.number != signal.SIGINT:
                # Before it ends: then nobody knows any more what it has started.
                started = descendants(process.pid)
                end(process)
                _end_all(started)
                raise
            # Ctrl-C is for the program, which decides what it means. A terminal has sent it there, too: once more is no harm.
            if sys.platform != "win32":
                process.send_signal(signal.SIGINT)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Waits for it. Adopted processes that end before it must not stay in the table of processes."""
    if sys.platform == "win32":
        return process.wait()
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def end(process: subprocess.Popen[bytes], number: int = signal.SIGINT, timeout: float = STOP_TIMEOUT) -> None:
    """With this signal, and if it does not end in time, by force."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.terminate()
        else:
            process.send_signal(number)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_all(pids: Sequence[int]) -> None:
    """Those that are still there: first by asking, then by force."""
    left = [pid for pid in pids if _signal(pid, signal.SIGTERM)]
    deadline = time.monotonic() + STOP_TIMEOUT
    while left and time.monotonic() < deadline:
        _reap()
        left = [pid for pid in left if _signal(pid, 0)]
        time.sleep(0.02)
    for pid in left:
        _signal(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _reap() -> None:
    """An adopted process that has ended stays in the table of processes until its parent asks for its exit code."""
    with contextlib.suppress(ChildProcessError, AttributeError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(pid: int) -> list[int]:
    """The processes that it has started, and those that they have started."""
    children: dict[int, list[int]] = {}
    for child, parent in _processes():
        children.setdefault(parent, []).append(child)
    found, pending = [], [pid]
    while pending:
        started = children.get(pending.pop(), [])
        found += started
        pending += started
    return found


def _processes() -> list[tuple[int, int]]:
    """All of this machine, each with its parent. On Windows, nobody is asked: a console ends what runs in it."""
    if sys.platform == "win32":
        return []
    if sys.platform == "linux":
        return [pair for folder in Path("/proc").glob("[0-9]*") if (pair := _from_proc(folder)) is not None]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        table = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, encoding="utf-8", timeout=STOP_TIMEOUT
        ).stdout
        return [(int(pid), int(parent)) for pid, parent in map(str.split, table.splitlines())]
    return []


def _from_proc(folder: Path) -> tuple[int, int] | None:
    try:
        # The name of the program may have spaces and brackets. After it come the state and the parent.
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(folder.name), int(fields[1])
