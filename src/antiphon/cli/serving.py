"""Running the server: find engines, listen, say so, and stop gently."""

import asyncio
import signal
import sys
from dataclasses import dataclass

import msgspec
import typer
from aiohttp import web

from antiphon import logs
from antiphon.app import make_app, make_runner, make_session
from antiphon.engines.detection import WELL_KNOWN_PORTS, look_around
from antiphon.http.responses import GATEWAY
from antiphon.settings import Settings


class NoEngine(Exception):
    """Nothing to stand in front of."""


NONE_FOUND = """no engine was found on this machine. Start one, or name one with --upstream URL. Looked at:
{places}
For example:
  llama-server -m MODEL.gguf --jinja          then: antiphon
  ollama serve                                then: antiphon
  vllm serve MODEL                            then: antiphon
  antiphon --upstream http://HOST:PORT"""


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
    async with make_session() as session:
        if not settings.upstream:
            found = await look_around(session, {}, but=settings.port)
            if not found:
                raise NoEngine(NONE_FOUND.format(places=places_looked_at()))
            settings = msgspec.structs.replace(settings, upstream=tuple(found))
        app = make_app(settings, session)
        runner = make_runner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, settings.host, settings.port).start()
            port: int = runner.addresses[0][1]
            announcing = asyncio.create_task(_announce(app, Address(settings.host, port)))
            await _signal_to_stop()
            announcing.cancel()
            logs.log("stopping", seconds_at_most=settings.shutdown_timeout)
        finally:
            await runner.cleanup()


async def _announce(app: web.Application, address: Address) -> None:
    """One line, once the engine is there; until then requests are answered with 503 and Retry-After."""
    pool = app[GATEWAY].pool
    logs.log("listening", url=str(address), engines=[engine.root for engine in pool.engines])
    await pool.there.wait()
    engines = ", ".join(f"{engine.dialect.name} at {engine.root}" for engine in pool.engines if engine.ready)
    typer.echo(f"Antiphon is ready at {address}/v1  ({engines})")


async def _signal_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    # A second signal means it: the default ends the process at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
