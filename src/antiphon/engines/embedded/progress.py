"""Shows the progress of a download: a bar on a terminal; elsewhere lines, in the log of a gateway or printed by a command."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import typer
from msgspec import Struct
from rich.filesize import decimal

from antiphon.logs import log

# ---- A downloaded file that is not trusted yet -----------------------------------------------------------------------

CHUNK_BYTES = 1024 * 1024


class Candidate(Struct, frozen=True):
    path: Path
    sha256: str


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Called with the number of bytes received so far, and the total if it is known.
Progress = Callable[[int, int | None], None]
# Makes one for the name of what is downloaded. It is shown until the end of the block.
ShowProgress = Callable[[str], AbstractContextManager[Progress]]
# A line is written every so many per cent; where the total is not known, every so many bytes.
PRINTED_PERCENT, LOGGED_PERCENT = 5, 10
LINE_BYTES = 50_000_000


@contextmanager
def show_progress(what: str) -> Iterator[Progress]:
    """By a gateway."""
    with _bar(what) if sys.stderr.isatty() else _log_lines(what) as progress:
        yield progress


@contextmanager
def print_progress(what: str) -> Iterator[Progress]:
    """By a command, which has no log."""
    with _bar(what) if sys.stderr.isatty() else _printed_lines(what) as progress:
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
def _bar(what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    # It disappears at the end: of a source that failed, nothing is left but the reason.
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"Downloading {what}", total=None)
        yield lambda received, total: bar.update(task, completed=received, total=total)


@contextmanager
def _printed_lines(what: str) -> Iterator[Progress]:
    milestones = Milestones(PRINTED_PERCENT)

    def write(received: int, total: int | None) -> None:
        if milestones.passed(received, total):
            typer.echo(f"Downloading {what}: {amount(received, total)}", err=True)

    typer.echo(f"Downloading {what}", err=True)
    yield write


@contextmanager
def _log_lines(what: str) -> Iterator[Progress]:
    latest, milestones = 0, Milestones(LOGGED_PERCENT)

    def note(received: int, total: int | None) -> None:
        nonlocal latest
        latest = received
        if milestones.passed(received, total):
            log("downloading", what=what, bytes=received, total=total)

    log("download started", what=what)
    yield note
    log("download finished", what=what, bytes=latest)
