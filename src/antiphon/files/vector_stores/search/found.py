"""What a search looks for, and what it finds: in the chunks, and in vector stores as their owner sees them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs


class Piece(NamedTuple):
    """A chunk to be indexed."""

    text: str
    # What it is about that is not in it: the title of its file, and the headings above it. It is found by these, too.
    context: str = ""
    # How many of its first characters are also in the chunk before.
    shared: int = 0


class Wanted(Struct, frozen=True):
    """What a search of the chunks may find."""

    most: int = 10
    # (store, file) that may be found. None: all.
    files: frozenset[tuple[str, str]] | None = None
    # Nothing with a lower score is found.
    threshold: float = 0.0
    # None: as it suits the model.
    embedding_weight: float | None = None
    text_weight: float | None = None
    ranker: str = "auto"


class Found(Struct, frozen=True):
    """A chunk. Its score is between 0 and 1."""

    store: str
    file: str
    number: int
    score: float
    text: str
    # How many of its first characters are also in the chunk before.
    shared: int = 0


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


# ---- what a client gets of what was found ----------------------------------------------------------------------------

# Passages of one file among the results, as long as others are there to be shown.
MOST_OF_FILE = 3
# Chunks that overlap, as one passage.
MOST_TOGETHER = 3


def merged(found: Sequence[Found]) -> list[Found]:
    """Chunks that overlap become one passage, with the score of the best of them. The best first."""
    by_file: defaultdict[tuple[str, str], list[Found]] = defaultdict(list)
    for each in found:
        by_file[each.store, each.file].append(each)
    passages = [passage for chunks in by_file.values() for passage in _passages(sorted(chunks, key=lambda each: each.number))]
    # Sorting is stable, and of equals the one that was found first stays first.
    first = {(each.store, each.file, each.number): place for place, each in enumerate(found)}
    return sorted(passages, key=lambda each: (-each.score, first[each.store, each.file, each.number]))


def _passages(chunks: Sequence[Found]) -> Iterable[Found]:
    together: list[Found] = []
    for chunk in chunks:
        overlaps = together and chunk.shared > 0 and chunk.number == together[-1].number + 1
        if together and (not overlaps or len(together) == MOST_TOGETHER):
            yield _passage(together)
            together = []
        together.append(chunk)
    if together:
        yield _passage(together)


def _passage(chunks: Sequence[Found]) -> Found:
    text = chunks[0].text
    for chunk in chunks[1:]:
        text += chunk.text[chunk.shared :]
    return structs.replace(chunks[0], text=text, score=max(chunk.score for chunk in chunks))


def of_many_files(found: Sequence[Found], most: int) -> list[Found]:
    """The best, but of one file only a few, unless no others are there."""
    counts: Counter[tuple[str, str]] = Counter()
    first: list[Found] = []
    later: list[Found] = []
    for each in found:
        counts[each.store, each.file] += 1
        (first if counts[each.store, each.file] <= MOST_OF_FILE else later).append(each)
    chosen = [*first, *later][:most]
    return sorted(chosen, key=lambda each: -each.score)
