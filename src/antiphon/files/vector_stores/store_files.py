"""The files of vector stores, and the batches in which they are added."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from antiphon.files.vector_stores.interfaces import Index
from antiphon.files.vector_stores.objects import (
    batch_not_found,
    batch_to_files,
    batch_to_object,
    file_not_found,
    file_to_object,
    store_not_found,
    to_chunking,
)
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.store.files import vector_store_files as operations
from antiphon.store.files import vector_stores as store_operations
from antiphon.store.files.records import AddedFile, Status, StoreFileRecord
from antiphon.store.files.vector_store_files import Addition, Batch
from antiphon.store.operations import Database, Operation
from antiphon.store.sql.listings import RowPage
from antiphon.wire.vector_stores import CreateFileBatch, CreateStoreFile, FileBatch, StoreFile


class ListedFiles(NamedTuple):
    files: list[StoreFile]
    has_more: bool


class StoreFiles:
    """What belongs to another owner is not found."""

    def __init__(self, stores: VectorStores, index: Index, database: Database, new_id: Callable[[str], str]) -> None:
        self._stores = stores
        self._index = index
        self._database = database
        self._new_id = new_id

    async def add(self, owner: str, store: str, body: CreateStoreFile) -> StoreFile:
        """One that is there already is not indexed again, unless that is needed."""
        chunking = to_chunking(body.chunking_strategy)
        files = [AddedFile(file=body.file_id, attributes=body.attributes, chunking=chunking)]
        await self._add(owner, store, files, "file_id")
        return await self.get(owner, store, body.file_id)

    async def _add(self, owner: str, store: str, files: Sequence[AddedFile], param: str, batch: str | None = None) -> None:
        # A store that is not there is reported before files that are not.
        await self._stores.check(owner, [store])
        await self._stores.require_files(owner, files, param)
        now = self._database.clock()
        await self._database.write(self._added(owner, store, self._stores.addition(files, batch), now))

    def _added(self, owner: str, store: str, addition: Addition, now: float) -> Operation[None]:
        yield from self._stores.usable(owner, store, now)
        yield from operations.add(owner, store, addition, now)

    async def get(self, owner: str, store: str, file: str) -> StoreFile:
        return file_to_object(await self._get(owner, store, file))

    async def _get(self, owner: str, store: str, file: str) -> StoreFileRecord:
        record = await self._database.read(operations.get(owner, store, file))
        if record is None:
            raise await self._not_found(owner, store, file)
        return record

    async def _not_found(self, owner: str, store: str, file: str) -> Exception:
        is_there = await self._database.read(store_operations.get(owner, store)) is not None
        return file_not_found(store, file) if is_there else store_not_found(store)

    async def update(self, owner: str, store: str, file: str, attributes: dict[str, Any]) -> StoreFile:
        record = await self._database.write(self._updated(owner, store, file, attributes))
        if record is None:
            raise file_not_found(store, file)
        return file_to_object(record)

    def _updated(self, owner: str, store: str, file: str, attributes: dict[str, Any]) -> Operation[StoreFileRecord | None]:
        yield from self._stores.usable(owner, store, self._database.clock())
        return (yield from operations.set_attributes(owner, store, file, attributes))

    async def list_files(self, owner: str, store: str, page: RowPage, status: Status | None) -> ListedFiles:
        listed = await self._database.read(operations.list_files(owner, store, page, status))
        if listed is None:
            raise store_not_found(store)
        return ListedFiles([file_to_object(each) for each in listed.files], listed.has_more)

    async def remove(self, owner: str, store: str, file: str) -> None:
        """From the store only: the file itself stays."""
        if not await self._database.write(operations.remove(owner, store, file)):
            raise await self._not_found(owner, store, file)

    async def content(self, owner: str, store: str, file: str) -> AsyncIterator[list[str]]:
        """Its chunks, as far as they are there, some at a time."""
        record = await self._get(owner, store, file)
        return self._index.texts(store, record.document)

    # ---- batches -----------------------------------------------------------------------------------------------------

    async def create_batch(self, owner: str, store: str, body: CreateFileBatch) -> FileBatch:
        files = batch_to_files(body)
        id = self._new_id("vsfb")
        await self._add(owner, store, files, "file_ids" if body.files is None else "files", id)
        return await self.get_batch(owner, store, id)

    async def get_batch(self, owner: str, store: str, id: str) -> FileBatch:
        return await self._batch(owner, store, id, await self._database.read(operations.get_batch(owner, store, id)))

    async def cancel_batch(self, owner: str, store: str, id: str) -> FileBatch:
        return await self._batch(owner, store, id, await self._database.write(operations.cancel_batch(owner, store, id)))

    async def list_batch(self, owner: str, store: str, id: str, page: RowPage, status: Status | None) -> ListedFiles:
        listed = await self._database.read(operations.list_files(owner, store, page, status, id))
        if listed is None:
            raise await self._batch_not_found(owner, store, id)
        return ListedFiles([file_to_object(each) for each in listed.files], listed.has_more)

    async def _batch(self, owner: str, store: str, id: str, batch: Batch | None) -> FileBatch:
        if batch is None:
            raise await self._batch_not_found(owner, store, id)
        return batch_to_object(batch)

    async def _batch_not_found(self, owner: str, store: str, id: str) -> Exception:
        is_there = await self._database.read(store_operations.get(owner, store)) is not None
        return batch_not_found(store, id) if is_there else store_not_found(store)
