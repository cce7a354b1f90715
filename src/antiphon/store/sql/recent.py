"""Chains that were read lately: a long one is not read again for every response that continues it."""

from collections import OrderedDict
from typing import NamedTuple

from antiphon.store.records import UNFINISHED, Link, Record

MOST_BYTES = 64 * 1024 * 1024
# What a link takes beyond its bytes, roughly.
OVERHEAD = 500
# A chain is followed so far back; behind that it begins.
MOST_LINKS = 10_000


class Chain(NamedTuple):
    links: list[Link]
    # How many responses of its owner had been deleted when it was read.
    deletions: int

    @property
    def stays(self) -> bool:
        """Whether nothing but a deletion or an expiry can change it: all of it is there, and over."""
        return bool(self.links) and self.links[0].parent is None and not any(link.status in UNFINISHED for link in self.links)

    @property
    def expires_at(self) -> int:
        return min(link.expires_at for link in self.links)

    @property
    def size(self) -> int:
        return sum(map(weigh, self.links))


class Remembered(NamedTuple):
    chain: Chain
    expires_at: int
    size: int


class RecentChains:
    """By owner and last response: within a bound, the ones not used for longest are forgotten first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._remembered: OrderedDict[tuple[str, str], Remembered] = OrderedDict()

    def find(self, owner: str, id: str, now: float) -> Chain | None:
        """As it was read. Whether something of it has been deleted since, the database knows."""
        known = self._remembered.get((owner, id))
        if known is None:
            return None
        if known.expires_at <= now:
            self._forget((owner, id))
            return None
        self._remembered.move_to_end((owner, id))
        return known.chain

    def remember(self, owner: str, id: str, chain: Chain) -> None:
        self._forget((owner, id))
        if chain.stays:
            self._add((owner, id), Remembered(chain, chain.expires_at, chain.size))

    def extend(self, record: Record) -> None:
        """With a response that was just written. Its parent, which is seldom continued once more, makes room for it."""
        known = self._forget((record.owner, record.parent or ""))
        if known is None or record.status in UNFINISHED or len(known.chain.links) >= MOST_LINKS:
            return
        link = Link(record.id, record.status, record.input, record.output, record.parent, record.expires_at)
        chain = Chain([*known.chain.links, link], known.chain.deletions)
        expires_at = min(known.expires_at, link.expires_at)
        self._add((record.owner, record.id), Remembered(chain, expires_at, known.size + weigh(link)))

    def _add(self, key: tuple[str, str], remembered: Remembered) -> None:
        self._remembered[key] = remembered
        self._size += remembered.size
        while self._size > self._most_bytes:
            self._forget(next(iter(self._remembered)))

    def _forget(self, key: tuple[str, str]) -> Remembered | None:
        known = self._remembered.pop(key, None)
        if known is not None:
            self._size -= known.size
        return known


def weigh(link: Link) -> int:
    return OVERHEAD + len(link.input) + len(link.output)
