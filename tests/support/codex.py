"""The real Codex CLI, in a home and a git repository of its own, pointed at a gateway."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from filelock import FileLock

from support.commands import ANTIPHON, WITHOUT_SANDBOX
from support.engine import Body, MockEngine, Script, Writer, answer, call
from support.processes import running
from support.programs import leave_out
from support.terminal import Terminal

FOLDER = Path(__file__).parents[1] / "codex"
BINARY = FOLDER / "node_modules" / ".bin" / "codex"
TIME = 60  # seconds for a run; it takes about one

# Nobody listens on the port of the discard service: whatever Codex wants of the internet fails at once.
NOWHERE = "http://127.0.0.1:9"
PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE)

# One entry that Codex takes without a warning: one missing key, and it rejects the whole file.
MODEL: dict[str, Any] = {
    "slug": "mock",
    "display_name": "Mock",
    "description": "an engine of the tests",
    "default_reasoning_level": "medium",
    "supported_reasoning_levels": [{"effort": "medium", "description": "some"}],
    "shell_type": "unified_exec",
    "visibility": "list",
    "supported_in_api": True,
    "priority": 1,
    "base_instructions": "You are a coding agent of the tests.",
    "supports_reasoning_summaries": True,
    "support_verbosity": False,
    "default_verbosity": None,
    "apply_patch_tool_type": "freeform",
    "truncation_policy": {"mode": "tokens", "limit": 10000},
    "supports_parallel_tool_calls": True,
    "context_window": 32768,
    "max_context_window": 32768,
    "experimental_supported_tools": [],
    "input_modalities": ["text", "image"],
}


def installed() -> Path:
    """The binary; it is installed once, where it is missing and npm is there."""
    # Of several processes that run tests, one installs it.
    with FileLock(FOLDER / "install.lock"):
        return _installed()


def _installed() -> Path:
    if not BINARY.exists():
        npm = shutil.which("npm")
        if npm is None:
            reason = f"Codex is not installed in {FOLDER}, and there is no npm to install it with"
            leave_out(reason)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(FOLDER)]
        subprocess.run([npm, "install", *options], check=True, timeout=600)
    return BINARY


@dataclass(frozen=True)
class Run:
    """The result of one `codex exec`."""

    code: int
    output: str  # both of its streams, as a person would see them
    last_message: str


class Codex:
    def __init__(self, binary: Path, gateway: str, folder: Path) -> None:
        self.binary = binary
        self.home, self.repository, self.temporary = (folder / name for name in ("home", "repository", "temporary"))
        for each in (self.home, self.repository, self.temporary):
            each.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.repository)], check=True)
        # Written as one line each: dotted keys, and values that JSON and TOML have in common.
        self.config: dict[str, Any] = {
            "model": MODEL["slug"],
            "model_provider": "gateway",
            "model_catalog_json": str(self.home / "catalog.json"),
            "approval_policy": "never",
            "sandbox_mode": "danger-full-access",
            "web_search": "disabled",
            "check_for_update_on_startup": False,
            "analytics.enabled": False,
            "model_providers.gateway.name": "Antiphon",
            "model_providers.gateway.base_url": f"{gateway}/v1",
            "model_providers.gateway.wire_api": "responses",
            "model_providers.gateway.request_max_retries": 1,
            "model_providers.gateway.stream_max_retries": 1,
        }

    def write_configuration(self) -> None:
        lines = [f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in self.config.items()]
        (self.home / "config.toml").write_text("".join(lines))
        (self.home / "catalog.json").write_bytes(msgspec.json.encode({"models": [MODEL]}))

    async def run(self, *arguments: str) -> Run:
        """`codex exec` with these arguments, to its end, successful or not."""
        self.write_configuration()
        message, log = self.home / "last_message", self.home / "log"
        message.unlink(missing_ok=True)
        command = (str(self.binary), "exec", "--skip-git-repo-check", "--color", "never", "-o", str(message), *arguments)
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.repository,
                env=self.environment(),
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                start_new_session=True,  # one group of npm's script, the binary, and all that it starts
            )
        try:
            async with asyncio.timeout(TIME):
                code = await process.wait()
        except TimeoutError:
            pytest.fail(f"Codex was not done after {TIME} seconds:\n{log.read_text()}")
        finally:
            self.end(process)
            await process.wait()
        return Run(code, log.read_text(), message.read_text() if message.exists() else "")

    async def does(self, *arguments: str) -> Run:
        """A run that goes well: no error, no retry, no warning about the model."""
        run = await self.run(*arguments)
        assert run.code == 0, run.output
        for complaint in ("Reconnecting", "metadata", "ERROR", "warning"):
            assert complaint not in run.output, run.output
        return run

    @staticmethod
    def end(process: asyncio.subprocess.Process) -> None:
        """Ends it with all that it has started: it leads a process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def environment(self) -> dict[str, str]:
        # Below TMPDIR Codex would not make the aliases that it puts into the PATH of its commands.
        home = {"CODEX_HOME": str(self.home), "HOME": str(self.home), "TMPDIR": str(self.temporary)}
        return {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1,localhost", **PROXIES, **home}


class Person:
    """A person with an empty home directory who types commands."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.home, self.repository, temporary = folder / "home", folder / "repository", folder / "temporary"
        for each in (self.home, self.repository, temporary):
            each.mkdir()
        self.environment = {
            "HOME": str(self.home),
            "TMPDIR": str(temporary),
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "NO_PROXY": "127.0.0.1,localhost",
            # The mock's answers are for Codex.
            "ANTIPHON_PROBE": "false",
            **WITHOUT_SANDBOX,
            # Where the tests themselves import Antiphon from.
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            **PROXIES,
        }

    async def types(self, *arguments: str, command: Sequence[str] = ANTIPHON) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *command, *arguments,
            cwd=self.repository, env=self.environment, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(TIME):
            out, _ = await process.communicate()
        return process.returncode or 0, out.decode()


@contextlib.asynccontextmanager
async def typed(
    person: Person, *arguments: str, terminal: Terminal | None = None, command: str = "codex"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`antiphon codex`, or another of these commands, while it runs, at the head of a session, as a terminal would start it."""
    stream = terminal.theirs if terminal is not None else DEVNULL
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, command, *arguments,
        cwd=person.repository, env=person.environment | {"TERM": "xterm-256color"}, stdin=stream, stdout=stream, stderr=STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        for pid in running(str(person.home)):
            os.kill(pid, signal.SIGKILL)


def write_codex(folder: Path, script: str, *, name: str = "codex") -> str:
    """A command of this name in place of the real one. Returns a PATH on which it is found first."""
    folder.mkdir()
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


# ---- what a model says to Codex --------------------------------------------------------------------------------------


def arguments(**members: Any) -> str:
    return msgspec.json.encode(members).decode()


def shell(command: str, *, id: str = "call_1", index: int = 0) -> bytes:
    return call("exec_command", arguments(cmd=command), id=id, index=index)


def calls(*chunks: bytes) -> bytes:
    return answer(*chunks, finish="tool_calls")


def asked(engine: MockEngine, reply: Callable[[Body], bytes]) -> Script:
    """An answer that depends on the request, for where Codex asks in no certain order."""

    async def script(write: Writer) -> None:
        await write(reply(engine.last))

    return script
