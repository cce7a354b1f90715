"""Shows the progress of a download: a bar on a terminal; elsewhere lines, in the log of a gateway or printed by a command."""

import asyncio
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event
from typing import Literal, Protocol

import typer
from msgspec import Struct
from rich.filesize import decimal

from antiphon.logs import log

# ---- A downloaded file that is not trusted yet -----------------------------------------------------------------------

CHUNK_BYTES = 1024 * 1024


class Candidate(Struct, frozen=True):
    path: Path
    sha256: str


# Called with the number of bytes received so far, and the total if it is known.
Progress = Callable[[int, int | None], None]


@contextmanager
def stop_event() -> Iterator[Event]:
    """Set when the block ends. A thread cannot be cancelled: it has to look."""
    stopped = Event()
    try:
        yield stopped
    finally:
        stopped.set()


async def sha256_of(path: Path, progress: Progress = lambda done, total: None) -> str:
    with stop_event() as stopped:
        return await asyncio.to_thread(_sha256_of, path, progress, stopped)


def _sha256_of(path: Path, progress: Progress, stopped: Event) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while not stopped.is_set() and (chunk := file.read(CHUNK_BYTES)):
            digest.update(chunk)
            progress(file.tell(), size)
    return digest.hexdigest()


# What is done with a model until it is there.
Step = Literal["Looking up", "Downloading", "Checking"]


class ShowProgress(Protocol):
    """Makes a `Progress` for the name of what is downloaded. It is shown until the end of the block."""

    def __call__(self, what: str, step: Step = "Downloading") -> AbstractContextManager[Progress]: ...


# A line is written every so many per cent; where the total is not known, every so many bytes.
PRINTED_PERCENT, LOGGED_PERCENT = 5, 10
# Of what is checked: that is short beside the download.
CHECKED_PERCENT = 25
LINE_BYTES = 50_000_000


@contextmanager
def show_progress(what: str, step: Step = "Downloading") -> Iterator[Progress]:
    """By a gateway."""
    with _bar(what, step) if sys.stderr.isatty() else _log_lines(what, step) as progress:
        yield progress


@contextmanager
def print_progress(what: str, step: Step = "Downloading") -> Iterator[Progress]:
    """By a command, which has no log."""
    with _bar(what, step) if sys.stderr.isatty() else _printed_lines(what, step) as progress:
        yield progress


class Milestones:
    """Which reports of a progress are worth a line."""

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._last = 0

    def passed(self, done: int, total: int | None) -> bool:
        """Once for each. A second attempt may begin with less."""
        at = 100 * done // total // self._percent if total else done // LINE_BYTES
        passed, self._last = at != self._last, at
        return passed


def amount(done: int, total: int | None) -> str:
    """`45 %, 504.0 MB of 1.1 GB`"""
    return f"{100 * done // total} %, {decimal(done)} of {decimal(total)}" if total else decimal(done)


@contextmanager
def _bar(what: str, step: Step) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    amounts = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    # No amount is known of what is looked up, only that it goes on.
    columns = TextColumn("{task.description}"), BarColumn(), *((TimeElapsedColumn(),) if step == "Looking up" else amounts)
    # It disappears at the end: of a source that failed, nothing is left but the reason.
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{step} {what}", total=None)
        yield lambda received, total: bar.update(task, completed=received, total=total)


@contextmanager
def _printed_lines(what: str, step: Step) -> Iterator[Progress]:
    milestones = Milestones(CHECKED_PERCENT if step == "Checking" else PRINTED_PERCENT)

    def write(received: int, total: int | None) -> None:
        if milestones.passed(received, total):
            typer.echo(f"{step} {what}: {amount(received, total)}", err=True)

    typer.echo(f"{step} {what}", err=True)
    yield write


@contextmanager
def _log_lines(what: str, step: Step) -> Iterator[Progress]:
    latest, milestones = 0, Milestones(CHECKED_PERCENT if step == "Checking" else LOGGED_PERCENT)

    def note(received: int, total: int | None) -> None:
        nonlocal latest
        latest = received
        if milestones.passed(received, total):
            log(step.lower(), what=what, bytes=received, total=total)

    if step == "Downloading":
        log("download started", what=what)
        yield note
        log("download finished", what=what, bytes=latest)
    else:
        log(step.lower(), what=what)
        yield note
