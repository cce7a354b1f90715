"""A cache of chains, so that a long chain is not read again for every response that continues it."""

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from antiphon.store.records import UNFINISHED, Link, Record

MOST_BYTES = 8 * 1024 * 1024
# What a link takes beyond its bytes, approximately.
OVERHEAD = 500
# Of a longer chain, only the last links are read.
MOST_LINKS = 10_000


class Chain(NamedTuple):
    links: list[Link]
    # How many responses of its owner had been deleted when it was read.
    deletions: int

    @property
    def is_final(self) -> bool:
        """Whether only a deletion or an expiry can change it: it is complete, and all its responses have ended."""
        return bool(self.links) and self.links[0].parent is None and not any(link.status in UNFINISHED for link in self.links)

    @property
    def expires_at(self) -> int:
        return min(link.expires_at for link in self.links)

    @property
    def size(self) -> int:
        return sum(map(size_of_link, self.links))


class CachedChain(NamedTuple):
    chain: Chain
    expires_at: int
    size: int


class RecentChains:
    """By owner and id of the last response. Bounded: the least recently used chains are dropped first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._chains: OrderedDict[tuple[str, str], CachedChain] = OrderedDict()

    def find(self, owner: str, id: str, now: float) -> Chain | None:
        """The chain as it was read. Only the database knows whether a part of it has been deleted since."""
        cached = self._chains.get((owner, id))
        if cached is None:
            return None
        if cached.expires_at <= now:
            self._drop((owner, id))
            return None
        self._chains.move_to_end((owner, id))
        return cached.chain

    def add(self, owner: str, id: str, chain: Chain) -> None:
        self._drop((owner, id))
        if chain.is_final:
            self._insert((owner, id), CachedChain(chain, chain.expires_at, chain.size))

    def forget(self, owner: str, ids: Collection[str]) -> None:
        """Drop the chains that contain one of these responses."""
        of_owner = [(key, cached.chain.links) for key, cached in self._chains.items() if key[0] == owner]
        for key, links in of_owner:
            if any(link.id in ids for link in links):
                self._drop(key)

    def extend(self, record: Record) -> None:
        """Add a response that was just written to the chain of its parent.

        The shorter chain is dropped, because a response is seldom continued a second time.
        """
        cached = self._drop((record.owner, record.parent or ""))
        if cached is None or record.status in UNFINISHED or len(cached.chain.links) >= MOST_LINKS:
            return
        link = Link(record.id, record.status, record.input, record.output, record.parent, record.expires_at)
        chain = Chain([*cached.chain.links, link], cached.chain.deletions)
        expires_at = min(cached.expires_at, link.expires_at)
        self._insert((record.owner, record.id), CachedChain(chain, expires_at, cached.size + size_of_link(link)))

    def _insert(self, key: tuple[str, str], cached: CachedChain) -> None:
        self._chains[key] = cached
        self._size += cached.size
        while self._size > self._most_bytes:
            self._drop(next(iter(self._chains)))

    def _drop(self, key: tuple[str, str]) -> CachedChain | None:
        cached = self._chains.pop(key, None)
        if cached is not None:
            self._size -= cached.size
        return cached


def size_of_link(link: Link) -> int:
    return OVERHEAD + len(link.input) + len(link.output)
