"""A real bubblewrap for the tests of the sandbox, and the sandbox itself.

`python -m support.bubblewrap` installs it where it is missing, and says what to do where it cannot.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import FileLock

from antiphon.sandbox.kernel import Kernel
from antiphon.sandbox.limits import MIB, SandboxLimits
from antiphon.sandbox.probe import open_sandbox
from antiphon.sandbox.sandbox import Sandbox

PACKAGE = "bubblewrap"
# Small, so that a limit that does not hold does no harm to the machine of the tests.
SMALL = SandboxLimits(memory=128 * MIB, processes=24, disk=8 * MIB, files=200, output=10_000, images=3)


class Missing(Exception):
    """It is not installed, and cannot be installed."""


def bubblewrap() -> str:
    """The program."""
    with FileLock(Path(tempfile.gettempdir()) / f"antiphon-tests-bubblewrap-{os.geteuid()}.lock"):
        return shutil.which("bwrap") or install("bwrap", PACKAGE)


def install(program: str, package: str) -> str:
    """The program, from a package of Debian's."""
    advice = f"Install it: apt-get install {package}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"{program} was not found, and only root can install it with apt-get. {advice}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    get = ["apt-get", "install", "-y", "--no-install-recommends", package]
    errors = ""
    # The package lists of a new machine may be old or missing.
    for command in (get, ["apt-get", "update"], get):
        errors = subprocess.run(command, env=environment, capture_output=True, text=True).stderr
        if (found := shutil.which(program)) is not None:
            return found
    raise Missing(f"apt-get could not install {package}: {errors[-500:]}\n{advice}")


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


if __name__ == "__main__":
    try:
        bubblewrap()
    except Missing as reason:
        sys.exit(str(reason))
