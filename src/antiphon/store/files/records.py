"""What is stored of files and vector stores."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct

Status = Literal["in_progress", "completed", "cancelled", "failed"]

# `expires_at` of what does not expire.
NEVER = 2**62


class FileRecord(Struct, frozen=True, kw_only=True):
    """An uploaded file."""

    id: str
    owner: str
    created_at: int
    expires_at: int = NEVER
    size: int
    purpose: str
    filename: str
    content_type: str | None = None


class VectorStoreRecord(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    created_at: int
    last_active_at: int
    expires_at: int = NEVER
    expires_after_days: int | None = None
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str] = {}


class Chunking(Struct, frozen=True):
    """How a text is divided, in tokens. `is_auto`: nobody asked for these."""

    size: int = 800
    overlap: int = 400
    is_auto: bool = True


class StoreFileRecord(Struct, frozen=True, kw_only=True):
    """A file in a vector store."""

    store: str
    file: str
    owner: str
    created_at: int
    status: Status
    # Names its chunks.
    document: str
    # Of its chunks, in bytes.
    size: int = 0
    error_code: str | None = None
    error_message: str | None = None
    attributes: dict[str, Any] = {}
    chunking: Chunking = Chunking()


class AddedFile(Struct, frozen=True, kw_only=True):
    """A file that is to be in a vector store."""

    file: str
    # None: those that it has there already, if it does.
    attributes: dict[str, Any] | None = None
    chunking: Chunking = Chunking()


class FileCounts(Struct, frozen=True):
    """How many files of a store or of a batch have which status, and the bytes of those in it."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    size: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed + self.cancelled


class BatchRecord(Struct, frozen=True, kw_only=True):
    """Files that were added to a vector store together."""

    id: str
    store: str
    created_at: int
    cancelled: bool = False


class IndexingJob(Struct, frozen=True, kw_only=True):
    """A file in progress that a gateway has claimed."""

    record: StoreFileRecord
    # Of those before this one, in a row, that have added nothing.
    lost: int = 0


# ---- batches of requests ---------------------------------------------------------------------------------------------


class BatchTimes(Struct, kw_only=True):
    """When a batch came to each of its states."""

    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None


class Complaint(Struct, kw_only=True):
    """What is wrong with a batch, or with a line of its input."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class BatchDetails(Struct, kw_only=True):
    times: BatchTimes
    metadata: dict[str, Any] | None = None
    errors: list[Complaint] = []
    # Seconds after which its output expires.
    output_life: int | None = None


class RequestBatch(Struct, frozen=True, kw_only=True):
    """A batch of requests. The names are those of the columns."""

    id: str
    owner: str
    created_at: int
    expires_at: int
    kept_until: int
    endpoint: str
    status: str
    stop: str | None = None
    input_file: str
    output_file: str | None = None
    error_file: str | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    models: list[str] = []
    details: BatchDetails


class BatchLine(Struct, frozen=True, kw_only=True):
    """A line of an input file. `prefix`: a digest of how its request begins."""

    number: int
    place: int
    start: int
    size: int
    custom_id: str
    model: str
    prefix: str


class Usage(NamedTuple):
    """In tokens."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


class LineResult(NamedTuple):
    """`data`: the line of the output file or, if `is_output` is False, of the error file."""

    batch: str
    number: int
    is_output: bool
    data: bytes
    usage: Usage = Usage()


class ClaimedLine(Struct, frozen=True, kw_only=True):
    """A line that a gateway is to run."""

    batch: str
    owner: str
    endpoint: str
    input_file: str
    number: int
    start: int
    size: int
    custom_id: str
    prefix: str
    # How many gateways have died while they ran it, and how often it was put off because of an error that may pass.
    lost: int
    failures: int
    begun_calls: tuple[bytes, ...] = ()


# ---- uploads in parts ------------------------------------------------------------------------------------------------


class UploadRecord(Struct, frozen=True, kw_only=True):
    """The names are those of the columns. `life`: seconds after which the file expires."""

    id: str
    owner: str
    created_at: int
    expires_at: int
    status: str
    bytes: int
    filename: str
    purpose: str
    content_type: str | None = None
    life: int | None = None
    # Once it is complete.
    file: str | None = None


class PartRecord(Struct, frozen=True, kw_only=True):
    id: str
    upload: str
    created_at: int
    size: int
