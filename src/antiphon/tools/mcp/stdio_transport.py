"""MCP servers that are started here: one JSON message a line, over standard input and output."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from antiphon.child_processes.child import lines_of
from antiphon.tools.mcp import supervisor
from antiphon.tools.mcp.failures import Lost, McpFailure, too_large
from antiphon.tools.mcp.large_answers import LARGE_ANSWER, to_small
from antiphon.tools.mcp.targets import McpLimits, StdioServer

# What a program gets of the gateway's environment. The rest may be secrets, such as the gateway's keys.
INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERPROFILE"),
)
# Of what a program writes that is no message.
LONGEST_LINE = 300
# Seconds that the supervisor may take to end the program, with everything that it started.
ENDING = 2 * supervisor.PATIENCE + 1.0


@asynccontextmanager
async def stdio_transport(server: StdioServer, limits: McpLimits, lost: Lost) -> AsyncIterator[Any]:
    """The streams that the SDK's client reads and writes. Raises McpFailure if the program cannot be started."""
    process = await _start(server, limits)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read_errors(process, lost)),
        asyncio.create_task(_read(process, incoming, limits, lost)),
        asyncio.create_task(_write(process, outgoing)),
    ]
    try:
        yield read_stream, write_stream
    finally:
        for stream in (read_stream, write_stream, incoming, outgoing):
            stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _end(process)


async def _start(server: StdioServer, limits: McpLimits) -> asyncio.subprocess.Process:
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(server.env)
    command = _find(server, environment.get("PATH"))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", supervisor.__file__, command, *server.args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=limits.answer_bytes,
        env=environment,
        cwd=server.cwd,
        start_new_session=True,
    )


def _find(server: StdioServer, path: str | None) -> str:
    """The program, as it is called in its folder."""
    if server.cwd is not None and not Path(server.cwd).is_dir():
        raise McpFailure(f"The folder {server.cwd} does not exist.")
    is_relative = server.cwd is not None and os.sep in server.command and not Path(server.command).is_absolute()
    command = str(Path(server.cwd or ".") / server.command) if is_relative else server.command
    found = shutil.which(command, path=path)
    if found is None:
        raise McpFailure(f"The command {server.command} was not found.")
    return str(Path(found).absolute())


async def _read(process: asyncio.subprocess.Process, incoming: Any, limits: McpLimits, lost: Lost) -> None:
    assert process.stdout is not None
    async with incoming:
        try:
            while line := await process.stdout.readline():
                read = line if len(line) < LARGE_ANSWER else await asyncio.to_thread(to_small, line)
                try:
                    message = jsonrpc_message_adapter.validate_json(read, by_name=False)
                except ValueError:
                    if line.strip():
                        lost.noise.append(_printed(line))
                    continue
                await incoming.send(SessionMessage(message))
        except ValueError:
            # A line that is too long. What follows it cannot be read either.
            lost.set(too_large(limits.answer_bytes))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        # Before the SDK hears of it: it could only say that the connection is closed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(supervisor.PATIENCE):
                await process.wait()
        lost.set(McpFailure(_ended(process.returncode), detail=lost.detail))


async def _read_errors(process: asyncio.subprocess.Process, lost: Lost) -> None:
    assert process.stderr is not None
    async for line in lines_of(process.stderr):
        lost.errors.append(line[:LONGEST_LINE])


async def _write(process: asyncio.subprocess.Process, outgoing: Any) -> None:
    assert process.stdin is not None
    async with outgoing:
        async for message in outgoing:
            json = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            with contextlib.suppress(OSError):
                process.stdin.write(json.encode() + b"\n")
                await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Closes its input. The supervisor does the rest, and would do it without us."""
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ENDING):
            # A program that cannot write does not end.
            await asyncio.gather(_discard(process.stdout), _discard(process.stderr), process.wait())


async def _discard(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(65536):
        pass


def _printed(line: bytes) -> str:
    return line.decode(errors="replace").strip()[:LONGEST_LINE]


def _ended(code: int | None) -> str:
    if code == supervisor.NOT_STARTED:
        return "The server cannot be started."
    return "The server closed its output." if code is None else f"The server has ended, with exit code {code}."
