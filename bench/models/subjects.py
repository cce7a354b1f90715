"""What is measured: the model through Antiphon with help, without it, and by the engine's own endpoints."""

import asyncio
import contextlib
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from antiphon.cli.serve import model_options
from antiphon.engines.embedded.named_models import MAX_DEFAULT_CONTEXT
from antiphon.engines.embedded.process import EngineProcess
from antiphon.settings.settings import Settings
from antiphon.settings.sources import load
from bench.models.watcher import Target
from bench.processes import BenchFailed

ANTIPHON = [sys.executable, "-m", "antiphon"]
# Seconds for a download, the load of the model, and the probes of the engine.
START_TIMEOUT = 900.0
STOP_TIMEOUT = 20.0
# In the line that says that a gateway is ready, without the path of its API.
URL = re.compile(r"http://[\w.:]+")
# Settings of the person who measures that count here too: where the models are, and how many threads the engine has.
INHERITED = frozenset({"ANTIPHON_CACHE_DIR", "ANTIPHON_MODEL_THREADS"})


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    title: str
    # The setting `help` of the gateway, and of `antiphon codex`.
    help: str
    # The engine makes the responses itself; the gateway only has the catalog that Codex reads.
    is_engine: bool = False


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("help", "Antiphon with help", "auto"),
        Subject("off", "Antiphon without help", "off"),
        Subject("engine", "llama.cpp's own endpoints", "off", is_engine=True),
    )
}


@dataclass(frozen=True, slots=True)
class Running:
    subject: Subject
    model: str
    gateway: Target
    # Where responses are made.
    responses: Target
    # Limits of time are so many times as long.
    patience: float = 1.0


@dataclass(frozen=True, slots=True)
class OutsideEngine:
    """A llama.cpp server that runs already, and serves the model to all gateways, in as many slots."""

    url: str
    version: str
    slots: int
    # Tokens per slot.
    context: int


def bare_environment(**more: str) -> dict[str, str]:
    """No setting of the person who measures, except for those that are inherited."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_") or name in INHERITED}
    return kept | more


def gateway_settings() -> Settings:
    """Those of a gateway that runs here: no file is read, because none is in its folder."""
    return load({}, bare_environment(), file=Path(os.devnull))


@asynccontextmanager
async def running(
    subject: Subject, model: str, folder: Path, patience: float = 1.0, outside: OutsideEngine | None = None
) -> AsyncIterator[Running]:
    """Ready, with all probes done, when it is given. `outside`: the engine to measure with. None: one of its own."""
    async with contextlib.AsyncExitStack() as opened:
        engine = None
        if outside is not None:
            arguments = ["--upstream", outside.url]
            engine = Target(outside.url) if subject.is_engine else None
        elif subject.is_engine:
            engine = await opened.enter_async_context(running_engine(model))
            arguments = ["--upstream", engine.url, "--upstream-key", engine.key]
        else:
            arguments = ["--model", model]
        gateway = await opened.enter_async_context(running_gateway(arguments, subject.help, folder))
        yield Running(subject, await _model_of(gateway), gateway, engine or gateway, patience)


@asynccontextmanager
async def running_gateway(arguments: list[str], help: str, folder: Path) -> AsyncIterator[Target]:
    log = folder / "gateway.log"
    environment = bare_environment(ANTIPHON_DATA_DIR=str(folder / "gateway"), ANTIPHON_HELP=help)
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *ANTIPHON, "serve", "--port", "0", *arguments,
            cwd=folder, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=errors,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT):
            # One line when it is ready, and an indented one for the engine once its probes have ended.
            ready = line = await process.stdout.readline()
            while line and not line.startswith(b"  "):
                line = await process.stdout.readline()
        if not line or (url := URL.search(ready.decode())) is None:
            raise BenchFailed(f"the gateway did not start:\n{log.read_text(errors='replace')[-2000:]}")
        yield Target(url[0])
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def running_engine(model: str) -> AsyncIterator[Target]:
    """The engine that the gateway would run, by itself."""
    process = EngineProcess(model, model_options(gateway_settings()))
    task = asyncio.create_task(process.run())
    try:
        async with aiohttp.ClientSession() as session:
            while not await _is_healthy(session, process.url):
                # An engine that cannot start raises the reason here.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(task), 0.2)
        yield Target(process.url, process.key)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _is_healthy(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/health") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, OSError):
        return False


async def outside_engine(url: str, jobs: int) -> OutsideEngine:
    """Raises BenchFailed if what it measures could not be compared with what the embedded engine does."""
    url = url.rstrip("/").removesuffix("/v1")
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            async with session.get(f"{url}/props") as answer:
                props = msgspec.json.decode(await answer.read())
            async with session.get(f"{url}/v1/models") as answer:
                models = msgspec.json.decode(await answer.read())["data"]
        slots, context = props["total_slots"], props["default_generation_settings"]["n_ctx"]
        trained, version = models[0]["meta"]["n_ctx_train"], props["build_info"]
    except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, LookupError, TypeError) as failed:
        raise BenchFailed(f"{url} is no llama.cpp server with a model: {failed!r}") from None
    if slots < jobs:
        raise BenchFailed(f"{url} has {slots} slots, and {jobs} gateways would wait for one another. Start it with -np {jobs}")
    embedded = min(trained, MAX_DEFAULT_CONTEXT)
    if context != embedded:
        wanted = f"-c {embedded * slots} -np {slots} --no-kv-unified"
        raise BenchFailed(f"{url} has {context} tokens in a slot, the embedded engine {embedded}. Start it with {wanted}")
    return OutsideEngine(url, version, slots, context)


async def _model_of(gateway: Target) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{gateway.url}/v1/models") as answer:
        return str(msgspec.json.decode(await answer.read())["data"][0]["id"])
