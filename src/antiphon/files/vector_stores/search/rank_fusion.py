"""Several rankings as one, by reciprocal rank."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
