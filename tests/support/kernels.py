"""A stand-in for the sandbox: a Python whose results are written in advance, and which runs nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.app.parts import Extensions
from antiphon.sandbox.runs import KernelRun, ShellRun
from antiphon.settings.tables import ContainerSettings
from support.engine import MockEngine
from support.gateway import CHECKER, GatewayUnderTest, running_gateway

# What a run does with its folder, and what comes of it.
Script = Callable[[Path], KernelRun]


class ScriptedKernel:
    def __init__(self, folder: Path, kernels: "ScriptedKernels") -> None:
        self.folder = folder
        self._kernels = kernels
        self.is_alive = True
        self.closed = asyncio.Event()
        self.runs: list[str] = []

    async def run(self, code: str, seconds: float) -> KernelRun:
        self.runs.append(code)
        if (begun := self._kernels.waits) is not None:
            begun.set()
            await asyncio.Event().wait()
        script = self._kernels.scripts.get(code)
        return KernelRun(f"ran {code!r}, run {len(self.runs)}") if script is None else script(self.folder)

    async def shell(self, command: str, seconds: float, most_output: int) -> ShellRun:
        self.runs.append(command)
        return self._kernels.commands.get(command) or ShellRun(f"ran {command}\n", "", 0)

    async def close(self) -> None:
        self.is_alive = False
        self.closed.set()


class ScriptedKernels:
    def __init__(self, scripts: Mapping[str, Script] | None = None, *, reason: str | None = None) -> None:
        """`scripts`: by the code. `reason`: why no code can be run."""
        self.scripts = dict(scripts or {})
        self.commands: dict[str, ShellRun] = {}
        self._reason = reason
        self.started: list[ScriptedKernel] = []
        self.memory: list[int] = []
        # Set it to an event: a run sets that, and then takes for ever.
        self.waits: asyncio.Event | None = None

    def begin(self) -> None: ...

    async def complaint(self) -> str | None:
        return self._reason

    async def start(self, folder: Path, memory: int) -> ScriptedKernel:
        kernel = ScriptedKernel(folder, self)
        self.started.append(kernel)
        self.memory.append(memory)
        return kernel

    async def close(self) -> None: ...


def prints(logs: str, *images: bytes, **files: str) -> Script:
    """Code that prints this, draws these, and writes these files: `name__txt` is `name.txt`."""

    def script(folder: Path) -> KernelRun:
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return KernelRun(logs, list(images))

    return script


@asynccontextmanager
async def interpreting(
    engine: MockEngine,
    kernels: ScriptedKernels | None,
    folder: Path,
    containers: ContainerSettings = ContainerSettings(),  # noqa: B008
    **options: Any,
) -> AsyncIterator[GatewayUnderTest]:
    """A gateway whose containers are in this folder, and run code like this; without kernels, in the sandbox."""
    extensions = Extensions(checker=CHECKER, kernels=kernels)
    options |= {"containers": containers, "cache_dir": str(folder)}
    async with running_gateway(engine, extensions=extensions, **options) as gateway:
        yield gateway
