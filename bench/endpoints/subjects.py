"""Who is asked: llama.cpp itself, LiteLLM and Antiphon, all of them before the same llama.cpp."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp

import antiphon
from antiphon.engines.embedded.weights import find_weights
from antiphon.settings.settings import models_directory
from bench.endpoints.results import Setup
from bench.models.subjects import gateway_settings, running_gateway
from bench.processes import BenchFailed, free_port, running
from bench.subjects import LITELLM, LITELLM_CONF, LITELLM_ENVIRONMENT

NO_LITELLM = "LiteLLM is not installed: `make bench-endpoints` does that; or leave it out with --subjects"
# What llama.cpp says of itself where it was built without its repository.
UNKNOWN = "unknown"
# As LITELLM_CONF names it.
LITELLM_MODEL = "bench"


class Endpoint(NamedTuple):
    """Where a model is asked, without the path of an API, and the model's name there."""

    url: str
    model: str


class Engine(NamedTuple):
    """The llama.cpp behind all of them. `about`: which one it is, and where it runs."""

    url: str
    model: str
    about: str


async def engine_at(url: str) -> Engine:
    """A llama.cpp that runs."""
    async with aiohttp.ClientSession(url, raise_for_status=True) as session:
        async with session.get("/v1/models") as answer:
            model = (await answer.json())["data"][0]["id"]
        async with session.get("/props") as answer:
            build = str((await answer.json()).get("build_info", UNKNOWN))
    if UNKNOWN in build:
        # As a library it does not know its own build; the package does.
        build = f"(xllamacpp) {importlib.metadata.version('xllamacpp')}"
    return Engine(url, model, f"llama.cpp {build}")


async def weights(model: str) -> Path:
    """The file of a model, which is downloaded if it has a name and is not there."""
    return (await find_weights(model, models_directory(gateway_settings()))).path


@asynccontextmanager
async def _itself(engine: Engine, folder: Path) -> AsyncIterator[Endpoint]:
    yield Endpoint(engine.url, engine.model)


@asynccontextmanager
async def _litellm(engine: Engine, folder: Path) -> AsyncIterator[Endpoint]:
    if not LITELLM.exists():
        raise BenchFailed(NO_LITELLM)
    port, conf = free_port(), folder / "litellm.yaml"
    conf.write_text(LITELLM_CONF.format(engine=engine.url))
    command = [str(LITELLM), "--config", str(conf), "--host", "127.0.0.1", "--port", str(port)]
    with running("litellm", command, port, "/health/liveliness", folder, environment=LITELLM_ENVIRONMENT):
        yield Endpoint(f"http://127.0.0.1:{port}", LITELLM_MODEL)


@asynccontextmanager
async def _antiphon(engine: Engine, folder: Path) -> AsyncIterator[Endpoint]:
    """As it is shipped, and with its probes done."""
    async with running_gateway(["--upstream", engine.url, "--store", "memory:"], "auto", folder) as gateway:
        yield Endpoint(gateway.url, engine.model)


class Subject(NamedTuple):
    name: str
    title: str
    start: Callable[[Engine, Path], AbstractAsyncContextManager[Endpoint]]
    # Its version, if it is not llama.cpp itself.
    version: Callable[[], str] | None = None


def _version_of_litellm() -> str:
    script = "import importlib.metadata as m; print(m.version('litellm'))"
    found = subprocess.run([LITELLM.with_name("python"), "-c", script], capture_output=True, text=True, check=True)
    return f"LiteLLM {found.stdout.strip()}"


def _version_of_antiphon() -> str:
    return f"Antiphon {antiphon.__version__}"


# In the order of the columns.
SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("llama.cpp", "llama.cpp itself", _itself),
        Subject("litellm", "LiteLLM", _litellm, _version_of_litellm),
        Subject("antiphon", "Antiphon", _antiphon, _version_of_antiphon),
    )
}


def setup(part: str, subject: Subject, engine: Engine, *more: str) -> Setup:
    """`more`: what else it was measured with."""
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, Python {platform.python_version()}"
    versions = [engine.about, *([subject.version()] if subject.version is not None else []), *more]
    return Setup(part, subject.name, versions, engine.model, machine)
