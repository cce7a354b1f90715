"""What `antiphon serve` prints: where it is, what is behind it, and what to do next."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence

import typer
from aiohttp import web
from msgspec import Struct

from antiphon import __version__
from antiphon.app.lifetime import BESIDE
from antiphon.app.running_gateways import local_url
from antiphon.core.knowledge.help import HelpSetting
from antiphon.core.knowledge.knowledge import Model
from antiphon.engines.pool import ENGINE_RETRY_INTERVAL
from antiphon.engines.upstream import Engine
from antiphon.installation import own_command
from antiphon.server.parts import APP

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
# What a person does next: a command of Antiphon, and what it is for.
NEXT = {
    "chat": "talk to it here",
    "codex": "let Codex work with it",
    "claude": "let Claude Code work with it",
    "ps": "see what it does",
}


class Address(Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Banner(Struct, frozen=True):
    address: Address
    # The gateway serves a page about itself.
    has_inspector: bool = False
    # How to get a better model.
    advice: str | None = None

    async def show(self, app: web.Application) -> None:
        """Prints a line once the first engine is ready, then one for each. Until the first line, requests get a 503 with
        Retry-After. Programs read these lines; people get more of them."""
        pool = app[APP].gateway.pool
        await pool.ready_event.wait()
        typer.echo(f"Antiphon is ready at {self.address}/v1")
        if sys.stdout.isatty():
            typer.echo(self._for_people())
        pending = list(pool.engines)
        while pending:
            for engine in [engine for engine in pending if engine.ready]:
                # Its probes show what it can do. They wait while clients are served, so their time is limited.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBES_TIMEOUT):
                        await app[BESIDE].examiner.wait()
                typer.echo(f"  {describe(engine, pool.names.models, app[APP].gateway.environment.help)}")
                pending.remove(engine)
            if pending:
                await asyncio.sleep(ENGINE_RETRY_INTERVAL)
        if self.advice is not None:
            typer.echo(f"  {self.advice}")

    def _for_people(self) -> str:
        page = f"  Inspector:  {local_url(self.address.host, self.address.port)}/\n" if self.has_inspector else ""
        return f"  Version:    {__version__}. Ctrl-C stops it.\n{page}  Next:       {next_steps(own_command())}"


def next_steps(command: str) -> str:
    """One line for each, below each other. `command`: by which Antiphon is run here."""
    width = max(map(len, NEXT))
    return f"\n{' ' * 14}".join(f"{command} {name:<{width}}    {what}" for name, what in NEXT.items())


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
