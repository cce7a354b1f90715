"""One state class per output item. Each makes its own events and its own final item; none knows its sequence numbers.

`open()` begins, `feed()` adds a piece, `close()` ends; a state that is not open yet only collects. A delta event is one object
that the state keeps and fills anew, so it must be encoded before the next `feed()`. `finishable()` tells whether an item may be
closed as soon as another begins; otherwise that one waits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import msgspec
from msgspec import UNSET

from antiphon.wire import UNREADABLE, events
from antiphon.wire.events import Event
from antiphon.wire.responses import (
    FunctionCall,
    Logprob,
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
    SummaryText,
)

# Pads a delta so that its length on the wire does not betray the token: a multiple of this many characters.
PADDED_TO = 16


class ReasoningEvents(NamedTuple):
    """Raw reasoning has two names: the SDK's and Codex's, and the Open Responses document's."""

    delta: type[events.ReasoningTextDelta] | type[events.ReasoningDelta]
    done: type[events.ReasoningTextDone] | type[events.ReasoningDone]


REASONING_TEXT = ReasoningEvents(events.ReasoningTextDelta, events.ReasoningTextDone)
REASONING = ReasoningEvents(events.ReasoningDelta, events.ReasoningDone)


@dataclass(frozen=True, slots=True)
class Style:
    """How this response is to be told: what the request and the settings ask for."""

    summary: bool = False
    logprobs: bool = False
    padding: str | None = None
    reasoning_events: ReasoningEvents = REASONING_TEXT

    def obfuscation(self, delta: str) -> str | msgspec.UnsetType:
        if self.padding is None:
            return UNSET
        return self.padding[: PADDED_TO - len(delta) % PADDED_TO]


class PartPlace(TypedDict):
    item_id: str
    output_index: int
    content_index: int


class SummaryPlace(TypedDict):
    item_id: str
    output_index: int
    summary_index: int


class TextPart:
    """One `output_text` part of a message."""

    def __init__(self, place: PartPlace, style: Style) -> None:
        self._place = place
        self._style = style
        self._pieces: list[str] = []
        self._logprobs: list[Logprob] = []
        self._delta = events.OutputTextDelta(**place, delta="")

    def open(self) -> Iterable[Event]:
        yield events.ContentPartAdded(**self._place, part=self._part(""))

    def feed(self, text: str, logprobs: list[Logprob] | None) -> Event:
        self._pieces.append(text)
        delta = self._delta
        delta.delta = text
        delta.logprobs = []
        if logprobs and self._style.logprobs:
            delta.logprobs = logprobs
            self._logprobs += logprobs
        delta.obfuscation = self._style.obfuscation(text)
        return delta

    def close(self) -> Iterable[Event]:
        part = self.part
        yield events.OutputTextDone(**self._place, text=part.text, logprobs=self._logprobs)
        yield events.ContentPartDone(**self._place, part=part)

    def _part(self, text: str) -> OutputText:
        return OutputText(text=text, logprobs=self._logprobs if self._style.logprobs else UNSET)

    @property
    def part(self) -> OutputText:
        return self._part("".join(self._pieces))


class RefusalPart:
    """One `refusal` part of a message."""

    def __init__(self, place: PartPlace, style: Style) -> None:
        self._place = place
        self._style = style
        self._pieces: list[str] = []

    def open(self) -> Iterable[Event]:
        yield events.ContentPartAdded(**self._place, part=OutputRefusal(refusal=""))

    def feed(self, text: str, logprobs: list[Logprob] | None = None) -> Event:
        self._pieces.append(text)
        return events.RefusalDelta(**self._place, delta=text, obfuscation=self._style.obfuscation(text))

    def close(self) -> Iterable[Event]:
        yield events.RefusalDone(**self._place, refusal=self.part.refusal)
        yield events.ContentPartDone(**self._place, part=self.part)

    @property
    def part(self) -> OutputRefusal:
        return OutputRefusal(refusal="".join(self._pieces))


PartKind = type[TextPart] | type[RefusalPart]


class MessageState:
    def __init__(self, item_id: str, style: Style) -> None:
        self._id = item_id
        self._style = style
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._parts: list[TextPart | RefusalPart] = []
        self._waiting: list[tuple[PartKind, str, list[Logprob] | None]] = []

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self.item)
        waiting, self._waiting = self._waiting, []
        for kind, text, logprobs in waiting:
            yield from self.feed(kind, text, logprobs)

    def feed(self, kind: PartKind, text: str, logprobs: list[Logprob] | None = None) -> Iterable[Event]:
        if self._index is None:
            self._waiting.append((kind, text, logprobs))
            return ()
        if self._parts and type(self._parts[-1]) is kind:
            return (self._parts[-1].feed(text, logprobs),)
        return self._next_part(kind(self._next_place(self._index), self._style), text, logprobs)

    def _next_part(self, part: TextPart | RefusalPart, text: str, logprobs: list[Logprob] | None) -> Iterable[Event]:
        if self._parts:
            yield from self._parts[-1].close()
        self._parts.append(part)
        yield from part.open()
        yield part.feed(text, logprobs)

    def _next_place(self, output_index: int) -> PartPlace:
        return {"item_id": self._id, "output_index": output_index, "content_index": len(self._parts)}

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        if self._parts:
            yield from self._parts[-1].close()
        self._status = status
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    @property
    def item(self) -> OutputMessage:
        return OutputMessage(id=self._id, status=self._status, content=[part.part for part in self._parts])


class ReasoningState:
    """Raw reasoning; where a summary was asked for, the same text is told as a summary too."""

    def __init__(self, item_id: str, style: Style) -> None:
        self._id = item_id
        self._style = style
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._pieces: list[str] = []
        self._deltas: tuple[events.ReasoningSummaryTextDelta | events.ReasoningTextDelta | events.ReasoningDelta, ...] = ()

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        waiting = "".join(self._pieces)
        self._pieces = []
        text_delta = self._style.reasoning_events.delta(item_id=self._id, output_index=output_index, content_index=0, delta="")
        self._deltas = (text_delta,)
        yield events.OutputItemAdded(output_index=output_index, item=ReasoningItem(id=self._id, status="in_progress"))
        if self._style.summary:
            summary_delta = events.ReasoningSummaryTextDelta(**self._summary_place(), delta="")
            self._deltas = (summary_delta, text_delta)
            yield events.ReasoningSummaryPartAdded(**self._summary_place(), part=SummaryText(text=""))
        yield events.ContentPartAdded(**self._place(), part=ReasoningText(text=""))
        if waiting:
            yield from self.feed(waiting)

    def feed(self, text: str) -> Iterable[Event]:
        self._pieces.append(text)
        for delta in self._deltas:
            delta.delta = text
            delta.obfuscation = self._style.obfuscation(text)
        return self._deltas

    def close(self, status: Status) -> Iterable[Event]:
        text = "".join(self._pieces)
        self._status = status
        if self._style.summary:
            yield events.ReasoningSummaryTextDone(**self._summary_place(), text=text)
            yield events.ReasoningSummaryPartDone(**self._summary_place(), part=SummaryText(text=text))
        yield self._style.reasoning_events.done(**self._place(), text=text)
        yield events.ContentPartDone(**self._place(), part=ReasoningText(text=text))
        assert self._index is not None
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def _place(self) -> PartPlace:
        assert self._index is not None
        return {"item_id": self._id, "output_index": self._index, "content_index": 0}

    def _summary_place(self) -> SummaryPlace:
        assert self._index is not None
        return {"item_id": self._id, "output_index": self._index, "summary_index": 0}

    @property
    def item(self) -> ReasoningItem:
        text = "".join(self._pieces)
        return ReasoningItem(
            id=self._id,
            status=self._status,
            summary=[SummaryText(text=text)] if self._style.summary else [],
            content=[ReasoningText(text=text)],
        )


class CallState:
    """A function call. Its name may come late; its arguments are whole once they are a JSON object."""

    def __init__(self, item_id: str, engine_id: str | None, make_call_id: Callable[[], str], style: Style) -> None:
        self._id = item_id
        self._style = style
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._pieces: list[str] = []
        self._delta: events.FunctionCallArgumentsDelta | None = None
        self._call_id = engine_id or make_call_id()
        self.engine_id = engine_id
        self.name = ""

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        waiting = "".join(self._pieces)
        self._pieces = []
        self._delta = events.FunctionCallArgumentsDelta(item_id=self._id, output_index=output_index, delta="")
        yield events.OutputItemAdded(output_index=output_index, item=self.item)
        if waiting:
            yield from self.feed(waiting)

    def feed(self, arguments: str) -> Iterable[Event]:
        self._pieces.append(arguments)
        if self._delta is None:
            return ()
        self._delta.delta = arguments
        self._delta.obfuscation = self._style.obfuscation(arguments)
        return (self._delta,)

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        # A call without arguments: clients parse them as JSON, and "" is none.
        if status == "completed" and not self.arguments.strip():
            yield from self.feed("{}")
        self._status = status
        arguments = self.arguments
        yield events.FunctionCallArgumentsDone(item_id=self._id, output_index=self._index, name=self.name, arguments=arguments)
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return is_json_object(self.arguments)

    @property
    def closed(self) -> bool:
        return self._status != "in_progress"

    @property
    def arguments(self) -> str:
        return "".join(self._pieces)

    @property
    def item(self) -> FunctionCall:
        return FunctionCall(id=self._id, call_id=self._call_id, name=self.name, arguments=self.arguments, status=self._status)


def is_json_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except UNREADABLE:
        return False
