"""Wakeups: they end the wait of code that follows a background response or the queue."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator

# The longest wait, in seconds: a change in another process may go unnoticed, and a lease that expires wakes nobody.
POLL_SECONDS = 2.0


class Wakeup:
    """One subscriber. A wakeup that comes between two waits is not lost: the next wait ends at once."""

    def __init__(self, poll: float) -> None:
        self._woken = asyncio.Event()
        self._poll = poll

    def wake(self) -> None:
        self._woken.set()

    async def wait(self) -> None:
        """Return when woken, or after the poll interval. Check the store again in either case."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll):
                await self._woken.wait()
        self._woken.clear()


class Wakeups:
    """The subscribers of one process, by topic."""

    def __init__(self, poll: float = POLL_SECONDS) -> None:
        self.poll = poll
        self._subscribers: defaultdict[str, set[Wakeup]] = defaultdict(set)
        # Called with the topics that other processes should know of.
        self.share: Callable[[str], None] = lambda topic: None

    @contextlib.contextmanager
    def subscribe(self, topic: str) -> Iterator[Wakeup]:
        wakeup = Wakeup(self.poll)
        self._subscribers[topic].add(wakeup)
        try:
            yield wakeup
        finally:
            self._subscribers[topic].discard(wakeup)
            if not self._subscribers[topic]:
                del self._subscribers[topic]

    def publish(self, topic: str) -> None:
        """This process has changed the store: wakes subscribers, also those in other processes that are known."""
        self.wake(topic)
        self.share(topic)

    def wake(self, topic: str) -> None:
        for wakeup in self._subscribers.get(topic, ()):
            wakeup.wake()

    def wake_all(self) -> None:
        for topic in self._subscribers:
            self.wake(topic)


class WakeupRelay:
    """Passes wakeups on between processes that share a SQLite file. With Postgres, the server does that."""

    def __init__(self, send: Callable[[str], None]) -> None:
        """`send`: to the other processes."""
        self._send = send
        self._joined: list[Wakeups] = []

    def join(self, wakeups: Wakeups) -> Wakeups:
        wakeups.share = self._send
        self._joined.append(wakeups)
        return wakeups

    def receive(self, topic: str) -> None:
        for wakeups in self._joined:
            wakeups.wake(topic)
