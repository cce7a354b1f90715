"""What an engine's finish_reason means for the response."""

from msgspec import Struct

from antiphon.core.knowledge.failures import PARSE_ERROR
from antiphon.errors import EngineError, EngineFailure


class Ending(Struct, frozen=True):
    """A reason that is not listed is an ordinary end."""

    incomplete: str | None = None
    error: str | None = None


COMPLETED = Ending()
OUT_OF_TOKENS = "max_output_tokens"
ENDINGS: dict[str, Ending] = {
    "length": Ending(incomplete=OUT_OF_TOKENS),
    "content_filter": Ending(incomplete="content_filter"),
    # LMDeploy and SGLang.
    "abort": Ending(error="The engine aborted the request."),
    "error": Ending(error="The engine gave up in the middle of its answer."),
    PARSE_ERROR: Ending(error="The engine could not read its model's tool call."),
}


def ending_of(reason: str | None) -> Ending:
    return ENDINGS.get(reason or "", COMPLETED)


def reason_to_error(reason: str | None) -> EngineError | None:
    """The error that a finish_reason stands for, with the reason as its cause."""
    message = ending_of(reason).error
    return None if message is None else EngineError(message, failure=EngineFailure(500, reason or "", ""))
