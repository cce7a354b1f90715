"""One state class per output item; calls have their own module. Each makes its own events and its own final item.

A new output item is a class that follows `ItemState`, its events in `wire.events`, and a row in `ITEMS` below or in
`calls.FORMS`.
"""

from collections.abc import Iterable
from typing import Protocol, TypedDict

import msgspec
from msgspec import UNSET

from antiphon.core.check_work import CheckOutcome
from antiphon.core.deltas import ReasoningDelta, TextDelta
from antiphon.core.event_style import EventStyle
from antiphon.core.fast_path import DeltaTemplate, FastPath
from antiphon.core.headings import Heading, bold_heading
from antiphon.core.requirements import Check
from antiphon.wire import events
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.responses import (
    Compaction,
    Logprob,
    OutputItem,
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
    SummaryText,
)


class ItemState(Protocol):
    """An output item from its first piece to its end. Before `open()` it only collects what it is fed."""

    # What its text must pass, and how it did; None where nothing is required, or where it was not checked yet.
    @property
    def check(self) -> Check | None: ...

    outcome: CheckOutcome | None

    # Where pieces go that only continue what is open.
    @property
    def fast_path(self) -> FastPath | None: ...

    def open(self, output_index: int) -> Iterable[Event]: ...

    def close(self, status: Status) -> Iterable[Event]: ...

    def finishable(self) -> bool:
        """It may be closed as soon as another item begins. Otherwise that one waits."""

    def ready(self) -> bool:
        """It may be opened, or checked if it must be checked first."""

    def waive(self) -> None:
        """Takes the check away: what was cut off, or turned out not to be the answer, is emitted as it is."""

    # All that the model wrote of it, and the part that is checked.
    @property
    def written(self) -> str: ...

    @property
    def checked_text(self) -> str: ...

    @property
    def item(self) -> OutputItem: ...


# Stands for the text of a template, which has none.
ANY_TEXT = "…"


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

    def __init__(self, place: PartPlace, style: EventStyle) -> None:
        self._place = place
        self._style = style
        self._pieces: list[str] = []
        self._logprobs: list[Logprob] = []
        self.fast_path: FastPath | None = None
        if style.plain:
            template = DeltaTemplate(events.OutputTextDelta(**place, delta=""))
            self.fast_path = FastPath(TextDelta, self._pieces, template)

    def open(self) -> Iterable[Event]:
        yield events.ContentPartAdded(**self._place, part=self._part(""))

    def feed(self, text: str, logprobs: list[Logprob] | None) -> Event:
        self._pieces.append(text)
        shown = logprobs if logprobs and self._style.logprobs else []
        self._logprobs += shown
        padding = self._style.obfuscation(text)
        return events.OutputTextDelta(**self._place, delta=text, logprobs=shown, obfuscation=padding)

    def close(self) -> Iterable[Event]:
        part = self.part
        yield events.OutputTextDone(**self._place, text=part.text, logprobs=self._logprobs)
        yield events.ContentPartDone(**self._place, part=part)

    def _part(self, text: str) -> OutputText:
        return OutputText(text=text, logprobs=list(self._logprobs) if self._style.logprobs else UNSET)

    @property
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def part(self) -> OutputText:
        return self._part(self.written)


class RefusalPart:
    """One `refusal` part of a message. Rare and short: it has no fast path."""

    fast_path = None

    def __init__(self, place: PartPlace, style: EventStyle) -> None:
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
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def part(self) -> OutputRefusal:
        return OutputRefusal(refusal=self.written)


PartKind = type[TextPart] | type[RefusalPart]
Piece = tuple[PartKind, str, list[Logprob] | None]


class MessageState:
    """A message. One that must pass a check before it is shown is buffered until it is whole, and repaired if possible."""

    prefix = "msg"

    def __init__(self, item_id: str, style: EventStyle, check: Check | None = None) -> None:
        self.check = check
        self.outcome: CheckOutcome | None = None
        self._id = item_id
        self._style = style
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._parts: list[TextPart | RefusalPart] = []
        self._waiting: list[Piece] = []

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self.item)
        waiting, self._waiting = self._waiting, []
        if self.outcome is not None and all(kind is TextPart for kind, _, _ in waiting):
            waiting = [_repaired(waiting, self.outcome)]
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

    def ready(self) -> bool:
        return self.check is None or not self.check.buffered

    def waive(self) -> None:
        self.check = self.outcome = None

    @property
    def fast_path(self) -> FastPath | None:
        return self._parts[-1].fast_path if self._parts else None

    @property
    def written(self) -> str:
        return "".join(part.written for part in self._parts) or "".join(text for _, text, _ in self._waiting)

    @property
    def checked_text(self) -> str:
        return self.written

    @property
    def item(self) -> OutputMessage:
        return OutputMessage(id=self._id, status=self._status, content=[part.part for part in self._parts])


def _repaired(waiting: list[Piece], outcome: CheckOutcome) -> Piece:
    """All that was buffered as one piece. Tokens of a text that was repaired have no probabilities."""
    text = "".join(text for _, text, _ in waiting)
    if outcome.unfinished or outcome.text == text:
        return TextPart, text, [logprob for _, _, given in waiting for logprob in given or ()]
    return TextPart, outcome.text, None


class CompactionState(MessageState):
    """The summary of a conversation: no deltas; the item is emitted whole and sealed."""

    prefix = "cmp"

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        return (events.OutputItemAdded(output_index=output_index, item=self._item("")),)

    def feed(self, kind: PartKind, text: str, logprobs: list[Logprob] | None = None) -> Iterable[Event]:
        self._waiting.append((kind, text, None))
        return ()

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        assert self._style.seal is not None
        self._sealed = self._item(self._style.seal(self.written))
        return (events.OutputItemDone(output_index=self._index, item=self._sealed),)

    def _item(self, sealed: str) -> Compaction:
        return Compaction(id=self._id, encrypted_content=sealed)

    @property
    def written(self) -> str:
        return "".join(text for _, text, _ in self._waiting)

    @property
    def item(self) -> Compaction:  # type: ignore[override]
        return self._sealed


class ReasoningState:
    """Raw reasoning. Where a summary was asked for, the same text is emitted as a summary too."""

    prefix = "rs"
    check = None

    def __init__(self, item_id: str, style: EventStyle) -> None:
        self.outcome: CheckOutcome | None = None
        self._id = item_id
        self._style = style
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._pieces: list[str] = []
        self._heading = Heading()
        self._sealed: str | msgspec.UnsetType = UNSET
        self.fast_path: FastPath | None = None

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        waiting = "".join(self._pieces)
        self._pieces = []
        yield events.OutputItemAdded(output_index=output_index, item=ReasoningItem(id=self._id, status="in_progress"))
        if self._style.summary:
            yield events.ReasoningSummaryPartAdded(**self._summary_place(), part=SummaryText(text=""))
        yield events.ContentPartAdded(**self._place(), part=ReasoningText(text=""))
        if waiting:
            yield from self.feed(waiting)

    def feed(self, text: str) -> Iterable[Event]:
        self._pieces.append(text)
        if self._index is None:
            return ()
        summary = self._heading.receive(text)
        if self._heading.over and self._style.padding is None and self.fast_path is None:
            # From here on the summary is the text itself.
            templates = (DeltaTemplate(event) for event in self._deltas(ANY_TEXT, ANY_TEXT))
            self.fast_path = FastPath(ReasoningDelta, self._pieces, *templates)
        return self._deltas(text, summary)

    def _deltas(self, text: str, summary: str) -> Iterable[DeltaEvent]:
        if self._style.summary and summary:
            padding = self._style.obfuscation(summary)
            yield events.ReasoningSummaryTextDelta(**self._summary_place(), delta=summary, obfuscation=padding)
        if text:
            padding = self._style.obfuscation(text)
            yield self._style.reasoning_events.delta(**self._place(), delta=text, obfuscation=padding)

    def close(self, status: Status) -> Iterable[Event]:
        text = self.written
        self._status = status
        if self._style.seal is not None:
            self._sealed = self._style.seal(text)
        if self._style.summary:
            summary = bold_heading(text)
            yield from self._deltas("", self._heading.close())
            yield events.ReasoningSummaryTextDone(**self._summary_place(), text=summary)
            yield events.ReasoningSummaryPartDone(**self._summary_place(), part=SummaryText(text=summary))
        yield self._style.reasoning_events.done(**self._place(), text=text)
        yield events.ContentPartDone(**self._place(), part=ReasoningText(text=text))
        assert self._index is not None
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def waive(self) -> None: ...

    def _place(self) -> PartPlace:
        assert self._index is not None
        return {"item_id": self._id, "output_index": self._index, "content_index": 0}

    def _summary_place(self) -> SummaryPlace:
        assert self._index is not None
        return {"item_id": self._id, "output_index": self._index, "summary_index": 0}

    @property
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def checked_text(self) -> str:
        return self.written

    @property
    def item(self) -> ReasoningItem:
        text = self.written
        return ReasoningItem(
            id=self._id,
            status=self._status,
            summary=[SummaryText(text=bold_heading(text))] if self._style.summary else [],
            content=[ReasoningText(text=text)],
            encrypted_content=self._sealed,
        )
