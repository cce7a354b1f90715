"""Vectors that the database compares and indexes itself: Postgres, where pgvector is there."""

import asyncio
import logging
import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.files import pgvector
from antiphon.store.files.chunks import PUT_VECTOR, StoreState
from antiphon.store.files.pgvector import Column, ModelIndex, Nearest, SearchLimits, Sought
from antiphon.store.operations import Database

if TYPE_CHECKING:
    # It imports numpy, which takes longer than most of a start. It is needed where vectors are compared.
    from antiphon.files.vector_stores.search.vectors import Floats, Near


class DatabaseVectorOptions(Struct, frozen=True):
    search: SearchLimits = SearchLimits()
    # A model that has embedded fewer chunks needs no index.
    indexed: int = 10_000
    # Rows that get the value of the column in one transaction.
    filled: int = 500
    # Seconds until what the database has is looked at again, and until something that failed is tried again.
    look_again: float = 60.0
    try_again: float = 600.0


class DatabaseVectors:
    def __init__(self, database: Database, *, memory: int, options: DatabaseVectorOptions | None = None) -> None:
        """`memory`: for the making of an index, in bytes."""
        self._database = database
        self._memory = memory
        self._options = options or DatabaseVectorOptions()
        self._column = Column()
        # By the clock of the database.
        self._look_at = 0.0
        self._arrange_at = 0.0
        # Until then vectors are written without the column, which gets their values in the background.
        self._write_bytes_until = 0.0
        self._filled = self._options.filled
        self._arranging: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._arranging is not None:
            self._arranging.cancel()
            await asyncio.gather(self._arranging, return_exceptions=True)

    async def _current(self) -> Column:
        now = self._database.clock()
        if now >= self._look_at:
            self._column = await self._database.read(pgvector.look())
            self._look_at = now + self._options.look_again
        return self._column

    def forget(self) -> None:
        """A statement failed. Perhaps the extension was dropped."""
        self._column, self._look_at = Column(), 0.0

    def write_failed(self) -> None:
        """Perhaps the index takes so long for so many vectors: adding chunks must not wait for it."""
        self.forget()
        self._write_bytes_until = self._database.clock() + self._options.look_again

    async def put_vector(self) -> str:
        """The statement that writes a vector."""
        if self._database.clock() < self._write_bytes_until:
            return PUT_VECTOR
        column = await self._current()
        return pgvector.put_vector(column.schema) if column.schema is not None and column.is_ready else PUT_VECTOR

    # ---- searching ---------------------------------------------------------------------------------------------------

    async def nearest(
        self, store: str, model: str, state: StoreState, queries: "Floats", most: int, files: Collection[str] | None
    ) -> "list[list[Near]] | None":
        """For each query, the best first. None: the database cannot, or not yet."""
        column = await self._current()
        width = queries.shape[1]
        if not column.is_ready or width > pgvector.WIDEST:
            return None
        texts = await asyncio.to_thread(_to_texts, queries)
        sought = Sought(store, model, state.chunks, texts, width, most, None if files is None else sorted(files))
        try:
            found = await self._database.read(pgvector.nearest(column, sought, self._options.search))
        except StoreUnavailable:
            self.forget()
            return None
        return None if found is None else await asyncio.to_thread(_ranked, found, queries, most, files)

    # ---- what is made of the database --------------------------------------------------------------------------------

    def arrange(self) -> None:
        """In the background: the column, what is missing in it, and indexes."""
        if (self._arranging is None or self._arranging.done()) and self._database.clock() >= self._arrange_at:
            self._arrange_at = self._database.clock() + self._options.look_again
            self._arranging = asyncio.create_task(self._arrange())

    async def arranged(self) -> None:
        self.arrange()
        if self._arranging is not None:
            await self._arranging

    async def _arrange(self) -> None:
        try:
            await self._make()
        except StoreUnavailable:
            # The log has the reason. It is no reason to ask again every minute.
            self._arrange_at = self._database.clock() + self._options.try_again
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug)
        finally:
            self._look_at = 0.0

    async def _make(self) -> None:
        database, options = self._database, self._options
        column = await database.read(pgvector.look())
        if column.schema is None and not column.is_available:
            return
        if not await database.read(pgvector.have_vectors()):
            return
        if not column.is_ready:
            await database.maintain(pgvector.create())
            column = await database.read(pgvector.look())
        # Not yet: another gateway is making it.
        if column.schema is None or not column.is_ready:
            return
        await self._fill(column.schema)
        wanted = await database.read(pgvector.wanted_indexes(options.indexed))
        for each in wanted:
            if not column.has(each.name):
                log("vectors_indexed", level=logging.DEBUG, model=each.model, index=each.name, state="begun")
                await self._build(each)
                log("vectors_indexed", level=logging.DEBUG, model=each.model, index=each.name, state="done")
        await database.maintain(pgvector.drop_others(wanted))

    async def _build(self, wanted: ModelIndex) -> None:
        try:
            await self._database.maintain(pgvector.build(wanted, self._memory))
        except StoreUnavailable:
            # The shared memory of a container is 64 MB, if nobody has said otherwise.
            await self._database.maintain(pgvector.build(wanted, self._memory, alone=True))

    async def _fill(self, schema: str) -> None:
        try:
            while await self._database.write(pgvector.fill(schema, self._filled)):
                pass
        except StoreUnavailable:
            # A large index takes long for each: fewer may be done in time.
            self._filled = max(1, self._filled // 2)
            raise


def _to_texts(queries: "Floats") -> list[str]:
    return [f"[{','.join(f'{number:.6g}' for number in query)}]" for query in queries.tolist()]


def _ranked(found: Nearest, queries: "Floats", most: int, files: Collection[str] | None) -> "list[list[Near]]":
    from antiphon.files.vector_stores.search.vectors import Near, VectorTable, merged

    # Of a vector without direction, the distance is no number: it is similar to nothing.
    near = [[Near(id, 0.0 if math.isnan(distance) else 1 - distance) for id, distance in rows] for rows in found.found]
    beside = [row for row in found.beside if files is None or row.file in files]
    compared = VectorTable.of_rows(sorted(beside, key=lambda row: row.id)).nearest(queries, most)
    return merged([near, compared], most)
