"""The commands that a supervisor takes, at a Unix socket that only its user can open: a line of JSON, answered by several."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from antiphon.app.processes.supervisor import Supervisor

# What only a supervisor needs is imported there: the command that asks one has no use for a gateway's modules.

RESTART = "restart"
UNKNOWN = "this gateway does not know the command {command}. Stop it, and start it again"


class Command(Struct, frozen=True):
    command: str


class Progress(Struct, frozen=True):
    """One line for each worker process that was replaced, and a last one."""

    worker: int | None = None
    pid: int | None = None
    error: str | None = None
    done: bool = False


class CannotControl(Exception):
    """The message says why."""


@contextlib.asynccontextmanager
async def serve_control(supervisor: "Supervisor", path: Path) -> AsyncIterator[None]:
    from antiphon.app.processes.listening import bind_private

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, msgspec.DecodeError):
            command = msgspec.json.decode(await reader.readline(), type=Command).command
            if command == RESTART:
                await _restart(supervisor, writer)
            else:
                _write(writer, Progress(error=UNKNOWN.format(command=command), done=True))
        writer.close()

    server = await asyncio.start_unix_server(answer, sock=bind_private(path))
    try:
        yield
    finally:
        server.close()


async def _restart(supervisor: "Supervisor", writer: asyncio.StreamWriter) -> None:
    """It continues also if the one who asked for it does not wait for its end."""
    from antiphon.app.processes.supervisor import CannotReplace

    try:
        async for worker in supervisor.replace():
            _write(writer, Progress(worker=worker.slot, pid=worker.pid))
    except CannotReplace as reason:
        _write(writer, Progress(error=str(reason), done=True))
        return
    _write(writer, Progress(done=True))


def _write(writer: asyncio.StreamWriter, progress: Progress) -> None:
    if not writer.is_closing():
        writer.write(msgspec.json.encode(progress) + b"\n")


def restart(path: str) -> Iterator[Progress]:
    """Asks the supervisor at this path for it. Raises CannotControl."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            connection.sendall(msgspec.json.encode(Command(RESTART)) + b"\n")
            with connection.makefile("rb") as lines:
                for line in lines:
                    yield msgspec.json.decode(line, type=Progress)
    except OSError as failed:
        raise CannotControl(str(failed.strerror or failed)) from None
