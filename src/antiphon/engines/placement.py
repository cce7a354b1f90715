"""In which order the engines are tried for a request: consistent hashing with bounded loads.

Each key has an order of the engines of its own, by rendezvous hashing: all gateways find the same one, and an engine that goes
moves nobody's keys but its own. The first engine in that order gets the request, unless it has no free slot and more than its
share of all requests: then the next one that is not so busy. So a key that many clients use cannot drown one engine, and a key
whose engine was busy for a moment returns to it. (Mirrokni, Thorup, Zadimoghaddam: Consistent Hashing with Bounded Loads.)
"""

import hashlib
import math
from collections.abc import Sequence

from msgspec import Struct


class PlacementOptions(Struct, frozen=True):
    # The requests of a conversation are sent to one engine. False: each is sent to the engine that is least busy.
    affinity: bool = True
    # How many times its share of the requests an engine may have before others are preferred.
    load_bound: float = 1.25
    # The key of a conversation is sent to the engine, for a router in its place.
    sends_key: bool = True


DEFAULT_PLACEMENT = PlacementOptions()


def order_of(key: str, names: Sequence[str], loads: Sequence[int], rooms: Sequence[int], bound: float) -> list[int]:
    """The engines by their index, the best for this key first. Those above the bound come last, the least busy first. `rooms`:
    how many requests each of them processes at once; with fewer it is never above the bound."""
    most = most_requests(loads, bound)
    preferred = sorted(range(len(names)), key=lambda at: _rendezvous(key, names[at]), reverse=True)
    return sorted(preferred, key=lambda at: 0 if loads[at] < max(most, rooms[at]) else loads[at])


def least_busy(loads: Sequence[int], turn: int) -> list[int]:
    """Without a key: the engines by their index, the least busy first. Equally busy ones take turns."""
    count = len(loads)
    return sorted(range(count), key=lambda at: (loads[at], (at - turn) % count))


def most_requests(loads: Sequence[int], bound: float) -> int:
    """How many requests an engine may have with one more: its share of all of them, times the bound. Two more than the least
    busy one has are always allowed: among few requests a share says nothing, and a cold cache costs more."""
    return max(math.ceil(bound * (sum(loads) + 1) / len(loads)), min(loads) + 2)


def _rendezvous(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
