"""Reasoning efforts, and which of those that an engine accepts is nearest to another."""

from collections.abc import Collection, Mapping

# From none to the most. OpenAI's, and "max" of Codex and of some engines.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
NO_EFFORT = "none"


def accepted_to_efforts(accepted: Collection[str]) -> Mapping[str, str]:
    """Each effort, and the one that is sent for it."""
    return {effort: nearest for effort in EFFORTS if (nearest := _nearest(effort, accepted)) is not None}


def without_effort(efforts: Mapping[str, str], refused: str) -> Mapping[str, str]:
    return accepted_to_efforts({sent for sent in efforts.values() if sent != refused})


def _nearest(effort: str, accepted: Collection[str]) -> str | None:
    """Of two that are equally near, the lower: no model thinks more than it was asked to. But who asks for a thought gets one,
    as long as there is any."""
    known = [each for each in EFFORTS if each in accepted]
    thinking = [each for each in known if each != NO_EFFORT]
    among = known if effort == NO_EFFORT or not thinking else thinking
    asked = EFFORTS.index(effort)
    return min(among, key=lambda each: abs(EFFORTS.index(each) - asked), default=None)
