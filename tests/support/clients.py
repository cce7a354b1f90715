"""Clients that others wrote: how they are installed, and a process of each that plays scenarios against a gateway."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from filelock import FileLock

from support.codex import PROXIES
from support.gateway import GatewayUnderTest
from support.programs import leave_out

FOLDER = Path(__file__).parents[1] / "clients"
INSTALL_TIME = 300  # seconds for the packages of one environment; npm takes 15, pip up to 90
TIME = 60  # seconds for a scenario; most take less than one

# Nothing is reported to anybody while tests run; the proxies lead nowhere, for what would be reported anyway.
QUIET = {
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


# ---- set-up ----------------------------------------------------------------------------------------------------------


def node_packages() -> Path:
    """The folder of the npm packages. They are installed again where `package-lock.json` has changed."""
    npm, node = program("npm"), program("node")
    modules = FOLDER / "node_modules"
    # Not `npm ci`: it wants the packages of all platforms in the lock file. `--no-save` leaves that file as it is.
    options = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--prefix", str(FOLDER)]
    # The only scripts that are needed put the binaries of two agents into their places.
    scripts = [modules / "opencode-ai" / "postinstall.mjs", modules / "@anthropic-ai" / "claude-code" / "install.cjs"]
    commands = [[npm, "install", *options], *([node, str(script)] for script in scripts)]
    made_once(modules, [FOLDER / "package.json", FOLDER / "package-lock.json"], commands)
    return FOLDER


def program(name: str) -> str:
    return shutil.which(name) or leave_out(f"The clients for Node need {name}, which is not installed")


def python_environment(name: str) -> Path:
    """The interpreter of a virtual environment with the packages of `requirements-NAME.txt`."""
    requirements, constraints = FOLDER / f"requirements-{name}.txt", FOLDER / f"constraints-{name}.txt"
    environment = FOLDER / f".venv-{name}"
    python = environment / "bin" / "python"
    install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    files = ["--requirement", str(requirements), "--constraint", str(constraints)]
    commands = [[sys.executable, "-m", "venv", "--clear", str(environment)], [str(python), *install, *files]]
    made_once(environment, [requirements, constraints], commands)
    return python


# Why a folder could not be filled. It is not tried again: the other tests that need it fail at once.
_FAILED: dict[Path, str] = {}


def made_once(folder: Path, sources: list[Path], commands: list[list[str]]) -> None:
    """Runs the commands that fill a folder, unless it was filled from the same sources. Others who want it wait."""
    wanted = "".join(source.read_text() for source in sources)
    done = folder / "installed-from"
    with FileLock(folder.with_name(folder.name + ".lock")):
        if done.exists() and done.read_text() == wanted:
            return
        if folder in _FAILED:
            pytest.fail(_FAILED[folder])
        try:
            for command in commands:
                subprocess.run(command, check=True, timeout=INSTALL_TIME, stdout=sys.stderr)
        except subprocess.SubprocessError as error:
            _FAILED[folder] = f"{folder.name} could not be installed: {error}"
            raise
        done.write_text(wanted)


def quiet_environment(home: Path) -> dict[str, str]:
    """The environment of a client: a home of its own, no settings of this machine's user, no way to the internet."""
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1,localhost"}
    return {**own, **PROXIES, **QUIET}


# ---- scenarios -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeScript:
    name: str

    def command(self) -> list[str]:
        return [program("node"), str(node_packages() / "node" / self.name)]


@dataclass(frozen=True)
class PythonScript:
    name: str
    environment: str

    def command(self) -> list[str]:
        return [str(python_environment(self.environment)), str(FOLDER / "python" / self.name)]


class Player:
    """A script that plays a scenario for each line of its input, and writes what its client saw as a line of JSON.

    One process plays all scenarios of a client, because importing some of them takes seconds.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    async def play(self, scenario: str, gateway: GatewayUnderTest, **more: Any) -> Any:
        """`more`: what else the scenario needs, as the URL of an MCP server."""
        order = msgspec.json.encode({"scenario": scenario, "url": f"{gateway.url}/v1", **more}) + b"\n"
        try:
            async with asyncio.timeout(TIME):
                line = await asyncio.to_thread(self._exchange, order)
        except TimeoutError:
            self._process.kill()
            pytest.fail(f"`{scenario}` was not done after {TIME} seconds:\n{self._log.read_text()}")
        if not line:
            pytest.fail(f"the client ended during `{scenario}`:\n{self._log.read_text()}")
        outcome = msgspec.json.decode(line)
        if "error" in outcome:
            pytest.fail(f"`{scenario}` failed:\n{outcome['error']}")
        return outcome["saw"]

    def _exchange(self, order: bytes) -> bytes:
        given, made = _pipe(self._process.stdin), _pipe(self._process.stdout)
        given.write(order)
        given.flush()
        return made.readline()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


@contextmanager
def playing(command: list[str], folder: Path) -> Iterator[Player]:
    log = folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=quiet_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        with process:
            try:
                yield Player(process, log)
            finally:
                process.kill()


# ---- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """The result of a command."""

    code: int
    output: str
    errors: str


def contents(paths: Iterable[str]) -> dict[str, str]:
    """The texts of files that a command has written."""
    return {path: Path(path).read_text() for path in paths}


async def run(command: list[str], folder: Path, **environment: str) -> Run:
    """A command, to its end, successful or not. Its home is the folder that it runs in."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=quiet_environment(folder) | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # one group of a script, its binary, and all that it starts
    )
    try:
        async with asyncio.timeout(TIME):
            output, errors = await process.communicate()
    except TimeoutError:
        pytest.fail(f"`{command[0]}` was not done after {TIME} seconds")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Run(process.returncode or 0, output.decode(), errors.decode())
