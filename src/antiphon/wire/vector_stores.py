"""Vector stores, their files and batches, as the API has them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.wire.responses import Metadata

FileStatus = Literal["in_progress", "completed", "cancelled", "failed"]
StoreStatus = Literal["expired", "in_progress", "completed"]

Name = Annotated[str, Meta(max_length=1_000)]
Description = Annotated[str, Meta(max_length=10_000)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Attributes = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)] | Whole | float | bool],
    Meta(max_length=16),
]
Query = Annotated[str, Meta(min_length=1, max_length=4_096)]
Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]

# ---- what a request may say ------------------------------------------------------------------------------------------
# Unknown members of a body are left out with a notice. Inside of it, they are refused.


class AutoChunking(Struct, tag_field="type", tag="auto", forbid_unknown_fields=True):
    pass


class ChunkSizes(Struct, forbid_unknown_fields=True):
    max_chunk_size_tokens: Annotated[int, Meta(ge=100, le=4096)]
    # At most half of the size.
    chunk_overlap_tokens: Annotated[int, Meta(ge=0)]


class StaticChunking(Struct, tag_field="type", tag="static", forbid_unknown_fields=True):
    static: ChunkSizes


ChunkingStrategy = AutoChunking | StaticChunking


class ExpiresAfter(Struct, forbid_unknown_fields=True):
    anchor: Literal["last_active_at"]
    days: Annotated[int, Meta(ge=1, le=365)]


class CreateVectorStore(Struct):
    file_ids: Annotated[list[str], Meta(max_length=500)] | None = None
    name: Name | None = None
    description: Description | None = None
    expires_after: ExpiresAfter | None = None
    chunking_strategy: ChunkingStrategy | None = None
    metadata: Metadata | None = None


class UpdateVectorStore(Struct):
    """What is not there stays as it is."""

    # None: the same. A store always has a name, if only an empty one.
    name: Name | None = None
    expires_after: ExpiresAfter | UnsetType | None = UNSET
    metadata: Metadata | UnsetType | None = UNSET


class CreateStoreFile(Struct):
    file_id: str
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class BatchFile(CreateStoreFile, forbid_unknown_fields=True):
    pass


class UpdateStoreFile(Struct):
    attributes: Attributes | None


class CreateFileBatch(Struct):
    file_ids: Annotated[list[str], Meta(min_length=1, max_length=2000)] | None = None
    files: Annotated[list[BatchFile], Meta(min_length=1, max_length=2000)] | None = None
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class HybridSearch(Struct, forbid_unknown_fields=True):
    embedding_weight: Weight = 1.0
    text_weight: Weight = 1.0


class RankingOptions(Struct, forbid_unknown_fields=True):
    # "model" is not OpenAI's: the engine's own model orders what was found.
    ranker: Literal["none", "auto", "default-2024-11-15", "model"] = "auto"
    score_threshold: Share = 0.0
    hybrid_search: HybridSearch | None = None


class SearchVectorStore(Struct):
    query: Query | Annotated[list[Query], Meta(min_length=1, max_length=32)]
    filters: dict[str, Any] | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: bool | None = None


# ---- what is answered ------------------------------------------------------------------------------------------------


class FileCounts(Struct):
    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


class VectorStore(Struct, kw_only=True):
    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    description: str | UnsetType = UNSET
    usage_bytes: int
    file_counts: FileCounts
    status: StoreStatus
    expires_after: ExpiresAfter | UnsetType = UNSET
    expires_at: int | None
    last_active_at: int
    metadata: dict[str, str]


class FileError(Struct):
    code: str
    message: str


class StoreFile(Struct, kw_only=True):
    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    usage_bytes: int
    created_at: int
    vector_store_id: str
    status: FileStatus
    last_error: FileError | None
    chunking_strategy: StaticChunking
    attributes: dict[str, Any]


class FileBatch(Struct, kw_only=True):
    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str
    status: FileStatus
    file_counts: FileCounts


class TextContent(Struct):
    text: str
    type: Literal["text"] = "text"


class FileContentPage(Struct, kw_only=True):
    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[TextContent]
    has_more: bool = False
    next_page: str | None = None


class SearchResult(Struct, kw_only=True):
    file_id: str
    filename: str
    score: float
    attributes: dict[str, Any] | None
    content: list[TextContent]


class SearchResultsPage(Struct, kw_only=True):
    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[SearchResult]
    has_more: bool = False
    next_page: str | None = None
