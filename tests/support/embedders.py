"""Embedders for tests: what a text means is which of a few subjects it is about, whatever words it uses."""

from collections.abc import Mapping, Sequence

import numpy

from antiphon.files.vector_stores.search.embeddings import WholeTexts, normalized
from antiphon.files.vector_stores.search.vectors import Floats

SUBJECTS: Mapping[str, str] = {
    "animals": "cat kitten feline dog puppy animal",
    "money": "bank loan credit interest money",
    "weather": "rain storm sunshine wind weather",
    "food": "bread soup cheese dinner food",
}


def meaning(text: str) -> list[float]:
    words = text.casefold().split()
    return [float(sum(word in subject.split() for word in words)) for subject in SUBJECTS.values()]


class SubjectEmbedder(WholeTexts):
    """It can be away."""

    def __init__(self, model: str = "subjects") -> None:
        self.model = model
        self.is_away = False
        # The texts of each call, and whether they were queries.
        self.calls: list[tuple[list[str], bool]] = []

    async def embed(self, texts: Sequence[str], *, query: bool) -> Floats | None:
        self.calls.append((list(texts), query))
        return None if self.is_away else normalized(numpy.array([meaning(text) for text in texts]))
