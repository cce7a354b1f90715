"""A real bubblewrap for the tests of the sandbox, and the sandbox itself."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.sandbox.kernel import Kernel
from antiphon.sandbox.probe import open_sandbox
from antiphon.sandbox.runs import MIB, SandboxLimits
from antiphon.sandbox.sandbox import Sandbox
from support.programs import program

# Small, so that a limit that does not hold does no harm to the machine of the tests.
SMALL = SandboxLimits(memory=128 * MIB, processes=24, disk=8 * MIB, files=200, output=10_000, images=3)


def bubblewrap() -> str:
    return program("bwrap", "bubblewrap")


async def real_sandbox() -> Sandbox:
    """One that was probed, with the packages of the extra `code`."""
    bubblewrap()
    found = importlib.util.find_spec("matplotlib")
    assert found is not None, "the extra `code` is not installed"
    assert found.origin is not None
    return await open_sandbox(packages=[Path(found.origin).parents[1]])


@asynccontextmanager
async def kernel_in(sandbox: Sandbox, folder: Path, limits: SandboxLimits = SMALL) -> AsyncIterator[Kernel]:
    folder.mkdir(exist_ok=True)
    kernel = await Kernel.start(sandbox, folder, limits)
    try:
        yield kernel
    finally:
        await kernel.close()


async def result_of(kernel: Kernel, code: str, seconds: float = 30.0) -> str:
    """What the code printed."""
    return (await kernel.run(code, seconds)).logs.strip()
