"""Runs a command, and ends it with everything that it started when standard input closes.

Standard input is a pipe from the gateway, so the command never outlives the gateway, however the gateway ended. It uses the
standard library only, because it starts without any other package.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading

STDIN = 0
# Seconds that the command has to end by itself once its input is closed, and after it was asked to.
PATIENCE = 2.0
NOT_STARTED = 127
# Windows has no other way.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def main(command: list[str]) -> int:
    # The gateway says when it ends. A handler, because the command would inherit that a signal is ignored.
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    except OSError as failed:
        sys.stderr.write(f"cannot start {command[0]}: {failed.strerror}\n")
        return NOT_STARTED
    for work in (_pass_on, _watch):
        threading.Thread(target=work, args=(child,), daemon=True).start()
    code = child.wait()
    # What it has left behind.
    _signal_group(child, KILL)
    return code if code >= 0 else 128 - code


def _pass_on(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        while data := os.read(STDIN, 65536):
            child.stdin.write(data)
            child.stdin.flush()
    with contextlib.suppress(OSError):
        child.stdin.close()
    _end(child)


def _watch(child: "subprocess.Popen[bytes]") -> None:
    """A command that does not read its input would keep the other thread from seeing that the gateway has closed it."""
    if hasattr(select, "poll"):
        closed = select.poll()
        closed.register(STDIN, 0)
        closed.poll()
        _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, KILL):
        try:
            child.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            _signal_group(child, number)


def _signal_group(child: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, number)
        else:
            child.kill()


if __name__ == "__main__":
    # Threads that wait for the child are not waited for.
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
