"""What a search looks for, and what it finds: in the chunks, and in vector stores as their owner sees them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct


class Wanted(Struct, frozen=True):
    """What a search of the chunks may find."""

    most: int = 10
    # (store, file) that may be found. None: all.
    files: frozenset[tuple[str, str]] | None = None
    # Nothing with a lower score is found.
    threshold: float = 0.0
    embedding_weight: float = 1.0
    text_weight: float = 1.0
    ranker: str = "auto"


class Found(Struct, frozen=True):
    """A chunk. Its score is between 0 and 1."""

    store: str
    file: str
    number: int
    score: float
    text: str


class SearchOptions(Struct, frozen=True):
    """How vector stores are searched, as a client says it."""

    most: int = 10
    # As in the request, checked.
    filters: Any = None
    ranker: str = "auto"
    threshold: float = 0.0
    embedding_weight: float | None = None
    text_weight: float | None = None


class SearchRow(Struct, frozen=True):
    """A chunk that was found, and the file that it is from."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, Any] | None
    text: str


# ---- several rankings as one, by reciprocal rank ---------------------------------------------------------------------

# The higher, the less the first places count for more than the later ones.
SMOOTHING = 60


class Ranking(NamedTuple):
    """Ids, the best first."""

    ids: Sequence[int]
    weight: float = 1.0


def fuse(rankings: Iterable[Ranking]) -> list[int]:
    """The best first. Of equals, the one with the lower id: it is earlier in its file."""
    sums: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for place, id in enumerate(ranking.ids, 1):
            sums[id] += ranking.weight / (SMOOTHING + place)
    return sorted(sums, key=lambda id: (-sums[id], id))
