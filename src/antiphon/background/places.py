"""Places at the engines: so many background responses are made at once. One that waits for something else leaves its place."""

import asyncio
from collections.abc import Callable


class Place:
    """Taken from the beginning; who takes it again after having left it stands in line."""

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
