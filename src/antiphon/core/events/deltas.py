"""What the chunks of every engine become: deltas of text, reasoning and calls, and what ends an answer."""

from typing import Any, Protocol

from msgspec import Struct

from antiphon.errors import ApiError
from antiphon.wire.responses import EngineExtras, Logprob, Usage


class ReasoningDelta(Struct, frozen=True, gc=False):
    text: str


class TextDelta(Struct, frozen=True):
    text: str
    logprobs: list[Logprob] | None = None


class Citation(Protocol):
    def annotation(self, start: int, end: int) -> dict[str, Any]:
        """The annotation that clients get, by its place in the text."""


class CitedDelta(TextDelta, frozen=True, kw_only=True):
    """Text that is nothing but a citation."""

    citation: Citation


class RefusalDelta(Struct, frozen=True, gc=False):
    text: str


class AnnotationsDelta(Struct, frozen=True):
    """Annotations of the text before, in the shape that clients know."""

    annotations: list[dict[str, Any]]


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of a tool call. Engines may leave out any of these; `call_pieces` finds the call that it belongs to."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class ThoughtEnded(Struct, frozen=True, gc=False):
    """A `</think>` that nothing in the stream had opened: what was shown as text until here had been a thought."""


class UsageReport(Struct, frozen=True):
    usage: Usage


class ExtrasDelta(Struct, frozen=True):
    """What a chunk has beside the members of the API."""

    extras: EngineExtras
    # The chunk has nothing else.
    is_all: bool


class Finished(Struct, frozen=True, gc=False):
    reason: str
    # What ended the text, if it was ended here.
    stop_sequence: str | None = None


class EngineFailed(Struct, frozen=True):
    error: ApiError


Delta = (
    ReasoningDelta
    | TextDelta
    | CitedDelta
    | RefusalDelta
    | AnnotationsDelta
    | CallDelta
    | ThoughtEnded
    | UsageReport
    | ExtrasDelta
    | Finished
    | EngineFailed
)
