"""A gateway in a thread of its own, and how much CPU time each callback of its event loop takes.

The engine and the client of a test run in the test's own loop: what they do is not counted. Time is that of the thread, so
other processes on the machine do not count either.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import aiohttp.web

from antiphon.app.app import make_app, make_runner
from antiphon.app.parts import Extensions
from antiphon.app.start_up import collect_less
from antiphon.gateway.runs.checker import Checker
from antiphon.sandbox.containers.kernels import Kernels
from antiphon.settings.settings import Settings
from antiphon.store import open_store
from antiphon.transport import make_session
from support.gateway import DEFAULTS

# What a callback may take in a test, in seconds; the best of so many attempts counts. The aim is 0.05 on an idle machine; one
# that is busy has slower caches.
BUDGET = 0.15
ATTEMPTS = 3


class MeasuringLoop(asyncio.SelectorEventLoop):
    """`longest`: the CPU time of the longest callback since it was last set to 0, in seconds."""

    longest = 0.0

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return super().call_soon(self._measured, callback, args, context=context)

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return super().call_soon_threadsafe(self._measured, callback, args, context=context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return super().call_at(when, self._measured, callback, args, context=context)

    # Transports register themselves with these, and not with the public methods.
    def _add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        return super()._add_reader(fd, self._measured, callback, args)  # type: ignore[misc]

    def _add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        return super()._add_writer(fd, self._measured, callback, args)  # type: ignore[misc]

    def _measured(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        began = time.thread_time()
        try:
            callback(*args)
        finally:
            self.longest = max(self.longest, time.thread_time() - began)


class MeasuredGateway:
    """`url` is that of the gateway; `loop` has what its callbacks took."""

    def __init__(self, settings: Settings, extensions: Extensions) -> None:
        self.loop = MeasuringLoop()
        self.url = ""
        self._settings = settings
        self._extensions = extensions
        self._started: Future[None] = Future()
        self._stop = asyncio.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.thread.start()
        self._started.result(30)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self.thread.join(30)
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as failed:
            if not self._started.done():
                self._started.set_exception(failed)
            raise

    async def _serve(self) -> None:
        async with make_session(self._settings.transport) as session, open_store(self._settings.store or "memory:") as store:
            app = make_app(self._settings, session, store, extensions=self._extensions)
            runner = make_runner(app)
            await runner.setup()
            await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set_result(None)
            try:
                await self._stop.wait()
            finally:
                await runner.cleanup()


@contextmanager
def measured_gateway(
    engine_url: str, *, check_timeout: float = 5.0, kernels: Kernels | None = None, **settings: Any
) -> Iterator[MeasuredGateway]:
    """`kernels`: what runs code, in place of the sandbox."""
    checker = Checker(check_timeout)
    extensions = Extensions(checker=checker, kernels=kernels)
    gateway = MeasuredGateway(Settings(upstream=(engine_url,), port=0, **(DEFAULTS | settings)), extensions)
    gateway.start()
    thresholds = gc.get_threshold()
    # As in a server: what a test run has in memory beside it would take the collector far longer.
    collect_less()
    try:
        yield gateway
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        gateway.stop()
        checker.close()
