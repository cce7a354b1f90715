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
    created_at: int
    status: Status
    batch: str | None = None
    # Of what was made of it, in bytes.
    size: int = 0
    error_code: str | None = None
    error_message: str | None = None
    attributes: dict[str, Any] = {}
    chunking: Chunking = Chunking()
