"""Places at the engines: so many background responses run at once. One that waits for something else leaves its place."""

import asyncio
from collections.abc import Callable


class WorkerPlace:
    """Taken from the start. To take it again after leaving it means to queue."""

    def __init__(self, places: asyncio.Semaphore, when_left: Callable[[], None]) -> None:
        self._places = places
        self._when_left = when_left
        self.taken = True

    async def take(self) -> None:
        await self._places.acquire()
        self.taken = True

    def leave(self) -> None:
        if self.taken:
            self.taken = False
            self._places.release()
            self._when_left()
