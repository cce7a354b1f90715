"""Several engines as one: a conversation goes to the same engine each time, so that its prefix cache is warm there."""

import asyncio
import hashlib
import itertools
from collections.abc import Sequence

from antiphon.engines.upstream import Engine
from antiphon.errors import EngineUnavailable

# Seconds until an engine that did not answer is tried again.
ENGINE_RETRY_INTERVAL = 1.0


class Pool:
    def __init__(self, engines: Sequence[Engine], retry_interval: float = ENGINE_RETRY_INTERVAL) -> None:
        self.engines = list(engines)
        self._retry_interval = retry_interval
        # Set when the first engine is ready.
        self.ready_event = asyncio.Event()
        self._round_robin = itertools.count()

    @property
    def ready(self) -> bool:
        return any(engine.ready for engine in self.engines)

    async def choose(self, model: str | None, key: str | None) -> list[Engine]:
        """The engines to try, best first: those that serve the model, ordered by the cache key."""
        serving = self._serving(model)
        if not serving:
            await asyncio.gather(*(engine.identify() for engine in self.engines))
            serving = self._serving(model)
        if not serving:
            addresses = ", ".join(engine.root for engine in self._candidates(model))
            raise EngineUnavailable(f"No engine answers at {addresses} yet.", retry_after=self._retry_interval)
        if key is None:
            first = next(self._round_robin) % len(serving)
            return serving[first:] + serving[:first]
        return sorted(serving, key=lambda engine: _rendezvous(key, engine.root), reverse=True)

    def _candidates(self, model: str | None) -> list[Engine]:
        """The engines known to serve the model, even while they are away; any engine for a name that none is known to serve."""
        return [engine for engine in self.engines if model and engine.knowledge.serves(model)] or self.engines

    def _serving(self, model: str | None) -> list[Engine]:
        return [engine for engine in self._candidates(model) if engine.ready]

    async def watch(self) -> None:
        """Keeps trying the engines that are away, so that readiness is known before a request needs it."""
        while True:
            await asyncio.gather(*(engine.identify() for engine in self.engines))
            if self.ready:
                self.ready_event.set()
            await asyncio.sleep(self._retry_interval)


def _rendezvous(key: str, root: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{root}".encode(), digest_size=8).digest()
