"""The reasoning item."""

from collections.abc import Iterable
from typing import ClassVar, TypedDict

import msgspec
from msgspec import UNSET

from antiphon.core.check_work import CheckOutcome
from antiphon.core.deltas import ReasoningDelta
from antiphon.core.event_style import EventStyle
from antiphon.core.fast_path import DeltaTemplate, FastPath
from antiphon.core.headings import Heading, bold_heading
from antiphon.core.item_state import PartPlace
from antiphon.core.requirements import Check
from antiphon.wire import events
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.responses import (
    ReasoningItem,
    ReasoningText,
    Status,
    SummaryText,
)

# Stands for the text of a template, which has none.
ANY_TEXT = "…"


class SummaryPlace(TypedDict):
    item_id: str
    output_index: int
    summary_index: int


class ReasoningState:
    """Raw reasoning. Where a summary was asked for, the same text is emitted as a summary too."""

    prefix: ClassVar[str] = "rs"
    check = None

    @classmethod
    def first(cls, delta: ReasoningDelta, *, follows_item: bool) -> ReasoningDelta | None:
        return ReasoningDelta(text) if (text := delta.text.lstrip()) else None

    def __init__(self, item_id: str, style: EventStyle, check: Check | None = None) -> None:
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

    def receive(self, delta: ReasoningDelta) -> Iterable[Event]:
        return self.feed(delta.text)

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
