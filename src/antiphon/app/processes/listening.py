"""The sockets on which clients connect: for each slot one at the same address. The system spreads new connections over them.

The supervisor keeps all of them open, so connections that wait in the queue of a slot survive its worker process.
"""

import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
