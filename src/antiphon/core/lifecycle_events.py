"""The events that begin and end the stream of a response."""

from msgspec import structs

from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import Response

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
