"""Waits until a gateway is ready, and shows what it waits for: a bar on a terminal, a few lines elsewhere."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import typer
from msgspec import Struct

from antiphon.cli.gateway_client import GatewayClient, GatewayFailed
from antiphon.core.knowledge.knowledge import Loading
from antiphon.engines.embedded.progress import Milestones, amount

T = TypeVar("T")

NOT_READY = 503
# Seconds between two questions, and seconds that an answer may take: the gateway asks its engines first.
INTERVAL, ANSWER_TIMEOUT = 0.5, 10.0
# Seconds for which nothing may change: where a model is loaded or a person sees the reason, and where neither is so.
PATIENCE, SCRIPT_PATIENCE = 900.0, 30.0
# An engine that has died so often in a row will die again.
MOST_FAILURES = 2
# Every how many per cent a line is written.
LINE_PERCENT = 25
WAITING = "Waiting for the gateway. {message}"
DIED = "The engine of the gateway at {url} does not run {model}: {reason}"
ENDED = "{failed}. It was not ready yet; it said last: {message}"
TOO_LONG = "The gateway at {url} is not ready, and nothing has changed for {seconds:.0f} s: {message}"


class NotReady(Struct, frozen=True):
    """Why a gateway is not ready."""

    message: str
    # The model that its own engine loads. None: it has other engines.
    loading: Loading | None = None


def when_ready(client: GatewayClient, ask: Callable[[], T]) -> T:
    """The answer of the gateway; if it is not ready, once it is. Raises GatewayFailed."""
    try:
        return ask()
    except GatewayFailed as failed:
        if failed.status != NOT_READY:
            raise
    wait_until_ready(client)
    return ask()


def wait_until_ready(client: GatewayClient, *, check: Callable[[], None] = lambda: None, patience: float | None = None) -> None:
    """Raises GatewayFailed. `check` is called again and again, and may raise what it likes. `patience`: seconds for which
    nothing may change; None: as long as suits those who wait."""
    shown: NotReady | None = None
    changed = time.monotonic()
    with WaitView() as view:
        while (found := _ask(client, shown)) is not None:
            check()
            if found != shown:
                view.show(found)
                shown, changed = found, time.monotonic()
            usual = PATIENCE if found.loading is not None or view.is_terminal else SCRIPT_PATIENCE
            limit = patience if patience is not None else usual
            if time.monotonic() - changed > limit:
                raise GatewayFailed(TOO_LONG.format(url=client.url, seconds=limit, message=found.message))
            time.sleep(INTERVAL)


def _ask(client: GatewayClient, before: NotReady | None) -> NotReady | None:
    """None: it is ready. Raises GatewayFailed, if it will not be."""
    try:
        client.get("/ready", timeout=ANSWER_TIMEOUT)
        return None
    except GatewayFailed as failed:
        if failed.status is None and before is not None:
            raise GatewayFailed(ENDED.format(failed=failed, message=before.message)) from None
        if failed.status != NOT_READY:
            raise
        found = NotReady(str(failed), loading_in(failed.answer))
    if found.loading is not None and found.loading.failures >= MOST_FAILURES:
        raise GatewayFailed(DIED.format(url=client.url, model=found.loading.model, reason=found.loading.reason), NOT_READY)
    return found


def loading_in(answer: Any) -> Loading | None:
    """An older gateway does not say, nor does any to a client without a key."""
    try:
        engines = msgspec.convert(answer, ReadyAnswer).engines
    except msgspec.ValidationError:
        return None
    return next((engine.loading for engine in engines if engine.loading is not None), None)


class EngineState(Struct):
    loading: Loading | None = None


class ReadyAnswer(Struct):
    engines: list[EngineState] = []


class WaitView:
    """On standard error: what a command prints may be read by a program."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()
        self._stack = ExitStack()
        self._bar: Any = None
        self._milestones = Milestones(LINE_PERCENT)
        self._stage: tuple[str, int] | None = None

    def __enter__(self) -> "WaitView":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def show(self, found: NotReady) -> None:
        if found.loading is None:
            typer.echo(WAITING.format(message=found.message), err=True)
        elif self.is_terminal:
            self._move_bar(found.loading)
        else:
            self._write_line(found.loading)

    def _write_line(self, loading: Loading) -> None:
        """One for each stage, and a few more for a long one."""
        stage = loading.stage, loading.failures
        begins, self._stage = stage != self._stage, stage
        if begins:
            self._milestones = Milestones(LINE_PERCENT)
            typer.echo(f"{title(loading)} …", err=True)
        if loading.done is not None and self._milestones.passed(loading.done, loading.total):
            typer.echo(f"{title(loading)}: {amount(loading.done, loading.total)}", err=True)

    def _move_bar(self, loading: Loading) -> None:
        if self._bar is None:
            self._bar = self._stack.enter_context(_bar())
            self._bar.add_task("", total=None, amount="")
        done, total = loading.done or 0, loading.total
        known = amount(done, total) if loading.done is not None else ""
        # Without a total, it moves to and fro.
        self._bar.update(self._bar.task_ids[0], description=f"{title(loading)} …", completed=done, total=total, amount=known)


def title(loading: Loading) -> str:
    again = " again" if loading.failures else ""
    return f"{loading.stage} {loading.model}{again}"


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[amount]}")
    # It disappears at the end.
    return Progress(*columns, console=Console(stderr=True), transient=True)
