"""What a probe returns."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

# What Antiphon does about a thought that leaves no tokens for the answer.
ASKED_WITHOUT_THINKING = "asks again without thinking, if a thought has used up max_output_tokens"


class Verdict(StrEnum):
    """The word that `antiphon doctor` prints for a capability."""

    WORKS = "works"
    PARTLY = "partly"
    DOES_NOT = "does not"
    UNKNOWN = "not known"
    # Of the help that a model gets.
    GIVEN = "given"
    NOT_GIVEN = "not given"


class Observation(Struct, frozen=True):
    """What one probe observed. `remedy` is what Antiphon does about a shortfall; `facts` are the fields of the dialect that
    the observation proves."""

    verdict: Verdict
    detail: str
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Finding(Struct, frozen=True):
    """One row of the doctor's table. `advice` is what would fix a shortfall on the engine's side, mostly a flag.
    `may_pass`: the engine did not answer, and may do so at another time."""

    capability: str
    verdict: Verdict
    detail: str
    remedy: str
    advice: str
    facts: Mapping[str, Any]
    may_pass: bool = False


class NoAnswer(Exception):
    """The engine did not answer a request, so nothing is known. The message says why; `may_pass`: it may answer later."""

    def __init__(self, message: str, *, may_pass: bool = True) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class Failed(NoAnswer):
    """The engine broke down over the request, which may be the fault of the request."""


class Unparsed(Failed):
    """The engine's own parser failed on what its model wrote: the engine answers, and the request may be right."""
