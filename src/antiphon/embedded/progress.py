"""Shows the progress of a download: a bar on a terminal, lines in the log elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from antiphon.logs import log

# Called with the number of bytes received so far, and the total if it is known.
Progress = Callable[[int, int | None], None]


@contextmanager
def show_progress(what: str) -> Iterator[Progress]:
    with _bar(what) if sys.stderr.isatty() else _log_lines(what) as progress:
        yield progress


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
def _log_lines(what: str) -> Iterator[Progress]:
    latest = 0

    def note(received: int, total: int | None) -> None:
        nonlocal latest
        latest = received

    log("download started", what=what)
    yield note
    log("download finished", what=what, bytes=latest)
