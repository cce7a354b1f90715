"""The connections of slots whose process has died: the system still gives them their share, so the others accept it."""

import asyncio
import socket
from collections.abc import Collection, Mapping, Sequence

from aiohttp import web

from antiphon.transport import BACKLOG


class AbsentSlots:
    """`sockets`: those of the other slots, as the supervisor keeps them open: what waits at one is there for all processes."""

    def __init__(self, runner: web.BaseRunner, sockets: Mapping[int, Sequence[socket.socket]]) -> None:
        self._runner = runner
        self._sockets = dict(sockets)
        self._covered: dict[int, list[web.SockSite]] = {}
        # A change of the members may come while the last one is being acted on.
        self._changing = asyncio.Lock()

    async def cover(self, present: Collection[int]) -> None:
        """Accepts the connections of all slots but these."""
        async with self._changing:
            for slot in self._covered.keys() & set(present):
                await self._leave(slot)
            for slot in self._sockets.keys() - self._covered.keys() - set(present):
                self._covered[slot] = [await self._site(each) for each in self._sockets[slot]]

    async def close(self) -> None:
        """Accepts nothing from now on, and keeps no socket open at which connections would wait in vain."""
        async with self._changing:
            for slot in list(self._covered):
                await self._leave(slot)
            for each in (each for sockets in self._sockets.values() for each in sockets):
                each.close()
            self._sockets.clear()

    async def _site(self, listening: socket.socket) -> web.SockSite:
        # Its end closes the copy only.
        site = web.SockSite(self._runner, listening.dup(), backlog=BACKLOG)
        await site.start()
        return site

    async def _leave(self, slot: int) -> None:
        for site in self._covered.pop(slot):
            await site.stop()
