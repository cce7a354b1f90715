"""How much vector stores may have."""

from msgspec import Struct


class VectorStoreLimits(Struct, frozen=True):
    # Of one owner.
    stores: int = 1_000
    # In one store.
    files: int = 10_000
