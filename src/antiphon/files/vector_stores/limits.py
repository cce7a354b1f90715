"""How much vector stores may have."""

from msgspec import Struct

from antiphon.store.files.vector_stores import Room


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
