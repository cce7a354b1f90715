"""A history that is too long, without its oldest turns: what `truncation: "auto"` asks for."""

import itertools
import re
from typing import Any

import msgspec

Item = dict[str, Any]

# Engines mostly say how many tokens there were, and how many there can be.
_TOKENS = re.compile(r"(\d+)\s*(?:prompt |input )?tokens", re.IGNORECASE)
# The answer needs room too.
ROOM = 0.05
# What is dropped at least where an engine does not say by how much its prompt is too long.
STEP = 0.25


def share_to_drop(message: str, dropped: float) -> float:
    """How much of a history has to go, by the words of the engine that refused it with so much gone already."""
    counts = [int(count) for count in _TOKENS.findall(message)]
    if len(counts) < 2 or min(counts) == max(counts):
        return dropped + STEP
    fits = min(counts) / max(counts)
    # The engine has seen what was left.
    return max(1 - (1 - dropped) * (fits - ROOM), dropped + ROOM)


def truncated(items: list[Item], share: float) -> list[Item] | None:
    """Without as many of the oldest turns as make up this share. The last turn, and what instructs the model, stay.

    None: there is nothing left to drop.
    """
    starts = [at for at, item in enumerate(items) if item.get("role") == "user"]
    if len(starts) < 2:
        return None
    weights = [len(msgspec.json.encode(item)) for item in items]
    head = [item for item in items[: starts[0]] if item.get("role") in ("system", "developer")]
    # How much stands before each item, and all of it last.
    before = list(itertools.accumulate(weights, initial=0))
    start = next((start for start in starts[1:] if before[start] >= share * before[-1]), starts[-1])
    return _paired([*head, *items[start:]])


def _paired(items: list[Item]) -> list[Item]:
    """Without the outputs of calls that are gone."""
    calls = {item.get("call_id") for item in items if not _is_output(item)}
    return [item for item in items if not _is_output(item) or item.get("call_id") in calls]


def _is_output(item: Item) -> bool:
    return str(item.get("type", "")).endswith("_output") and "call_id" in item
