"""The vectors of stores in memory, within a limit, and as new as a search has to see them."""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection

import numpy
from msgspec import Struct, field

from antiphon.files.vector_stores.search import vectors
from antiphon.files.vector_stores.search.vectors import (
    ApproximateIndex,
    Floats,
    Near,
    Numbers,
    Stopped,
    VectorTable,
    joined,
    merged,
    rows_beside,
    rows_of,
)
from antiphon.logs import log
from antiphon.store.files import chunks
from antiphon.store.files.chunks import StoreState, VectorRow
from antiphon.store.operations import Database

# Rows of one part of a store that is too large for the cache, and of one step in which others are loaded.
ROWS_IN_PART = 50_000
# Vectors that show how many a chunk has.
SAMPLED = 64
# What a row takes beside its vector: its id, its file and its scale.
ROW_BYTES = 16
# Up to so many vectors all are compared: that takes a few milliseconds.
EXACT_ROWS = 100_000


class Searchable(Struct, frozen=True):
    """A table, and what makes a search of all of it faster."""

    table: VectorTable
    index: ApproximateIndex | None = None
    # The rows that the index does not have.
    beside: Numbers | None = None

    def nearest(self, queries: Floats, most: int, files: Collection[str] | None) -> list[list[Near]]:
        """In some files only, or without an index: exact."""
        if self.index is None or self.beside is None or files is not None or queries.shape[1] != self.table.rows.shape[1]:
            return self.table.nearest(queries, most, files)
        return [self._nearest(query, most) for query in queries]

    def _nearest(self, query: Floats, most: int) -> list[Near]:
        assert self.index is not None
        assert self.beside is not None
        where = numpy.union1d(rows_of(self.table, self.index.nearest(query, most)), self.beside)
        return self.table.nearest_at(query[numpy.newaxis], most, where)[0]


class Cached(Struct):
    """The vectors of one model in one store."""

    searchable: Searchable
    state: StoreState
    # One search at a time brings it up to date; others wait for the same.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Adds to the index.
    indexing: asyncio.Task[None] | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def bytes(self) -> int:
        index = self.searchable.index
        return self.searchable.table.bytes + (index.bytes if index is not None else 0)


class VectorCache:
    def __init__(self, database: Database, limit: int, exact_rows: int = EXACT_ROWS, rows_in_part: int = ROWS_IN_PART) -> None:
        """`limit`: in bytes, for all stores together. A store that is larger is read for each search, part by part."""
        self._database = database
        self._limit = limit
        self._rows_in_part = rows_in_part
        self._exact_rows = exact_rows if vectors.is_installed() else None
        # The one that was used last is at the end.
        self._cached: OrderedDict[tuple[str, str], Cached] = OrderedDict()

        # About how many vectors a chunk has.
        self._of_chunk: dict[tuple[str, str], float] = {}

    @property
    def bytes(self) -> int:
        return sum(cached.bytes for cached in self._cached.values())

    def drop(self, store: str) -> None:
        for key in [key for key in self._cached if key[0] == store]:
            self._cached.pop(key).stop.set()
        for key in [key for key in self._of_chunk if key[0] == store]:
            del self._of_chunk[key]

    async def close(self) -> None:
        tasks = [cached.indexing for cached in self._cached.values() if cached.indexing is not None]
        for store, _ in list(self._cached):
            self.drop(store)
        # A thread cannot be cancelled: it ends after the rows that it is adding.
        await asyncio.gather(*tasks, return_exceptions=True)

    async def nearest(
        self, store: str, model: str, state: StoreState, queries: Floats, most: int, files: Collection[str] | None
    ) -> list[list[Near]]:
        """For each query, the chunks of a store that are most similar to it, the best first."""
        found = []
        async for part in self._parts(store, model, state):
            found.append(await asyncio.to_thread(part.nearest, queries, most, files))
        return merged(found, most) if found else [[] for _ in queries]

    async def _parts(self, store: str, model: str, state: StoreState) -> AsyncIterator[Searchable]:
        """All vectors of the state, and perhaps newer ones: in one part if they fit into the cache."""
        key = (store, model)
        first = await self._database.read(chunks.vectors(store, model, 0, 1 if key in self._of_chunk else SAMPLED))
        if not first:
            return
        of_chunk = self._of_chunk.setdefault(key, len(first) / len({row.id // chunks.MOST_WINDOWS for row in first}))
        if state.chunks * of_chunk * (len(first[0].vector) + ROW_BYTES) <= self._limit:
            yield await self._current(store, model, state)
            return
        async for part in self._read(store, model, 0, {}):
            yield Searchable(part)

    async def _current(self, store: str, model: str, state: StoreState) -> Searchable:
        key = (store, model)
        if (cached := self._cached.get(key)) is None:
            cached = self._cached[key] = Cached(Searchable(VectorTable.of_rows([])), StoreState())
        self._cached.move_to_end(key)
        async with cached.turn:
            if cached.state != state:
                await self._bring_up_to_date(cached, store, model, state)
        self._forget_others(key)
        return cached.searchable

    async def _bring_up_to_date(self, cached: Cached, store: str, model: str, state: StoreState) -> None:
        before = cached.searchable
        only_grew = cached.state.changes == state.changes and len(before.table) > 0
        known = before.table if only_grew else VectorTable.of_rows([])
        parts = [part async for part in self._read(store, model, known.last, known.names)]
        table = await asyncio.to_thread(joined, [known, *parts])
        cached.searchable = await asyncio.to_thread(_with_index, table, before.index)
        cached.state = state
        self._index_more(cached)

    def _forget_others(self, key: tuple[str, str]) -> None:
        """Those that were used longest ago, until what is left is within the limit."""
        while self.bytes > self._limit and (oldest := next(iter(self._cached))) != key:
            self._cached.pop(oldest).stop.set()

    async def _read(self, store: str, model: str, after: int, names: dict[str, int]) -> AsyncIterator[VectorTable]:
        rows: list[VectorRow] = []
        while page := await self._database.read(chunks.vectors(store, model, after)):
            after = page[-1].id
            rows += page
            if len(rows) >= self._rows_in_part:
                yield await asyncio.to_thread(VectorTable.of_rows, rows, names)
                rows = []
        if rows:
            yield await asyncio.to_thread(VectorTable.of_rows, rows, names)

    # ---- the index of a large store ----------------------------------------------------------------------------------

    def _index_more(self, cached: Cached) -> None:
        """In the background, while searches compare all vectors."""
        if self._exact_rows is None or cached.indexing is not None:
            return
        searchable = cached.searchable
        beside = len(searchable.table) if searchable.beside is None else len(searchable.beside)
        if beside > self._exact_rows and cached.bytes * 2 <= self._limit:
            cached.indexing = asyncio.create_task(self._index(cached))

    async def _index(self, cached: Cached) -> None:
        table, index = cached.searchable.table, cached.searchable.index
        # Not searched while it grows.
        cached.searchable = Searchable(table)
        try:
            grown = await asyncio.to_thread(_grow, table, index, cached.stop)
            async with cached.turn:
                # The table may have grown meanwhile.
                cached.searchable = await asyncio.to_thread(_with_index, cached.searchable.table, grown)
        except Stopped:
            return
        except Exception as error:
            # All vectors are compared, as before. The next change of the store is another attempt, with a new index.
            log("vectors_not_indexed", level=logging.WARNING, exc_info=error)
        finally:
            cached.indexing = None


def _grow(table: VectorTable, index: ApproximateIndex | None, stop: threading.Event) -> ApproximateIndex:
    index = index or ApproximateIndex(table.rows.shape[1])
    index.add(table, rows_beside(table, index), stop)
    return index


def _with_index(table: VectorTable, index: ApproximateIndex | None) -> Searchable:
    return Searchable(table) if index is None else Searchable(table, index, rows_beside(table, index))
