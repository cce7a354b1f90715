"""Weights that were measured: how their tokens are best chosen, and the facts that they have shown.

They are recognised by their shape, as engines report it, whatever name the model was given and whichever way it came.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from antiphon.core.knowledge.help import Sampling
from antiphon.patterns import late_pattern


class Shape(Struct, frozen=True):
    """What an engine reports of the weights of a model."""

    parameters: int
    vocabulary: int
    embedding: int


class KnownWeights(Struct, frozen=True):
    # Files differ in whether they have the output layer, which may be the same as the embedding.
    shapes: frozenset[Shape]
    sampling: Sampling
    # Facts of a dialect that they need not show again.
    facts: Mapping[str, Any] = field(default_factory=dict)
    # The names of other weights with the same shape.
    others: re.Pattern[str] | None = None


SMOLLM2_135M = KnownWeights(
    frozenset({Shape(134_515_008, 49_152, 576)}),
    # By itself it rambles to the end of its context. DRY makes it less likely to repeat more than two tokens of what came
    # before. By default that begins anew at each line; then lists go on for a hundred lines. Measured with one seed: a list and
    # a story of 451 and 1,024 tokens without it ended after 133 and 247.
    Sampling(
        temperature=0.2,
        top_p=0.9,
        most_tokens=1024,
        free_extra={"dry_multiplier": 0.8, "dry_allowed_length": 2, "dry_sequence_breakers": ["<|im_end|>"]},
    ),
)
QWEN25_CODER_1_5B = KnownWeights(
    frozenset({Shape(1_777_088_000, 151_936, 1536), Shape(1_543_714_304, 151_936, 1536)}),
    # As hot as engines sample by default, it loses its way in the arguments of a call.
    Sampling(temperature=0.2, top_p=0.9),
    # It writes calls of tools that it makes up, in blocks of JSON.
    {"garbles_calls": True},
    late_pattern(r"qwen2(?:\.5)?[-_ ](?:math|[\d.]+b)|deepseek|distill", re.IGNORECASE),
)
KNOWN_WEIGHTS = (SMOLLM2_135M, QWEN25_CODER_1_5B)
BY_SHAPE: Mapping[Shape, KnownWeights] = {shape: known for known in KNOWN_WEIGHTS for shape in known.shapes}


def recognised(shape: Shape | None, name: str) -> KnownWeights | None:
    """`name`: that of the model, which may be the path of its file."""
    known = BY_SHAPE.get(shape) if shape is not None else None
    if known is not None and known.others is not None and known.others.search(name):
        return None
    return known
