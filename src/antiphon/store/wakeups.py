"""Bells: how whoever waits for a change is woken."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

# A change in another process may go unheard, and a lease that runs out rings nothing: nobody waits longer than this.
POLL_SECONDS = 2.0


class Bell:
    """What rings while nobody waits is not lost: the next wait ends at once."""

    def __init__(self, poll: float) -> None:
        self._rung = asyncio.Event()
        self._poll = poll

    def ring(self) -> None:
        self._rung.set()

    async def wait(self) -> None:
        """Until it rings, or for a while: look again in either case."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll):
                await self._rung.wait()
        self._rung.clear()


class Belfry:
    """The bells of one process, by what they ring for."""

    def __init__(self, poll: float = POLL_SECONDS) -> None:
        self.poll = poll
        self._bells: defaultdict[str, set[Bell]] = defaultdict(set)

    @contextlib.contextmanager
    def hang(self, name: str) -> Iterator[Bell]:
        bell = Bell(self.poll)
        self._bells[name].add(bell)
        try:
            yield bell
        finally:
            self._bells[name].discard(bell)
            if not self._bells[name]:
                del self._bells[name]

    def ring(self, name: str) -> None:
        for bell in self._bells.get(name, ()):
            bell.ring()

    def ring_all(self) -> None:
        for name in self._bells:
            self.ring(name)
