"""The gateway under attack: on a real socket, in a thread of its own, with every callback of its event loop measured."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from aiohttp import web

from antiphon.app.app import make_app, make_runner
from antiphon.server.parts import APP
from antiphon.settings.settings import Settings
from antiphon.store import open_store
from antiphon.transport import make_session

# Of the thread's CPU time, in seconds: what one callback of the event loop may take.
LONGEST_CALLBACK = 0.05
# A check of a schema or grammar that takes longer is killed.
CHECK_TIMEOUT = 2.0
READY_WITHIN = 60.0


class Target:
    """`url`, once it runs. `take_faults()` gives what went wrong inside since the last time."""

    def __init__(self, engine: str) -> None:
        self.url = ""
        self._engine = engine
        self._faults: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="gateway")

    def take_faults(self) -> list[str]:
        found, self._faults = self._faults, []
        return found

    def start(self) -> None:
        self._thread.start()
        self.url = self._ready.result(READY_WITHIN)

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner, self._watched(runner.get_loop()):
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        settings = Settings(
            upstream=(self._engine,),
            seal_key="fuzz",
            probe=False,
            retries=0,
            check_timeout=CHECK_TIMEOUT,
            idle_timeout=20,
            shutdown_timeout=5,
        )
        try:
            async with make_session(settings.transport) as session, open_store("memory:") as store:
                app = make_app(settings, session, store)
                runner = make_runner(app)
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                await app[APP].gateway.pool.ready_event.wait()
                # What exists by now is not looked at when garbage is collected: that is not the work of a request.
                gc.collect()
                gc.freeze()
                self._ready.set_result(f"http://127.0.0.1:{runner.addresses[0][1]}")
                await self._stop.wait()
                await runner.cleanup()
        except BaseException as failed:
            if not self._ready.done():
                self._ready.set_exception(failed)
            raise

    @contextmanager
    def _watched(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Measures its callbacks, and hears of its bugs."""
        run = asyncio.Handle._run
        heard = BugListener(lambda trace: self._faults.append(trace))

        def measured(handle: asyncio.Handle) -> None:
            if handle._loop is not loop:  # type: ignore[attr-defined]
                run(handle)
                return
            began = time.thread_time()
            run(handle)
            if (took := time.thread_time() - began) > LONGEST_CALLBACK:
                self._faults.append(f"the event loop was blocked for {took * 1000:.0f} ms")

        asyncio.Handle._run = measured  # type: ignore[assignment, method-assign]
        logging.getLogger("antiphon").addHandler(heard)
        try:
            yield
        finally:
            logging.getLogger("antiphon").removeHandler(heard)
            asyncio.Handle._run = run  # type: ignore[method-assign]


class BugListener(logging.Handler):
    """What the gateway itself calls a bug, with its trace."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._report = report
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "bug":
            self._report(self.format(record))
