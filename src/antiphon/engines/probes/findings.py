"""What a probe brings back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    WORKS = "works"
    PARTLY = "partly"
    DOES_NOT = "does not"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one probe saw. `remedy` is what Antiphon does about a shortfall; what is learned is only what was really seen."""

    verdict: Verdict
    detail: str
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's table. `advice` is what would mend a shortfall on the engine's side: a flag, mostly."""

    capability: str
    verdict: Verdict
    detail: str
    remedy: str
    advice: str
    facts: Mapping[str, Any]


class NoAnswer(Exception):
    """The engine did not answer a question, so that nothing can be said; the message tells why."""
