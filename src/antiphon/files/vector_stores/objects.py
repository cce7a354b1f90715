"""Records → the objects of the API, and what a request says → records."""

from collections.abc import Sequence

from msgspec import UNSET

from antiphon.errors import InvalidRequest, NotFound, quoted
from antiphon.store.files import records as file_records
from antiphon.store.files.records import NEVER, AddedFile, BatchRecord, Chunking, StoreFileRecord, VectorStoreRecord
from antiphon.store.files.vector_store_files import Batch
from antiphon.store.files.vector_stores import Counted
from antiphon.wire.vector_stores import (
    ChunkingStrategy,
    ChunkSizes,
    CreateFileBatch,
    ExpiresAfter,
    FileBatch,
    FileCounts,
    FileError,
    FileStatus,
    StaticChunking,
    StoreFile,
    StoreStatus,
    VectorStore,
)


def store_to_object(stored: Counted, now: float) -> VectorStore:
    record, counts = stored
    days = record.expires_after_days
    return VectorStore(
        id=record.id,
        created_at=record.created_at,
        # The SDK's type has no null.
        name=record.name or "",
        description=UNSET if record.description is None else record.description,
        usage_bytes=counts.size,
        file_counts=_counts(counts),
        status=_store_status(record, counts, now),
        expires_after=UNSET if days is None else ExpiresAfter("last_active_at", days),
        expires_at=None if record.expires_at == NEVER else record.expires_at,
        last_active_at=record.last_active_at,
        metadata=record.metadata,
    )


def has_expired(record: VectorStoreRecord, now: float) -> bool:
    return record.expires_at <= int(now)


def _store_status(record: VectorStoreRecord, counts: file_records.FileCounts, now: float) -> StoreStatus:
    if has_expired(record, now):
        return "expired"
    return "in_progress" if counts.in_progress else "completed"


def file_to_object(record: StoreFileRecord) -> StoreFile:
    code, message = record.error_code, record.error_message or ""
    return StoreFile(
        id=record.file,
        usage_bytes=record.size,
        created_at=record.created_at,
        vector_store_id=record.store,
        status=record.status,
        last_error=None if code is None else FileError(code, message),
        chunking_strategy=StaticChunking(ChunkSizes(record.chunking.size, record.chunking.overlap)),
        attributes=record.attributes,
    )


def batch_to_object(batch: Batch) -> FileBatch:
    record, counts = batch
    return FileBatch(
        id=record.id,
        created_at=record.created_at,
        vector_store_id=record.store,
        status=_batch_status(record, counts),
        file_counts=_counts(counts),
    )


def _batch_status(record: BatchRecord, counts: file_records.FileCounts) -> FileStatus:
    if counts.in_progress:
        return "in_progress"
    if record.cancelled:
        return "cancelled"
    return "failed" if counts.failed and counts.failed == counts.total else "completed"


def _counts(counts: file_records.FileCounts) -> FileCounts:
    return FileCounts(counts.in_progress, counts.completed, counts.failed, counts.cancelled, counts.total)


# ---- what a request says ---------------------------------------------------------------------------------------------


def to_chunking(strategy: ChunkingStrategy | None, where: str = "chunking_strategy") -> Chunking:
    if not isinstance(strategy, StaticChunking):
        return Chunking()
    size, overlap = strategy.static.max_chunk_size_tokens, strategy.static.chunk_overlap_tokens
    if overlap * 2 > size:
        where = f"{where}.static.chunk_overlap_tokens"
        message = f"Invalid `{where}`: it may be at most half of `max_chunk_size_tokens`, so {size // 2} here."
        raise InvalidRequest(message, param=where, code="integer_above_max_value")
    return Chunking(size, overlap, is_auto=False)


def batch_to_files(body: CreateFileBatch) -> list[AddedFile]:
    if (body.file_ids is None) == (body.files is None):
        raise InvalidRequest(
            "A batch has either `file_ids` or `files`.",
            param="file_ids" if body.files is None else "files",
            code="missing_required_parameter" if body.files is None else "mutually_exclusive_parameters",
        )
    if body.files is None:
        chunking = to_chunking(body.chunking_strategy)
        return [AddedFile(file=id, attributes=body.attributes, chunking=chunking) for id in body.file_ids or ()]
    return [
        AddedFile(
            file=each.file_id,
            attributes=each.attributes,
            chunking=to_chunking(each.chunking_strategy, f"files[{at}].chunking_strategy"),
        )
        for at, each in enumerate(body.files)
    ]


# ---- what is not there -----------------------------------------------------------------------------------------------


def store_not_found(id: str) -> NotFound:
    return NotFound(f"Vector store with id {quoted(id)} not found.", code="vector_store_not_found")


def file_not_found(store: str, id: str) -> NotFound:
    return NotFound(f"File with id {quoted(id)} not found in vector store {quoted(store)}.", code="file_not_found")


def batch_not_found(store: str, id: str) -> NotFound:
    return NotFound(f"File batch with id {quoted(id)} not found in vector store {quoted(store)}.", code="batch_not_found")


def files_not_found(ids: Sequence[str], param: str) -> NotFound:
    shown = ", ".join(quoted(id) for id in ids[:5])
    others = f" and {len(ids) - 5} others" if len(ids) > 5 else ""
    subject = f"File with id {shown}" if len(ids) == 1 else f"Files with ids {shown}{others}"
    return NotFound(f"{subject} not found.", param=param, code="file_not_found")


def store_expired(id: str) -> InvalidRequest:
    return InvalidRequest(
        f"Vector store {quoted(id)} has expired: it cannot be searched or changed. Create a new one.",
        code="vector_store_expired",
    )
