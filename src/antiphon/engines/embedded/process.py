"""Runs the embedded engine as a child process, restarts it when it dies, and stops it with the gateway."""

import asyncio
import contextlib
import importlib.util
import logging
import secrets
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from antiphon.child_processes.child import Child, RestartPauses, Restarts, lines_of, python_command
from antiphon.core.knowledge.knowledge import Loading, Stage
from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.child import READY, Parameters, no_llamacpp
from antiphon.engines.embedded.model_choice import bytes_read_by
from antiphon.engines.embedded.named_models import MAX_DEFAULT_CONTEXT
from antiphon.engines.embedded.progress import Milestones, Progress, Step, show_progress
from antiphon.engines.embedded.weights import Weights, alias_of, check_model, find_weights, known_weights_of, template_for
from antiphon.logs import log

STOP_TIMEOUT = 5.0
# How many lines of the engine's output an error message quotes.
LAST_LINES = 12
MAX_LINE_BYTES = 1024 * 1024
PORT_ATTEMPTS = 3
# For a model file that does not name its context.
UNKNOWN_CONTEXT = 4096
# Seconds between two looks at how much of a model has been read, and every how many per cent there is a line in the log.
MEASURE_INTERVAL = 0.5
LOGGED_PERCENT = 25


def can_embed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


DEFAULT_PAUSES = RestartPauses()


class ModelOptions(Struct, frozen=True):
    # Where models are downloaded to.
    folder: Path
    # The context of one request, in tokens. None: what the model was trained for, within limits.
    context: int | None = None
    # How many requests are processed at once.
    slots: int = 2
    # -1: as many layers on the GPU as fit, and one thread for each core.
    gpu_layers: int = -1
    threads: int = -1
    verbose: bool = False


class EngineProcess:
    """Cancel `run()` to stop the engine. The URL is known before `run()`, and stays the same as long as its port is free."""

    def __init__(self, model: str, options: ModelOptions, pauses: RestartPauses = DEFAULT_PAUSES) -> None:
        self.alias = alias_of(model)
        # What is known of its weights before it is loaded.
        self.weights = known_weights_of(model)
        self.key = secrets.token_urlsafe(32)
        # Called with the new URL when the port changes, and when the engine dies.
        self.moved: Callable[[str], None] = lambda url: None
        self.lost: Callable[[], None] = lambda: None
        # What it does until it can be used, and what is called when that has changed.
        self.loading = Loading(self.alias)
        self.progressed: Callable[[Loading], None] = lambda loading: None
        self.model = model
        self._options = options
        self._pauses = pauses
        self._port = _free_port()
        self._child: EngineChild | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The current engine's process id."""
        return self._child.pid if self._child is not None else None

    def check(self) -> None:
        """Raises CannotEmbed for what `run()` would raise at once: before anything listens, a person sees that alone."""
        if not can_embed():
            raise CannotEmbed(no_llamacpp())
        check_model(self.model)

    async def run(self) -> None:
        """Raises CannotEmbed if the model is missing or the first start fails. After that, a dead engine is restarted."""
        self.check()
        weights = await find_weights(self.model, self._options.folder, show=self._show_download)
        try:
            await self._start(weights)
            await self._supervise(weights)
        finally:
            if self._child is not None:
                await self._child.stop(STOP_TIMEOUT)

    async def _supervise(self, weights: Weights) -> None:
        restarts = Restarts(self._pauses)
        while True:
            restarts.begin()
            reason = await self._end_of_child()
            self.lost()
            pause = restarts.pause()
            failures = 1 if restarts.was_stable else self.loading.failures + 1
            self._report(Loading(self.alias, failures=failures, reason=reason))
            log("engine died", level=logging.WARNING, model=self.alias, reason=reason, restarts_in=pause)
            await asyncio.sleep(pause)
            # A failed start is a death too: the next round logs it.
            with contextlib.suppress(CannotEmbed):
                await self._start(weights)

    async def _end_of_child(self) -> str:
        assert self._child is not None
        return await self._child.end()

    async def _start(self, weights: Weights) -> None:
        reason = ""
        for _ in range(PORT_ATTEMPTS):
            try:
                self._child = await EngineChild.spawn(self._parameters(weights))
            except OSError as failed:
                raise CannotEmbed(f"cannot start a process for the model: {failed.strerror or failed}") from None
            if await self._load(self._child, weights.path.stat().st_size):
                log("engine started", model=self.alias, url=self.url, pid=self.pid)
                self._note("starting")
                return
            reason = await self._child.end()
            if _is_free(self._port):
                break
            self._port = _free_port()
            self.moved(self.url)
        raise CannotEmbed(f"the model {weights.path} could not be served: {reason}")

    async def _load(self, child: "EngineChild", size: int) -> bool:
        """Until the model is loaded. False: the child exited before."""
        log("loading model", model=self.alias, bytes=size)
        measuring = asyncio.create_task(self._measure(child.pid, size))
        try:
            return await child.ready()
        finally:
            measuring.cancel()

    async def _measure(self, pid: int, size: int) -> None:
        """llama.cpp does not say how far it is. The system may: how much of the file the process has read."""
        milestones = Milestones(LOGGED_PERCENT)
        while (done := bytes_read_by(pid)) is not None:
            if done >= size:
                # What llama.cpp does with it takes a while, too.
                self._note("starting")
                return
            self._note("loading", done, size)
            if milestones.passed(done, size):
                log("loading model", model=self.alias, bytes=size, percent=self.loading.percent)
            await asyncio.sleep(MEASURE_INTERVAL)

    @contextlib.contextmanager
    def _show_download(self, what: str, step: Step = "Downloading") -> Iterator[Progress]:
        """Also to those who ask the gateway."""
        with show_progress(what, step) as show:

            def progress(received: int, total: int | None) -> None:
                show(received, total)
                if step == "Downloading":
                    self._note("downloading", received, total)

            yield progress

    def _note(self, stage: Stage, done: int | None = None, total: int | None = None) -> None:
        self._report(structs.replace(self.loading, stage=stage, done=done, total=total))

    def _report(self, loading: Loading) -> None:
        """Not every byte."""
        before, self.loading = self.loading, loading
        if (loading.stage, loading.percent, loading.failures) != (before.stage, before.percent, before.failures):
            self.progressed(loading)

    def _parameters(self, weights: Weights) -> Parameters:
        options = self._options
        trained = weights.header.context or UNKNOWN_CONTEXT
        return Parameters(
            path=str(weights.path),
            alias=self.alias,
            port=self._port,
            key=self.key,
            context=options.context or min(trained, MAX_DEFAULT_CONTEXT),
            slots=options.slots,
            gpu_layers=options.gpu_layers,
            threads=options.threads,
            template=template_for(weights.header),
            verbose=options.verbose,
        )


class EngineChild(Child):
    """One process of the engine, from its start to its end."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        super().__init__(process)
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self.follow(self._read(process.stdout), self._read(process.stderr))

    @classmethod
    async def spawn(cls, parameters: Parameters) -> "EngineChild":
        command = python_command("antiphon.engines.embedded.child")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES)
        child = cls(process)
        assert process.stdin is not None
        # The pipe stays open: the child exits when it closes.
        process.stdin.write(msgspec.json.encode(parameters) + b"\n")
        return child

    async def end(self) -> str:
        """Waits for the child to exit, and returns why it did."""
        return "\n".join([await super().end(), *self._last_lines])

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in lines_of(stream):
            if line == READY:
                self.mark_ready()
            else:
                self._last_lines.append(line)
                log("engine output", level=logging.DEBUG, line=line)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if sys.platform != "win32":
            # As llama.cpp does: a port with connections in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


# ---- The embedded engine, as a worker process sees it: another process runs it ---------------------------------------


class SharedEngineProcess:
    """`moved`, `lost` and `progressed` are called when the supervisor reports it."""

    def __init__(self, model: str, url: str, key: str, loading: Loading | None = None) -> None:
        self.url = url
        self.key = key
        self.alias = alias_of(model)
        self.weights = known_weights_of(model)
        self.moved: Callable[[str], None] = lambda url: None
        self.lost: Callable[[], None] = lambda: None
        self.loading = loading or Loading(self.alias)
        self.progressed: Callable[[Loading], None] = lambda loading: None
