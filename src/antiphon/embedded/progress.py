"""How a long download is shown: a bar on a terminal, a line in the log elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from antiphon.logs import log

# Told how many bytes there are so far, and how many there will be, if that is known.
Progress = Callable[[int, int | None], None]


@contextmanager
def shown(what: str) -> Iterator[Progress]:
    with _bar(what) if sys.stderr.isatty() else _lines(what) as progress:
        yield progress


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"Fetching {what}", total=None)
        yield lambda received, total: bar.update(task, completed=received, total=total)


@contextmanager
def _lines(what: str) -> Iterator[Progress]:
    seen = 0

    def note(received: int, total: int | None) -> None:
        nonlocal seen
        seen = received

    log("fetching", what=what)
    yield note
    log("fetched", what=what, bytes=seen)
