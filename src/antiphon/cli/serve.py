"""`antiphon serve`: finds engines or starts one, listens, and lets responses finish before it stops."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import typer
from aiohttp import web

from antiphon import __version__, logs
from antiphon.app import running_gateways
from antiphon.app.app import make_app, make_runner
from antiphon.app.event_loop import loop_factory
from antiphon.app.garbage import collect_less, return_memory
from antiphon.app.reload import Reloader
from antiphon.cli.banner import Address, Banner
from antiphon.cli.hangup import reload_at_hangup
from antiphon.cli.stop_signals import end_at_once, stop_signals
from antiphon.cli.taken_port import cannot_listen
from antiphon.engines.detection import WELL_KNOWN_PORTS, find_local_engines
from antiphon.engines.embedded import CannotEmbed
from antiphon.extras import install_command
from antiphon.server.app_keys import GATEWAY
from antiphon.server.routes.inspector import INSPECTOR
from antiphon.server.routes.passed_through import OPEN_ANSWERS
from antiphon.settings.keys import is_loopback, needs_key
from antiphon.settings.settings import (
    Settings,
    SettingsError,
    data_directory,
    models_directory,
)
from antiphon.store import default_url, open_store
from antiphon.transport import BACKLOG, make_session

if TYPE_CHECKING:
    from antiphon.engines.embedded.process import EngineProcess, ModelOptions
    from antiphon.engines.embedded.shared import SharedEngineProcess


class NoEngine(Exception):
    """No engine was found, and none can be started. The message says what to do about it."""


NO_ENGINE_FOUND = """no engine was found on this machine. Start one, or name one with --upstream URL. Searched ports:
{ports}
For example:
  llama-server -m MODEL.gguf --jinja          then: antiphon
  ollama serve                                then: antiphon
  vllm serve MODEL                            then: antiphon
  antiphon --upstream http://HOST:PORT
  {embedded}                   in a checkout of Antiphon, then: antiphon, which runs a small model itself"""


def no_engine_found(ports: Mapping[int, str]) -> NoEngine:
    searched = "\n".join(f"  127.0.0.1:{port}  {name}" for port, name in ports.items())
    return NoEngine(NO_ENGINE_FOUND.format(ports=searched, embedded=install_command("embedded")))


STOPPING = "Stopping: {are} running; at most {most:g} s. Ctrl-C again stops at once."
OPEN_TO_ALL = (
    "other machines can reach {host}, and no key is set: anybody there could use the gateway, and read what is stored. "
    "Set a key with --api-key KEY or ANTIPHON_API_KEY=KEY (`antiphon key new NAME` makes one), or listen on 127.0.0.1. "
    "--insecure-no-auth starts it as it is."
)


def refuse_to_be_open(settings: Settings) -> Settings:
    """Without a key only this machine is let in, unless the settings say that everybody is."""
    if not needs_key(settings) and not settings.insecure_no_auth and not is_loopback(settings.host):
        raise SettingsError(OPEN_TO_ALL.format(host=settings.host or "every address"))
    return settings


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
        app = make_app(settings, session, store, embedded)
        reloader = Reloader(app, given, refuse_to_be_open)
        runner = make_runner(app)
        await runner.setup()
        running: asyncio.Task[None] | None = None
        try:
            address = await listen(runner, settings)
            better = _better_model(settings, embedded) if embedded is not None else None
            showing = asyncio.create_task(
                Banner(address, has_inspector=app[INSPECTOR].recordings is not None, advice=better).show(app)
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


def log_listening(app: web.Application, address: Address, embedded: "EngineProcess | SharedEngineProcess | None") -> None:
    model: dict[str, Any] = {"model": embedded.alias} if embedded is not None else {}
    logs.log("listening", url=str(address), engines=[engine.root for engine in app[GATEWAY].pool.engines], **model)


async def listen(runner: web.AppRunner, settings: Settings) -> Address:
    try:
        await web.TCPSite(runner, settings.host, settings.port, backlog=BACKLOG).start()
    except OSError as failed:
        raise cannot_listen(settings.host, settings.port, failed) from None
    return Address(settings.host, runner.addresses[0][1])


async def choose_engines(
    settings: Settings, session: aiohttp.ClientSession, ports: Mapping[int, str] = WELL_KNOWN_PORTS
) -> "tuple[Settings, EngineProcess | None]":
    """The engines that are named; else those found on this machine; else the embedded one, with the best pulled model."""
    if settings.model is not None:
        return settings, _embedded(settings, settings.model)
    if settings.upstream:
        return settings, None
    found = await find_local_engines(session, {}, own_port=settings.port, ports=ports)
    if found:
        return msgspec.structs.replace(settings, upstream=tuple(found)), None
    return settings, _embedded_default(settings, ports)


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
    from antiphon.engines.embedded.process import EngineProcess

    return EngineProcess(model, model_options(settings))


def _embedded_default(settings: Settings, ports: Mapping[int, str]) -> "EngineProcess":
    from antiphon.cli.models import this_machine
    from antiphon.engines.embedded.process import can_embed

    if not can_embed():
        raise no_engine_found(ports)
    return _embedded(settings, this_machine(settings).default().name)


def _better_model(settings: Settings, embedded: "EngineProcess") -> str | None:
    from antiphon.cli.models import better_model

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


def announce_stop(app: web.Application, settings: Settings) -> None:
    """Who pressed Ctrl-C sees what it waits for; a program finds it in the log."""
    running = app[GATEWAY].responses_running + app[OPEN_ANSWERS].count
    if not logs.is_plain(settings.log_format):
        logs.log("stopping", responses=running, seconds_at_most=settings.shutdown_timeout)
        return
    are = "1 response is" if running == 1 else f"{running} responses are"
    words = STOPPING.format(are=are, most=settings.shutdown_timeout) if running else "Stopping."
    # In place of the ^C that the terminal shows.
    typer.echo(f"\r{words}" if sys.stderr.isatty() else words, err=True)
