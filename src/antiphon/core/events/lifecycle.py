"""How a response begins and ends: its status, the events that frame all others, how events look, and their numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct, structs

from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.errors import ApiError, Cancelled
from antiphon.sealing import NO_SEALER, KeptItems
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import (
    EngineExtras,
    IncompleteDetails,
    Logprob,
    OutputItem,
    OutputMessage,
    OutputText,
    Response,
    ResponseError,
)


class Numbering(Struct, eq=False):
    """Numbers events by one, from its first `next`."""

    next: int = 0

    def number(self, event: Event) -> Event:
        event.sequence_number = self.next
        self.next += 1
        return event

    def number_all(self, made: Iterable[Event], add: Callable[[Event], None]) -> None:
        """Numbers the events. `add` gets each of them."""
        for event in made:
            event.sequence_number = self.next
            self.next += 1
            add(event)

    def take_back(self, event: Event) -> None:
        """The last event is not sent: the next one gets its number."""
        self.next = event.sequence_number


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


class ExtrasReceived(Event, tag="antiphon.engine_extras"):
    """The engine's answer has members that the API does not have. Only protocols that pass them on get this event."""

    extras: EngineExtras
    # They came alone. Others come right before the rest of what they came with.
    is_all: bool


def join_extras(joined: EngineExtras | None, later: EngineExtras) -> EngineExtras:
    """Adds to what was joined before. What comes later counts; lists of a choice, such as the tokens of each chunk, go on."""
    joined = EngineExtras({}, {}) if joined is None else joined
    joined.members |= later.members
    for name, value in later.choice.items():
        if isinstance(value, list) and isinstance(known := joined.choice.get(name), list):
            known += value
        else:
            joined.choice[name] = list(value) if isinstance(value, list) else value
    return joined


# The response as it is now: events are encoded later, when it may have changed.
snapshot: Callable[[Response], Response] = structs.replace


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


class Lifecycle(Struct, eq=False):
    """Frames one response: `start()`, any number of `heartbeat()`s, `end()`."""

    _response: Response
    _numbering: Numbering
    _terminal: Event | None = None

    def start(self) -> list[AnyEvent]:
        emitted = opening_events(self._response)
        first = emitted[-1]
        if self._response.status == "in_progress" and isinstance(first, events.ResponseCreated):
            # Nothing has changed since: the two have the same snapshot, which is encoded once.
            emitted.append(events.ResponseInProgress(response=first.response))
        else:
            self._response.status = "in_progress"
            emitted.append(in_progress_event(self._response))
        numbering = self._numbering
        for event in emitted:
            event.sequence_number = numbering.next
            numbering.next += 1
        return [*emitted]

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


# A delta is padded to a multiple of this many characters, so that its length on the wire does not reveal the token.
PADDED_TO = 16
NO_CONTAINERS: Mapping[str, str] = {}
NOTHING_INCLUDED: frozenset[str] = frozenset()


class ReasoningEvents(NamedTuple):
    """Raw reasoning has two names: the SDK's and Codex's, and the Open Responses document's."""

    delta: type[events.ReasoningTextDelta] | type[events.ReasoningDelta]
    done: type[events.ReasoningTextDone] | type[events.ReasoningDone]


REASONING_TEXT = ReasoningEvents(events.ReasoningTextDelta, events.ReasoningTextDone)
REASONING = ReasoningEvents(events.ReasoningDelta, events.ReasoningDone)
REASONING_EVENTS = {"reasoning_text": REASONING_TEXT, "reasoning": REASONING}


class EventOptions(Struct, frozen=True):
    # A thought is sent as a summary, not as raw text.
    summary: bool = False
    logprobs: bool = False
    # The alternatives of each token that are shown. Engines choose a number of their own if none was asked for.
    top_logprobs: int = 0
    padding: str | None = None
    # Encrypts what only Antiphon reads again: thoughts, and the summary of a compaction.
    seal: Callable[[str], str] = NO_SEALER.seal
    # Every thought is sealed. Otherwise only one that the item does not show exactly.
    seals_reasoning: bool = False
    # The answer is one sealed summary of the conversation, and `kept` is sealed with it.
    compacts: bool = False
    kept: Callable[[], KeptItems] = KeptItems
    reasoning_events: ReasoningEvents = REASONING_TEXT
    # What the request's `include` names.
    included: frozenset[str] = NOTHING_INCLUDED
    # The containers that code runs in, by the types of their tools.
    containers: Mapping[str, str] = NO_CONTAINERS
    # What other protocols show: the files that code has written, and the summary of a compaction.
    shows_files: bool = False
    shows_summary: bool = False

    def shown_logprobs(self, logprobs: list[Logprob] | None) -> list[Logprob]:
        if not logprobs or not self.logprobs:
            return []
        most = self.top_logprobs
        return [
            each if len(each.top_logprobs) <= most else structs.replace(each, top_logprobs=each.top_logprobs[:most])
            for each in logprobs
        ]

    def obfuscation(self, delta: str) -> str | msgspec.UnsetType:
        if self.padding is None:
            return UNSET
        return self.padding[: PADDED_TO - len(delta) % PADDED_TO]
