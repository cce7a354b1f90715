"""What is stored of files and vector stores."""

from typing import Any, Literal

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
