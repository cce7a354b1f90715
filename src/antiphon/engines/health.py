"""Whether the engines are still there: each is asked for a small document now and then, so that no request has to find out.

An engine that does not even accept a connection is lost: it is not used until it has been identified again. One that accepts it
and does not answer may only be busy: some answer one request at a time. It is asked last, and by no one while there are others.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import aiohttp

from antiphon import logs
from antiphon.engines.detection import MODELS, silence_to_words
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError

# Seconds between two checks of an engine, and seconds that its answer may take.
HEALTH_INTERVAL = 5.0
HEALTH_TIMEOUT = 5.0
# So many checks in a row fail before an engine is out. One that succeeds brings it back.
MOST_FAILURES = 2
# What a server answers, or a proxy in its place, that cannot answer requests.
UNHEALTHY = frozenset({502, 503, 504})
# Seconds until a setting is looked at again that switches the checks off.
PAUSE = 1.0


class HealthChecks:
    def __init__(self, interval: float = HEALTH_INTERVAL, timeout: float = HEALTH_TIMEOUT) -> None:
        """`interval`: 0 for no checks. It may be changed."""
        self.interval = interval
        self._timeout = timeout
        self._failures: WeakKeyDictionary[Engine, int] = WeakKeyDictionary()

    async def watch(self, engines: Callable[[], Sequence[Engine]]) -> None:
        while True:
            await asyncio.sleep(self.interval or PAUSE)
            if self.interval:
                await asyncio.gather(*map(self.check, engines()))

    async def check(self, engine: Engine) -> None:
        """One that is not ready is asked by others, until it is."""
        if not engine.ready:
            return
        is_gone = False
        try:
            problem = await self._ask(engine)
        except ApiError:
            # It answers, at length.
            problem = None
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as reason:
            problem = silence_to_words(reason)
            is_gone = isinstance(reason, aiohttp.ConnectionTimeoutError) or not isinstance(reason, TimeoutError)
        self._count(engine, problem, is_gone=is_gone)

    async def _ask(self, engine: Engine) -> str | None:
        """What is wrong with its answer. Anything but a failure of its own shows that it is there."""
        path = engine.dialect.health
        status, _ = await engine.look(path or MODELS, self._timeout, method="GET" if path is not None else "HEAD")
        return f"HTTP {status}" if status in UNHEALTHY else None

    def _count(self, engine: Engine, problem: str | None, *, is_gone: bool) -> None:
        if problem is None:
            engine.unhealthy = None
            if self._failures.pop(engine, 0) >= MOST_FAILURES:
                logs.log("engine is healthy again", engine=engine.root)
            return
        failures = self._failures[engine] = self._failures.get(engine, 0) + 1
        if failures < MOST_FAILURES:
            return
        if failures == MOST_FAILURES:
            logs.log("engine is not healthy", level=logging.WARNING, engine=engine.root, reason=problem)
        engine.unhealthy = problem
        if is_gone:
            engine.lost()
