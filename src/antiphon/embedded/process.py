"""The embedded engine as a child process: started, watched, started again when it dies, and stopped with the gateway."""

import asyncio
import contextlib
import importlib.util
import logging
import secrets
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec

from antiphon.embedded import CannotEmbed
from antiphon.embedded.child import NO_LLAMACPP, READY, Parameters
from antiphon.embedded.templates import template_for
from antiphon.embedded.weights import Weights, alias_of, find_weights
from antiphon.logs import log
from antiphon.settings import Settings

# The pause before a dead engine is started again, in seconds: it doubles, and begins anew once the engine was up for long.
FIRST_PAUSE, LONGEST_PAUSE, STEADY = 0.5, 30.0, 60.0
STOP_TIMEOUT = 5.0
LAST_WORDS = 12
LONGEST_LINE = 1024 * 1024
PORTS_TRIED = 3
# A model is given its whole trained context up to this: the memory for it is taken when the engine starts.
LARGEST_CONTEXT = 32768
CONTEXT_NOT_TOLD = 4096


def can_embed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


class EngineProcess:
    """`run()` until it is cancelled. The address is known before, and stays through every restart if its port stays free."""

    def __init__(self, model: str, settings: Settings) -> None:
        self.alias = alias_of(model)
        self.key = secrets.token_urlsafe(32)
        self.moved: Callable[[str], None] = lambda url: None
        self.lost: Callable[[], None] = lambda: None
        self._model = model
        self._settings = settings
        self._port = _free_port()
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Of the engine that runs now."""
        return self._child.process.pid if self._child is not None else None

    async def run(self) -> None:
        """Raises CannotEmbed if there are no weights or the first start fails; later deaths are mended for ever."""
        if not can_embed():
            raise CannotEmbed(NO_LLAMACPP)
        weights = await find_weights(self._model, self._settings)
        try:
            await self._start(weights)
            await self._supervise(weights)
        finally:
            if self._child is not None:
                await self._child.stop()

    async def _supervise(self, weights: Weights) -> None:
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            reason = await self._death()
            self.lost()
            if time.monotonic() - began >= STEADY:
                pause = FIRST_PAUSE
            log("engine died", level=logging.WARNING, model=self.alias, reason=reason, starts_again_in=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            # One that does not start is dead again, and is told so in the next round.
            with contextlib.suppress(CannotEmbed):
                await self._start(weights)

    async def _death(self) -> str:
        assert self._child is not None
        return await self._child.end()

    async def _start(self, weights: Weights) -> None:
        reason = ""
        for _ in range(PORTS_TRIED):
            try:
                self._child = await Child.spawn(self._parameters(weights))
            except OSError as failed:
                raise CannotEmbed(f"no process could be started for the model: {failed.strerror or failed}") from None
            if await self._child.ready():
                log("engine started", model=self.alias, url=self.url, pid=self.pid)
                return
            reason = await self._child.end()
            if _is_free(self._port):
                break
            self._port = _free_port()
            self.moved(self.url)
        raise CannotEmbed(f"the model {weights.path} could not be served: {reason}")

    def _parameters(self, weights: Weights) -> Parameters:
        settings = self._settings
        trained = weights.header.context or CONTEXT_NOT_TOLD
        return Parameters(
            path=str(weights.path),
            alias=self.alias,
            port=self._port,
            key=self.key,
            context=settings.model_context or min(trained, LARGEST_CONTEXT),
            slots=settings.model_slots,
            gpu_layers=settings.model_gpu_layers,
            threads=settings.model_threads,
            template=template_for(weights.header),
            talkative=settings.log_level == "debug",
        )


class Child:
    """One life of the engine."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._said: deque[str] = deque(maxlen=LAST_WORDS)
        self._up: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.gather(self._read(process.stdout), self._read(process.stderr))
        self._reading.add_done_callback(lambda _: self._resolve(False))

    @classmethod
    async def spawn(cls, parameters: Parameters) -> "Child":
        command = [sys.executable, "-m", "antiphon.embedded.child"]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LONGEST_LINE)
        child = cls(process)
        assert process.stdin is not None
        # The pipe stays open: its closing is what ends the child.
        process.stdin.write(msgspec.json.encode(parameters) + b"\n")
        return child

    async def ready(self) -> bool:
        """False: it ended before it was ready."""
        return await asyncio.shield(self._up)

    async def end(self) -> str:
        """Why it ended, once it has."""
        code = await self.process.wait()
        await asyncio.shield(self._reading)
        return "\n".join([f"it ended with {code}" if code >= 0 else f"it was ended by signal {-code}", *self._said])

    async def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await self.end()

    def _resolve(self, up: bool) -> None:
        if not self._up.done():
            self._up.set_result(up)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in _lines(stream):
            if line == READY:
                self._resolve(True)
            else:
                self._said.append(line)
                log("engine says", level=logging.DEBUG, line=line)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # Longer than anything worth reading.
            continue
        if not line:
            return
        if text := line.decode(errors="replace").strip():
            yield text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if sys.platform != "win32":
            # As llama.cpp does: connections that are still closing do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
