"""The names by which processes of version 0.1 that still run start newer programs."""

import socket
import subprocess
import sys
from collections.abc import Sequence

import msgspec
import pytest

from antiphon.app.processes.messages import Failed, Start, ToSupervisor
from antiphon.engines.embedded.child import Parameters

PARAMETERS = Parameters(
    path="no-such.gguf", alias="m", port=1, key="k", context=1, slots=1, gpu_layers=0, threads=1, template=None, verbose=False
)


def output_of(module: str, arguments: Sequence[str] = (), given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-m", module, *arguments], input=given, capture_output=True, timeout=60)


def test_the_process_that_runs_checks() -> None:
    """It says that it is ready, and ends with its input."""
    ended = output_of("antiphon.gateway.check_process", ["5.0"])
    assert (ended.returncode, ended.stdout) == (0, b"\x00\x00\x00\x05ready")


@pytest.mark.skipif(sys.platform == "win32", reason="worker processes inherit descriptors")
def test_a_worker_process() -> None:
    """It reads what it is to serve from its channel, and reports there why it cannot."""
    start = Start(
        slot=0,
        workers=1,
        flags={"port": "no port"},
        config=None,
        found=(),
        embedded=None,
        listening=(),
        path="nowhere",
        supervisor=1,
        shows_banner=False,
    )
    encoded = msgspec.msgpack.encode(start)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(len(encoded).to_bytes(4) + encoded)
        command = [sys.executable, "-m", "antiphon.worker_processes.worker", str(theirs.fileno())]
        with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as worker:
            theirs.close()
            with ours.makefile("rb") as channel:
                received = channel.read()
        assert worker.returncode == 2
    message: ToSupervisor = msgspec.msgpack.decode(received[4:], type=ToSupervisor)
    assert isinstance(message, Failed)
    assert "port" in message.reason


def test_the_process_of_the_embedded_engine() -> None:
    """It reads its parameters, and cannot load that model; or llama.cpp is not there."""
    ended = output_of("antiphon.embedded.child", given=msgspec.json.encode(PARAMETERS) + b"\n")
    assert ended.returncode in (0, 1)
    assert b"Traceback" not in ended.stderr
    # One that has read no parameters ends with an error about them.
    assert b"ValidationError" in output_of("antiphon.embedded.child", given=b"{}\n").stderr


def test_the_process_that_uses_the_library_of_the_hub() -> None:
    """Its errors are its output."""
    ended = output_of("antiphon.embedded.hub_process", ["no-such-action"])
    assert (ended.returncode, ended.stdout) == (1, b"KeyError: 'no-such-action'")
