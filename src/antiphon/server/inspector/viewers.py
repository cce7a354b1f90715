"""Who watches the list of requests live."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from antiphon.server.inspector.rows import Row

# The rows that wait for one viewer. Of more, the oldest are not shown to it: its page fetches the list again.
MOST_WAITING = 500


class Viewer:
    """Rows that have changed and were not sent yet, each once: a viewer that is slow misses what was in between."""

    def __init__(self, may_see: Callable[[Row], bool]) -> None:
        self._may_see = may_see
        self._waiting: dict[int, Row] = {}
        self._woken = asyncio.Event()
        self._closed = asyncio.Event()

    def show(self, row: Row) -> None:
        if not self._may_see(row):
            return
        self._waiting.pop(row.number, None)
        self._waiting[row.number] = row
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._woken.set()

    def wake(self) -> None:
        """There are rows elsewhere: what waits here, if anything, is due, too."""
        self._woken.set()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()

    async def changed(self) -> list[Row]:
        """Waits for the next ones; none: the gateway is about to stop."""
        await self._woken.wait()
        if not self.is_closed:
            self._woken.clear()
        rows, self._waiting = list(self._waiting.values()), {}
        return rows

    async def pause(self, seconds: float) -> None:
        """Between two looks, unless the gateway stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()


class Viewers:
    def __init__(self) -> None:
        self.open: set[Viewer] = set()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for viewer in self.open:
            viewer.close()

    def show(self, row: Row) -> None:
        for viewer in self.open:
            viewer.show(row)

    @contextmanager
    def watching(self, may_see: Callable[[Row], bool]) -> Iterator[Viewer]:
        viewer = Viewer(may_see)
        self.open.add(viewer)
        if self._is_closed:
            viewer.close()
        try:
            yield viewer
        finally:
            self.open.discard(viewer)
