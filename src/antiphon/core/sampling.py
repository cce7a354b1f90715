"""How the tokens of an answer are chosen where the request does not say: data of a model, not of an engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sampling:
    temperature: float | None = None
    top_p: float | None = None
    # The longest answer of a request that does not ask for a length, in tokens. It does not count where tools are offered: an
    # answer that is cut off ends an agent's turn.
    most_tokens: int | None = None
    # Fields of the engine that are sent where neither tools nor a schema are.
    free_extra: Mapping[str, Any] = field(default_factory=dict)


# What the engine does by itself.
ENGINE_DEFAULT = Sampling()
