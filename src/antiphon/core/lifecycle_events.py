"""The events that begin and end the stream of a response."""

from msgspec import structs

from antiphon.core.numbering import Numbering
from antiphon.errors import ApiError, Cancelled
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import Response, ResponseError

Terminal = events.ResponseCompleted | events.ResponseIncomplete | events.ResponseFailed

# Status → the event that ends the stream. The API has no event of its own for a cancelled response.
TERMINAL: dict[str, type[Terminal]] = {
    "completed": events.ResponseCompleted,
    "incomplete": events.ResponseIncomplete,
    "failed": events.ResponseFailed,
    "cancelled": events.ResponseIncomplete,
}


def snapshot(response: Response) -> Response:
    """The response as it is now: events are encoded later, when it may have changed."""
    return structs.replace(response)


def opening_events(response: Response) -> list[Event]:
    """What is emitted before any work is done."""
    created = events.ResponseCreated(response=snapshot(response))
    return [created, events.ResponseQueued(response=snapshot(response))] if response.status == "queued" else [created]


def in_progress_event(response: Response) -> Event:
    return events.ResponseInProgress(response=snapshot(response))


def terminal_event(response: Response) -> Event:
    return TERMINAL[response.status](response=snapshot(response))


def set_failed(response: Response, error: ApiError) -> None:
    """Ends a response with an error: failed, or cancelled if that is what the error is."""
    response.completed_at = response.incomplete_details = None
    if isinstance(error, Cancelled):
        response.status = "cancelled"
        return
    response.status = "failed"
    response.error = ResponseError(code=error.event_code, message=error.message)


def failed_response_events(response: Response, error: ApiError) -> list[Event]:
    """All events of a response for which no engine was asked. It is failed then."""
    numbering = Numbering()
    emitted = opening_events(response)
    response.status = "in_progress"
    emitted.append(in_progress_event(response))
    set_failed(response, error)
    return [numbering.number(event) for event in (*emitted, terminal_event(response))]
