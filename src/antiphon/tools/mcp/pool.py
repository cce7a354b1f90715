"""Sessions that are kept: for the length of a response at least, and until nobody has used them for a while."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from msgspec import Struct, field

from antiphon.tools.mcp.failures import McpFailure
from antiphon.tools.mcp.session import McpSession
from antiphon.tools.mcp.targets import McpLimits, Target


class Place(Struct, eq=False):
    """The session of one owner with one server, while it is opened, used, or kept."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    session: McpSession | None = None
    # Why it could not be opened the last time.
    failure: McpFailure | None = None
    users: int = 0
    # Closes it, while nobody uses it.
    timer: asyncio.TimerHandle | None = None


class SessionPool:
    def __init__(self, make: Callable[[Target], McpSession], limits: McpLimits) -> None:
        self._make = make
        self._limits = limits
        # Those that were used last are at the end.
        self._places: dict[Hashable, Place] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def change(self, limits: McpLimits) -> None:
        """For the sessions that are opened, or left, from now on."""
        self._limits = limits

    @property
    def count(self) -> int:
        return sum(place.session is not None for place in self._places.values())

    @asynccontextmanager
    async def kept(self, key: Hashable) -> AsyncIterator[Place]:
        """A place that is not closed inside the block. Its key has all that its session must not be shared across."""
        place = self._places.pop(key, None) or Place()
        self._places[key] = place
        place.users += 1
        if place.timer is not None:
            place.timer.cancel()
            place.timer = None
        try:
            yield place
        finally:
            place.users -= 1
            if place.users == 0:
                self._leave(key, place)

    async def session(self, place: Place, target: Target) -> McpSession:
        """The session of this place. One that has ended is replaced. Raises McpFailure."""
        waits = place.opening.locked()
        async with place.opening:
            if place.session is not None and not place.session.is_alive:
                self._close(place)
            if place.session is None:
                if waits and place.failure is not None:
                    # Who waits for the same server does not try it one after another.
                    raise place.failure
                place.session = await self._open(place, target)
            return place.session

    async def _open(self, place: Place, target: Target) -> McpSession:
        self._make_room()
        session = self._make(target)
        place.failure = None
        try:
            await session.open()
        except BaseException as failed:
            place.failure = failed if isinstance(failed, McpFailure) else None
            self._end(session)
            raise
        return session

    def _leave(self, key: Hashable, place: Place) -> None:
        if place.session is None:
            self._forget(key, place)
        else:
            place.timer = asyncio.get_running_loop().call_later(self._limits.idle, self._forget, key, place)

    def _forget(self, key: Hashable, place: Place) -> None:
        if self._places.get(key) is place:
            del self._places[key]
        self._close(place)

    def _make_room(self) -> None:
        unused = [(key, place) for key, place in self._places.items() if place.users == 0]
        for key, place in unused[: max(0, self.count + 1 - self._limits.sessions)]:
            self._forget(key, place)

    def _close(self, place: Place) -> None:
        if place.timer is not None:
            place.timer.cancel()
        session, place.session = place.session, None
        if session is not None:
            self._end(session)

    def _end(self, session: McpSession) -> None:
        task = asyncio.create_task(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for place in self._places.values():
            self._close(place)
        self._places.clear()
        if self._closing:
            await asyncio.wait(self._closing)
