"""How a response begins and ends: what a finish_reason means, which events frame the others, what all of it cost."""

from dataclasses import dataclass

from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Response, Usage

Terminal = events.ResponseCompleted | events.ResponseIncomplete | events.ResponseFailed


@dataclass(frozen=True, slots=True)
class Ending:
    """What a finish_reason means for the response. A reason that is not listed is an ordinary end."""

    incomplete: str | None = None
    error: str | None = None


COMPLETED = Ending()
ENDINGS: dict[str, Ending] = {
    "length": Ending(incomplete="max_output_tokens"),
    "content_filter": Ending(incomplete="content_filter"),
    # LMDeploy and SGLang.
    "abort": Ending(error="The engine aborted the request."),
    "error": Ending(error="The engine gave up in the middle of its answer."),
    "parse_error": Ending(error="The engine could not read its model's tool call."),
}

# Status → the event that ends the stream of a response. The API has none of its own for a response that was cancelled.
TERMINAL: dict[str, type[Terminal]] = {
    "completed": events.ResponseCompleted,
    "incomplete": events.ResponseIncomplete,
    "failed": events.ResponseFailed,
    "cancelled": events.ResponseIncomplete,
}


def ending_of(reason: str | None) -> Ending:
    return ENDINGS.get(reason or "", COMPLETED)


def beginning(response: Response) -> list[Event]:
    """What is told of a response before anything is done for it."""
    created = events.ResponseCreated(response=response)
    return [created, events.ResponseQueued(response=response)] if response.status == "queued" else [created]


def summed(earlier: Usage | None, later: Usage | None) -> Usage | None:
    """Of an engine that was asked twice for one response."""
    if earlier is None or later is None:
        return later or earlier
    cached = earlier.input_tokens_details.cached_tokens + later.input_tokens_details.cached_tokens
    thought = earlier.output_tokens_details.reasoning_tokens + later.output_tokens_details.reasoning_tokens
    return Usage(
        earlier.input_tokens + later.input_tokens,
        InputTokensDetails(cached_tokens=cached),
        earlier.output_tokens + later.output_tokens,
        OutputTokensDetails(reasoning_tokens=thought),
        earlier.total_tokens + later.total_tokens,
    )
