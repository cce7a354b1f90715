"""One task, done by `antiphon codex exec` in a folder of its own, and judged by its files and by the model's last words."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.models.judges import Outcome, Task
from bench.models.subjects import ANTIPHON, bare_environment
from bench.models.watcher import Seen, Watcher
from bench.processes import BenchFailed

CODEX = Path(__file__).parents[2] / "tests" / "codex"
BINARY = CODEX / "node_modules" / ".bin" / "codex"
NO_CODEX = "{path} must be the program codex itself, and have this name"
NO_NPM = f"Codex is not installed in {CODEX}, and there is no npm to install it with"
# Its sandbox does not run everywhere, and without one Codex would ask before it writes.
OPTIONS = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--color", "never"]
# Nobody listens on the port of the discard service: whatever Codex wants of the internet fails at once.
NOWHERE = "http://127.0.0.1:9"
PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE)
# The settings of git on this machine must not change a task: it may sign commits, or run hooks.
BARE_GIT = dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), os.devnull)
IDENTITY = ["-c", "user.name=Bench", "-c", "user.email=bench@example.com"]


class TaskRun(NamedTuple):
    is_done: bool
    seconds: float
    in_time: bool
    seen: Seen

    @property
    def failure(self) -> str:
        """Why it ended before its time: it took too long, or the subject rejected a request."""
        return self.seen.rejected if self.in_time else f"stopped after {self.seconds:.0f} s"


def installed_codex(given: Path | None = None) -> Path:
    """`given`: the program itself, where it is installed already."""
    if given is not None:
        if not given.is_file() or given.name != "codex":
            raise BenchFailed(NO_CODEX.format(path=given))
        return given.absolute()
    if not BINARY.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise BenchFailed(NO_NPM)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(CODEX)]
        subprocess.run([npm, "install", *options], check=True, timeout=600)
    return BINARY


class Workplace:
    """A home, a repository and a data directory that nobody has used before."""

    def __init__(self, folder: Path, task: Task) -> None:
        self.home, self.repository, self.temporary = (folder / name for name in ("home", "repository", "temporary"))
        for each in (self.home, self.repository, self.temporary):
            each.mkdir()
        self.log = folder / "codex.log"
        task.prepare(self.repository)
        git = ["git", "-C", str(self.repository), *IDENTITY]
        for command in (["init"], ["add", "--all"], ["commit", "--allow-empty", "--message", "The files of the task"]):
            subprocess.run([*git, *command], check=True, capture_output=True, env=os.environ | BARE_GIT)

    def environment(self, binary: Path, port: int, help: str) -> dict[str, str]:
        return bare_environment(
            HOME=str(self.home),
            TMPDIR=str(self.temporary),
            PATH=f"{binary.parent}{os.pathsep}{os.environ['PATH']}",
            NO_PROXY="127.0.0.1,localhost",
            ANTIPHON_DATA_DIR=str(self.home / "data"),
            ANTIPHON_PORT=str(port),
            ANTIPHON_HELP=help,
            **PROXIES,
        )

    async def run_codex(self, binary: Path, port: int, help: str, prompt: str, limit: float) -> bool:
        """False: it took too long, and was stopped."""
        with self.log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *ANTIPHON, "codex", "exec", *OPTIONS, prompt,
                cwd=self.repository, env=self.environment(binary, port, help), stdin=DEVNULL, stdout=log, stderr=STDOUT,
                # One group of all that it starts, in our own session: schedulers share the CPU among sessions.
                process_group=0,
            )  # fmt: skip
        try:
            async with asyncio.timeout(limit):
                await process.wait()
            return True
        except TimeoutError:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@contextlib.contextmanager
def fresh_folder(place: int) -> Iterator[Path]:
    """Always at the same path. Paths are part of Codex's prompt, and a new one would have the engine read the prompt again.
    `place`: tasks that are done at the same time have different ones."""
    folder = Path(tempfile.gettempdir()) / f"antiphon-task-{os.getpid()}_{place}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def run_task(
    task: Task, watcher: Watcher, help: str, limit: float, log: Path, *, codex: Path | None = None, place: int = 0
) -> TaskRun:
    """`log`: the file for what Codex has printed."""
    with fresh_folder(place) as folder:
        workplace = Workplace(folder, task)
        watcher.begin()
        began = time.monotonic()
        in_time = await workplace.run_codex(installed_codex(codex), watcher.port, help, task.prompt, limit)
        seconds, seen = time.monotonic() - began, watcher.seen
        is_done = in_time and await asyncio.to_thread(task.is_done, Outcome(workplace.repository, seen.words))
        shutil.copy(workplace.log, log)
    return TaskRun(is_done, seconds, in_time, seen)
