"""Antiphon as a command, with only the settings that a test gives it, and without files left behind."""

import asyncio
import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, chdir
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from antiphon.cli.commands import app

ANTIPHON = [sys.executable, "-m", "antiphon"]
TESTS = Path(__file__).parents[1]
# On a machine of a known size: what fits, and what is recommended, depends on it.
MEMORY = 8_000_000_000
ON_8_GB = [sys.executable, "-m", "support.memory_command", str(MEMORY)]
# Gateways announce themselves here: those of a test run and those of the user must not find each other.
DATA = tempfile.mkdtemp(prefix="antiphon-tests-")
atexit.register(shutil.rmtree, DATA, ignore_errors=True)
# When it starts, a gateway tries its sandbox, which is nearly as much work as the rest: most gateways of the tests have none.
NO_SANDBOX = "[containers]\nenabled = false\n"
WITHOUT_SANDBOX = {"ANTIPHON_CONFIG": os.path.join(DATA, "without_sandbox.toml")}
Path(WITHOUT_SANDBOX["ANTIPHON_CONFIG"]).write_text(NO_SANDBOX, encoding="utf-8")
DEFAULTS = {
    "ANTIPHON_DATA_DIR": DATA,
    "ANTIPHON_STORE": "memory:",
    "ANTIPHON_SEAL_KEY": "for the tests",
    "ANTIPHON_PROBE": "false",
    # There is nothing: a model that the user has pulled must not change a test.
    "ANTIPHON_CACHE_DIR": os.path.join(tempfile.gettempdir(), f"antiphon-tests-{os.getpid()}"),
}


def bare_environment(**more: str) -> dict[str, str]:
    """Probes are off: they would take the answers that a test has prepared."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return bare | DEFAULTS | more


def python_path() -> str:
    """For commands that are scripts of the tests' support."""
    return os.pathsep.join((str(TESTS), str(Path(sys.modules["antiphon"].__file__ or "").parents[1])))


def environment(cache: Path) -> dict[str, str]:
    return bare_environment(ANTIPHON_CACHE_DIR=str(cache))


# What a command changes for a whole process: one at a time.
ALONE = threading.Lock()


async def shown_by(
    *arguments: str, env: Mapping[str, str], cwd: Path | None = None, given: str | None = None
) -> tuple[int, str, str]:
    """The exit code of `antiphon ARGUMENTS`, and what it prints. It runs in a thread of this process: for tests about what a
    command says, because a process of its own takes half a second to start. `given`: on standard input."""
    return await asyncio.to_thread(_run_here, arguments, env, cwd, given)


def _run_here(arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, given: str | None) -> tuple[int, str, str]:
    with ALONE, patch.dict(os.environ, env, clear=True), chdir(cwd or "."):
        result = CliRunner().invoke(app, arguments, given, prog_name="antiphon")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@asynccontextmanager
async def served(*arguments: str, **environment: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A running `antiphon` without a sandbox, and the line that it printed when it was ready."""
    async with served_for(60, *arguments, **environment) as started:
        yield started


@asynccontextmanager
async def served_for(
    seconds: float, *arguments: str, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """For a test that takes longer than most."""
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=bare_environment(**WITHOUT_SANDBOX | environment),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            yield process, (await process.stdout.readline()).decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
