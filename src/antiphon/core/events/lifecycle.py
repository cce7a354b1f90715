"""How a response begins and ends: its status, and the events that frame all others."""

from collections.abc import Sequence

from msgspec import structs

from antiphon.core.events.numbering import Numbering
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.errors import ApiError, Cancelled
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import IncompleteDetails, OutputItem, OutputMessage, OutputText, Response, ResponseError

Terminal = events.ResponseCompleted | events.ResponseIncomplete | events.ResponseFailed

# Status → the event that ends the stream. The API has no event of its own for a cancelled response.
TERMINAL: dict[str, type[Terminal]] = {
    "completed": events.ResponseCompleted,
    "incomplete": events.ResponseIncomplete,
    "failed": events.ResponseFailed,
    "cancelled": events.ResponseIncomplete,
}


class Heartbeat(events.ResponseInProgress, tag="response.in_progress"):
    """Says again that the response is in progress, while there is nothing else to say. Other protocols have another sign of
    life for it."""


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


def output_text(output: Sequence[OutputItem]) -> str:
    """All text of the answer, without reasoning and calls."""
    texts: list[str] = []
    for item in output:
        if isinstance(item, OutputMessage):
            texts += [part.text for part in item.content if isinstance(part, OutputText)]
    return "".join(texts)


def set_failed(response: Response, error: ApiError) -> None:
    """Ends a response with an error: failed, or cancelled if that is what the error is."""
    response.completed_at = response.incomplete_details = None
    if isinstance(error, Cancelled):
        response.status = "cancelled"
        return
    response.status = "failed"
    response.error = ResponseError(code=error.event_code, message=error.message)


class Lifecycle:
    """Frames one response: `start()`, any number of `heartbeat()`s, `end()`."""

    def __init__(self, response: Response, numbering: Numbering) -> None:
        self._response = response
        self._numbering = numbering
        self._terminal: Event | None = None

    def start(self) -> list[AnyEvent]:
        emitted = opening_events(self._response)
        self._response.status = "in_progress"
        emitted.append(in_progress_event(self._response))
        numbered: list[AnyEvent] = []
        self._numbering.number_all(emitted, numbered.append)
        return numbered

    def heartbeat(self) -> Event:
        return self._numbering.number(Heartbeat(response=snapshot(self._response)))

    def end(self, now: int, *, incomplete: str | None, error: ApiError | None) -> Event:
        """The terminal event. Called again, it takes the place of the one before."""
        response = self._response
        response.output_text = output_text(response.output)
        if self._terminal is not None:
            self._numbering.take_back(self._terminal)
        if error is not None:
            set_failed(response, error)
        elif incomplete is not None:
            response.status = "incomplete"
            response.incomplete_details = IncompleteDetails(incomplete)
        else:
            response.status, response.completed_at = "completed", now
        self._terminal = self._numbering.number(terminal_event(response))
        return self._terminal


def failed_response_events(response: Response, error: ApiError) -> list[AnyEvent]:
    """All events of a response for which no engine was asked. It is failed then."""
    lifecycle = Lifecycle(response, Numbering())
    return [*lifecycle.start(), lifecycle.end(response.created_at, incomplete=None, error=error)]
