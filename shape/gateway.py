"""The gateway of a checkout, started as its command, with an engine of ours behind it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.subjects import Command, Place, Subject, antiphon_command, started
from shape.client import Client
from shape.engine import Engine
from shape.tree import Tree

ROOT = Path(__file__).parents[1]
PYTHON = (sys.executable,)
COMMAND = "antiphon"
# The inspector records so many requests a second. Where that is fewer than come, what a request costs depends on the time.
SETTINGS = "inspector_rate = 1000000\n"


@dataclass(frozen=True)
class RunningGateway:
    """`folder` is gone with the gateway."""

    pid: int
    port: int
    folder: Path
    engine: Engine

    async def connect(self) -> Client:
        return await Client.connect(self.engine, self.port)


def environment_of(tree: Tree) -> dict[str, str]:
    """The sources of the tree come before those that are installed. The seed is fixed, so that sets have the same order in
    every run."""
    return {"PYTHONPATH": f"{tree.source}:{ROOT}", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": ""}


@contextlib.asynccontextmanager
async def running_gateway(
    tree: Tree,
    *,
    wrapper: Sequence[str] = (),
    module: str = COMMAND,
    variables: Mapping[str, str] = {},
) -> AsyncIterator[RunningGateway]:
    """`wrapper` is what stands before the Python, and `module` what Python runs, with the arguments of `antiphon`. "{folder}"
    in the wrapper and in variables is the folder of the gateway."""
    engine = Engine()
    own_folder = Path()

    def command(place: Place) -> Command:
        nonlocal own_folder
        own_folder = place.folder
        words = [word.format(folder=place.folder) for word in wrapper]
        made = antiphon_command(place, (*words, *PYTHON, "-m", module), SETTINGS)
        given = {name: value.format(folder=place.folder) for name, value in variables.items()}
        return made._replace(environment=environment_of(tree) | given)

    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        async with engine.serving():
            # Blocks until the gateway is ready, for which the engine has to answer it.
            subject = Subject("antiphon", "responses", command)
            server = await asyncio.to_thread(stack.enter_context, started(subject, engine.port, Path(folder)))
            try:
                yield RunningGateway(server.pid, server.port, own_folder, engine)
            finally:
                await asyncio.to_thread(stack.close)
