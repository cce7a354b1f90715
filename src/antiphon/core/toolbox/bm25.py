"""BM25, as every ranking by words uses it: that of tools, and that of the chunks of vector stores.

A text scores, for each word of a query that it has: rarity(word) * times / (times + damping(length)).
"""

import math

# How soon a word that is repeated stops to count, and how much the length of a text counts.
SATURATION = 1.2
LENGTH_SHARE = 0.75


def rarity(having: int, texts: int) -> float:
    """How much a word weighs that so many of the texts have. A count that is out of date may be larger than all of them."""
    return math.log(1 + (max(0, texts - having) + 0.5) / (having + 0.5))


def damping(length: float) -> float:
    """`length`: that of the text, divided by the usual one."""
    return SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length)
