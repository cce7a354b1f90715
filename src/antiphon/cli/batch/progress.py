"""How far a batch is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import typer

# Seconds between two lines.
LINE_INTERVAL = 10.0
STATES = {"validating": "reading the file", "finalizing": "writing the results", "cancelling": "cancelling"}


class Progress:
    """On standard error: what a command prints may be read by a program."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._stack = ExitStack()
        self._bar: Any = None
        self._written_at = 0.0
        # When it was seen first, and how many requests were done by then.
        self._since: tuple[float, int] | None = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def show(self, batch: Mapping[str, Any]) -> None:
        counts, now = batch["request_counts"], time.monotonic()
        done, total = counts["completed"] + counts["failed"], counts["total"]
        if self._since is None and total:
            self._since = now, done
        words = _words(batch, self._rate(now, done))
        if self._is_terminal:
            self._move_bar(done, total, words)
        elif now - self._written_at >= LINE_INTERVAL:
            self._written_at = now
            typer.echo(f"{done} of {total} requests, {words}", err=True)

    def _rate(self, now: float, done: int) -> float | None:
        """Requests a second."""
        if self._since is None or now - self._since[0] < 1 or done <= self._since[1]:
            return None
        return (done - self._since[1]) / (now - self._since[0])

    def _move_bar(self, done: int, total: int, words: str) -> None:
        if self._bar is None:
            self._bar = self._stack.enter_context(_bar())
            self._bar.add_task("", total=None, words="")
        self._bar.update(self._bar.task_ids[0], completed=done, total=total or None, words=words)


def _words(batch: Mapping[str, Any], rate: float | None) -> str:
    counts = batch["request_counts"]
    words = [STATES.get(batch["status"], "")]
    if counts["failed"]:
        words.append(f"{counts['failed']} failed")
    if rate:
        left = (counts["total"] - counts["completed"] - counts["failed"]) / rate
        words += [f"{rate:.3g} a second", f"{_duration(left)} left"]
    return ", ".join(filter(None, words)) or "running"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:.0f}:{minutes:02.0f}:{seconds:02.0f}"


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}", markup=False)
    # It disappears at the end.
    return Bar(*columns, console=Console(stderr=True), transient=True)
