"""The sockets on which clients connect: for each slot one at the same address. The system spreads new connections over them.

The supervisor keeps all of them open, so connections that wait in the queue of a slot survive its worker process.
"""

import asyncio
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from antiphon.transport import BACKLOG

# ---- The connections of slots whose process has died: the system still gives them their share, so the others accept it ----


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


ONLY_THIS_USER = 0o600
NOT_HERE = "this system does not spread connections over processes that share a port, as Linux does: set workers to 1"


class CannotShare(Exception):
    """The message says why."""


def check_sharing() -> None:
    """Raises CannotShare where several processes cannot listen at one address."""
    # Elsewhere there is no SO_REUSEPORT, or one process gets all connections.
    if sys.platform != "linux":
        raise CannotShare(NOT_HERE)


def bind_slots(host: str, port: int, slots: int) -> list[list[socket.socket]]:
    """By slot, a socket for each address of the host. They do not listen yet: a process that is ready begins that. Raises
    OSError."""
    addresses = list(dict.fromkeys(_addresses(host, port)))
    for family, address in addresses:
        if port:
            # Another gateway that shares its port between its processes would share it with this one, too.
            _bound(family, address).close()
    bound: list[list[socket.socket]] = []
    for _ in range(slots):
        bound.append([_bound(family, (address[0], port, *address[2:]), shared=True) for family, address in addresses])
        # If any free one will do, the first socket decides for all.
        port = bound[0][0].getsockname()[1]
    return bound


def bind_private(path: Path) -> socket.socket:
    """A Unix socket that only this user can open. Its folder must be private, too: it is bound before its mode is set."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(path))
    path.chmod(ONLY_THIS_USER)
    made.setblocking(False)
    return made


def _addresses(host: str, port: int) -> Iterator[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    for family, _, _, _, address in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
        yield family, address


def _bound(family: socket.AddressFamily, address: Sequence[Any], *, shared: bool = False) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # The addresses of IPv4 have sockets of their own.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(tuple(address))
    except OSError:
        made.close()
        raise
    return made
