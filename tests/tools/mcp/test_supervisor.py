"""The process that ends an MCP server with everything that it started."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from antiphon.tools.mcp import supervisor

SUPERVISOR = [sys.executable, "-I", "-S", supervisor.__file__]
SAYS_PID = "import os, sys, time; print(os.getpid(), flush=True); "


@contextmanager
def started(source: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """The supervisor of a Python program; the pipe to its input; and a file that can be read once the program has ended."""
    reads, writes = os.pipe()
    command = [*SUPERVISOR, sys.executable, "-c", SAYS_PID + source]
    with subprocess.Popen(command, stdin=reads, stdout=subprocess.PIPE) as process:
        os.close(reads)
        assert process.stdout is not None
        watch = os.pidfd_open(int(process.stdout.readline()))
        try:
            yield process, writes, watch
        finally:
            os.close(writes)
            os.close(watch)


def has_ended(watch: int) -> bool:
    return bool(select.select([watch], [], [], 60)[0])


def fill(pipe: int) -> None:
    """Writes until nobody takes more."""
    os.set_blocking(pipe, False)
    while select.select([], [pipe], [], 0.5)[1]:
        os.write(pipe, b"x" * 4096)


def test_a_command_ends_that_does_not_read_its_input() -> None:
    with started("time.sleep(600)") as (_, pipe, watch):
        fill(pipe)
        other = os.dup(watch)
    assert has_ended(other)
    os.close(other)


def test_signals_for_all_processes_of_a_terminal_do_not_end_it() -> None:
    with started("print(sys.stdin.readline().strip(), flush=True)") as (process, pipe, watch):
        process.terminate()
        os.write(pipe, b"still here\n")
        assert process.stdout is not None
        assert process.stdout.readline() == b"still here\n"
        assert has_ended(watch)


@pytest.mark.parametrize(("source", "code"), [("sys.exit(5)", 5), ("os.kill(os.getpid(), 9)", 137)])
def test_its_exit_code_is_that_of_the_command(source: str, code: int) -> None:
    with started("sys.stdin.readline(); " + source) as (process, pipe, _):
        os.write(pipe, b"\n")
        assert process.wait(60) == code


def test_a_command_that_cannot_be_started_is_said_to_be_one() -> None:
    found = subprocess.run([*SUPERVISOR, "/no/such/command"], capture_output=True, stdin=subprocess.DEVNULL)
    assert (found.returncode, found.stderr) == (127, b"cannot start /no/such/command: No such file or directory\n")
