"""What vector stores need of files, their texts and the index of chunks; and how much they may have."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from antiphon.files.vector_stores.search.found import Found, Piece, Wanted
from antiphon.store.files.records import FileRecord
from antiphon.store.files.vector_stores import Room


class Files(Protocol):
    """What belongs to another owner, or has expired, is not there."""

    async def find(self, owner: str, ids: Collection[str]) -> dict[str, FileRecord]: ...

    def local_copy(self, record: FileRecord) -> AbstractAsyncContextManager[Path]: ...


class Texts(Protocol):
    async def text_of(self, path: Path, filename: str, content_type: str | None, owner: str) -> str:
        """Raises UnreadableFile."""


class Index(Protocol):
    """`file` is the document of a file in a store: see `vector_store_tables`."""

    async def add(self, store: str, file: str, texts: Sequence[str | Piece], *, first: int = 0) -> None: ...

    async def count(self, store: str, file: str) -> int: ...

    def texts(self, store: str, file: str) -> AsyncIterator[list[str]]:
        """Some at a time."""

    async def embed_later(self) -> int:
        """Make some of the vectors that could not be made before. How many; 0: none is missing, or it still cannot be done."""

    def arrange(self) -> None:
        """In the background: what makes searches faster."""

    async def remove(self, store: str, file: str) -> None: ...

    async def remove_store(self, store: str) -> None: ...

    async def search(self, stores: Sequence[str], queries: Sequence[str], wanted: Wanted) -> list[Found]: ...


class Judge(Protocol):
    async def order(self, owner: str, queries: Sequence[str], passages: Sequence[str]) -> list[int]:
        """The places of all passages, the best first."""


# ---- limits ----------------------------------------------------------------------------------------------------------


class VectorStoreLimits(Struct, frozen=True):
    # Of one owner.
    stores: int = 1_000
    # In one store.
    files: int = 10_000
    # That one store remembers.
    batches: int = 1_000
    # Of the texts of all chunks of one owner, and of everybody, in bytes. None: no limit but that of everybody.
    key_bytes: int | None = None
    bytes: int = 10 * 1024**3

    @property
    def room(self) -> Room:
        return Room(self.key_bytes, self.bytes)
