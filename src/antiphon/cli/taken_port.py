"""Why the gateway cannot listen: who has its port, and which command would work."""

import contextlib
import errno
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from antiphon.app.running_gateways import find

PROC = Path("/proc")
# The state of a socket that accepts connections, in /proc/net/tcp.
LISTENING = "0A"
LONGEST_COMMAND = 60
# How many ports after the taken one are tried.
NEXT_PORTS = 100
SECRET_FLAGS = ("--api-key", "--upstream-key")
REASONS = {
    errno.EACCES: "ports below 1024 need more rights. Choose another one with --port",
    errno.EADDRNOTAVAIL: "this machine has no such address. Set --host to one that it has, such as 127.0.0.1",
}


class CannotListen(Exception):
    """The message says why, and what to do about it."""


def cannot_listen(host: str, port: int, failed: OSError) -> CannotListen:
    if failed.errno == errno.EADDRINUSE:
        return CannotListen(
            f"port {port} of {host} is taken by {port_owner(port) or 'another program'}.{_suggestion(host, port)}"
        )
    if isinstance(failed, socket.gaierror):
        return CannotListen(f"cannot listen on {host}:{port}: the name {host} is not known. Set --host to an address")
    return CannotListen(f"cannot listen on {host}:{port}: {REASONS.get(failed.errno or 0) or failed.strerror or failed}")


def _suggestion(host: str, port: int) -> str:
    free = next((number for number in range(port + 1, min(port + NEXT_PORTS, 65536)) if _is_free(host, number)), None)
    if free is None:
        return " Choose another one with --port."
    return f" The next free one is {free}:\n  {command_with_port(sys.argv[1:], free)}"


def command_with_port(arguments: Sequence[str], port: int) -> str:
    """The command that was given, with another port. A secret is not repeated."""
    if any(argument.startswith(SECRET_FLAGS) or "@" in argument for argument in arguments):
        return f"the same command with --port {port}"
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != "--port" and not argument.startswith("--port="):
            kept.append(argument)
        skip = argument == "--port"
    return shlex.join(["antiphon", *kept, "--port", str(port)])


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as probe:
        if sys.platform != "win32":
            # As the gateway itself: a port with connections in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return True
    return False


def port_owner(port: int) -> str | None:
    """Who listens on this port, for a person; None: that cannot be seen."""
    gateway = next((gateway for gateway in find() if urlsplit(gateway.url).port == port), None)
    if gateway is not None:
        return f"an Antiphon gateway (process {gateway.pid})"
    pid = _listening_process(port)
    return f"{_command(pid)} (process {pid})" if pid is not None else None


def _listening_process(port: int) -> int | None:
    """Where there is a /proc. Of the processes of others, what they have open cannot be seen."""
    links = {f"socket:[{inode}]" for inode in _listening_sockets(port)}
    if not links:
        return None
    for folder in PROC.glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if any(str(file.readlink()) in links for file in folder.iterdir()):
                return int(folder.parent.name)
    return None


def _listening_sockets(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _command(pid: int) -> str:
    """What it was started with, up to the first long option: after that, secrets may stand."""
    with contextlib.suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        first_option = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
        command = " ".join(words[:first_option]).strip()
        if command:
            return command if len(command) <= LONGEST_COMMAND else f"{command[:LONGEST_COMMAND]}…"
    return "a program"
