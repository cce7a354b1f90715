"""Vector stores, as the API has them: made, changed, deleted and searched."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, structs

from antiphon.core.hosted.attribute_filters import Filter, matches, read_filter
from antiphon.errors import InvalidRequest
from antiphon.files.vector_stores.interfaces import Files, Index, Judge, VectorStoreLimits
from antiphon.files.vector_stores.objects import (
    files_not_found,
    has_expired,
    store_expired,
    store_not_found,
    store_to_object,
    to_chunking,
)
from antiphon.files.vector_stores.search.found import Found, SearchOptions, SearchRow, Wanted
from antiphon.store.files import vector_store_files as file_operations
from antiphon.store.files import vector_stores as operations
from antiphon.store.files.records import AddedFile, VectorStoreRecord
from antiphon.store.files.vector_store_files import Addition
from antiphon.store.files.vector_stores import Counted, expiry
from antiphon.store.operations import Operation
from antiphon.store.protocol import FileStore
from antiphon.store.sql.listings import RowPage
from antiphon.wire.vector_stores import CreateVectorStore, UpdateVectorStore, VectorStore

# Seconds for which an expired store is still shown.
SHOWN_EXPIRED = 7 * 86_400


class Listed(NamedTuple):
    stores: list[VectorStore]
    has_more: bool


# The ranker that has a judge order what was found, and how many passages the judge sees.
JUDGED = "model"
MOST_JUDGED = 20


class VectorStores:
    """The vector stores of every owner. What belongs to another owner is not found."""

    def __init__(
        self, stored: FileStore, files: Files, index: Index, limits: VectorStoreLimits, new_id: Callable[[str], str]
    ) -> None:
        self._stored = stored
        self._database = stored.database
        self._files = files
        self._index = index
        self.limits = limits
        self._new_id = new_id
        # For `JUDGED`. None: the order stays.
        self.judge: Judge | None = None

    async def create(self, owner: str, body: CreateVectorStore) -> VectorStore:
        now = self._database.clock()
        days = body.expires_after.days if body.expires_after is not None else None
        record = VectorStoreRecord(
            id=self._new_id("vs"),
            owner=owner,
            created_at=int(now),
            last_active_at=int(now),
            expires_at=expiry(days, int(now)),
            expires_after_days=days,
            name=body.name,
            description=body.description,
            metadata=body.metadata or {},
        )
        chunking = to_chunking(body.chunking_strategy)
        files = [AddedFile(file=id, chunking=chunking) for id in body.file_ids or ()]
        await self.require_files(owner, files, "file_ids")
        created = await self._database.write(self._create(record, self.addition(files), now))
        return store_to_object(created, now)

    def _create(self, record: VectorStoreRecord, addition: Addition, now: float) -> Operation[Counted]:
        if not (yield from operations.create(record, self.limits.stores)):
            message = f"At most {self.limits.stores} vector stores are allowed (`max_stores`). Delete some of them."
            raise InvalidRequest(message, code="vector_store_limit_exceeded")
        if addition.files:
            yield from file_operations.add(record.owner, record.id, addition, now)
        return Counted(record, (yield from operations.count_files(record.id)))

    async def get(self, owner: str, id: str) -> VectorStore:
        found = await self._database.read(operations.counted(owner, id))
        if found is None:
            raise store_not_found(id)
        return store_to_object(found, self._database.clock())

    async def list_stores(self, owner: str, page: RowPage) -> Listed:
        listed = await self._database.read(operations.list_stores(owner, page))
        now = self._database.clock()
        return Listed([store_to_object(each, now) for each in listed.stores], listed.has_more)

    async def update(self, owner: str, id: str, body: UpdateVectorStore) -> VectorStore:
        now = self._database.clock()
        return store_to_object(await self._database.write(self._update(owner, id, body, now)), now)

    def _update(self, owner: str, id: str, body: UpdateVectorStore, now: float) -> Operation[Counted]:
        record = yield from self.usable(owner, id, now)
        if body.name is not None:
            record = structs.replace(record, name=body.name)
        if body.metadata is not UNSET:
            record = structs.replace(record, metadata=body.metadata or {})
        if body.expires_after is not UNSET:
            days = body.expires_after.days if body.expires_after is not None else None
            record = structs.replace(record, expires_after_days=days)
        expires_at = expiry(record.expires_after_days, int(now))
        record = structs.replace(record, last_active_at=int(now), expires_at=expires_at)
        yield from operations.update(record)
        return Counted(record, (yield from operations.count_files(id)))

    async def delete(self, owner: str, id: str) -> None:
        if not await self._database.write(operations.delete(owner, id)):
            raise store_not_found(id)

    async def owner_of(self, id: str) -> str | None:
        return await self._database.read(operations.owner_of(id)) if self._stored.is_used() else None

    # ---- files -------------------------------------------------------------------------------------------------------

    async def require_files(self, owner: str, files: Sequence[AddedFile], param: str) -> None:
        """All of them are there, and the owner's."""
        ids = list(dict.fromkeys(each.file for each in files))
        found = await self._files.find(owner, ids) if ids else {}
        if missing := [id for id in ids if id not in found]:
            raise files_not_found(missing, param)

    def addition(self, files: Sequence[AddedFile], batch: str | None = None) -> Addition:
        return Addition(files, self.limits.files, self.limits.room, lambda: self._new_id("vsdoc"), batch, self.limits.batches)

    def usable(self, owner: str, id: str, now: float) -> Operation[VectorStoreRecord]:
        """The store, locked. Raises if it is not there, or has expired."""
        record = yield from operations.get(owner, id, locked=True)
        if record is None:
            raise store_not_found(id)
        if has_expired(record, now):
            raise store_expired(id)
        return record

    # ---- searching ---------------------------------------------------------------------------------------------------

    async def check(self, owner: str, store_ids: Sequence[str]) -> None:
        """They are there, and are used now. Raises NotFound, and InvalidRequest for one that has expired."""
        now = self._database.clock()
        records = await self._database.read(self._records(owner, store_ids))
        for id, record in zip(store_ids, records, strict=True):
            if record is None:
                raise store_not_found(id)
            if has_expired(record, now):
                raise store_expired(id)
        unused = sorted({each.id for each in records if each is not None and each.last_active_at < int(now)})
        if unused:
            await self._database.write(operations.touch(owner, unused, now))

    def _records(self, owner: str, ids: Sequence[str]) -> Operation[Sequence[VectorStoreRecord | None]]:
        records = []
        for id in ids:
            records.append((yield from operations.get(owner, id)))
        return records

    async def search(
        self, owner: str, store_ids: Sequence[str], queries: Sequence[str], options: SearchOptions
    ) -> list[SearchRow]:
        """The best first. Raises as `check` does, and InvalidRequest for filters that are wrong."""
        # It may have as many values as a megabyte has.
        filter = None if options.filters is None else await asyncio.to_thread(read_filter, options.filters)
        stores = list(dict.fromkeys(store_ids))
        await self.check(owner, stores)
        if not stores:
            return []
        documents = await self._documents(stores, filter)
        if documents is not None and not documents:
            return []
        if options.ranker != JUDGED or self.judge is None:
            return await self._rows(owner, stores, await self._index.search(stores, queries, _wanted(options, documents)))
        more = structs.replace(options, most=max(options.most, MOST_JUDGED))
        rows = await self._rows(owner, stores, await self._index.search(stores, queries, _wanted(more, documents)))
        return (await self._judged(self.judge, owner, queries, rows))[: options.most]

    async def _judged(self, judge: Judge, owner: str, queries: Sequence[str], rows: Sequence[SearchRow]) -> list[SearchRow]:
        shown = rows[:MOST_JUDGED]
        order = await judge.order(owner, queries, [row.text for row in shown]) if len(shown) > 1 else range(len(shown))
        return [*(shown[place] for place in order), *rows[MOST_JUDGED:]]

    async def _documents(self, stores: Sequence[str], filter: Filter | None) -> frozenset[tuple[str, str]] | None:
        """The documents that may be found, by store; None: all. What belongs to no completed file is left out."""
        if filter is None and await self._database.read(file_operations.are_all_completed(stores)):
            return None
        files = await self._database.read(file_operations.attributes_of(stores))
        return await asyncio.to_thread(_matching, files, filter)

    async def _rows(self, owner: str, stores: Sequence[str], found: Sequence[Found]) -> list[SearchRow]:
        documents = {each.file for each in found}
        records = await self._database.read(file_operations.of_documents(stores, documents)) if documents else {}
        files = await self._files.find(owner, {record.file for record in records.values()}) if records else {}
        rows: dict[tuple[str, str], SearchRow] = {}
        for each in found:
            record = records.get(each.file)
            # Not there: it was deleted meanwhile.
            file = files.get(record.file) if record is not None else None
            # The same file may be in several stores.
            if record is not None and file is not None and (file.id, each.text) not in rows:
                row = SearchRow(file.id, file.filename, each.score, record.attributes, each.text)
                rows[file.id, each.text] = row
        return list(rows.values())

    # ---- housekeeping ------------------------------------------------------------------------------------------------

    async def forget_file(self, id: str) -> None:
        """It was deleted, so it is in no store any more."""
        await self._database.write(file_operations.forget(id))

    async def sweep(self) -> int:
        """Deletes stores that expired long ago. Returns how many."""
        count = 0
        while self._stored.is_used() and (
            swept := await self._database.write(operations.discard_expired(self._database.clock() - SHOWN_EXPIRED))
        ):
            count += swept
        return count

    async def move_owner(self, earlier: str, owner: str) -> int:
        """Gives all stores of an owner to another one. Returns how many rows have moved."""
        count = 0
        while self._stored.is_used() and (moved := await self._database.write(operations.move_some(earlier, owner))):
            count += moved
        return count


def _wanted(options: SearchOptions, documents: frozenset[tuple[str, str]] | None) -> Wanted:
    return Wanted(
        most=options.most,
        files=documents,
        threshold=options.threshold,
        embedding_weight=options.embedding_weight,
        text_weight=options.text_weight,
        ranker=options.ranker,
    )


def _matching(files: Sequence[tuple[str, str, bytes]], filter: Filter | None) -> frozenset[tuple[str, str]]:
    return frozenset(
        (store, document)
        for store, document, attributes in files
        if filter is None or matches(filter, msgspec.json.decode(attributes))
    )
