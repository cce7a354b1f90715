"""One state class per output item; calls have a room of their own. Each makes its own events and its own final item.

`open()` begins, `feed()` adds a piece, `close()` ends; a state that is not open yet only collects. `finishable()` tells whether
an item may be closed as soon as another begins; otherwise that one waits. `lane` is the short way for pieces that only go
on with what is open. `check` is what its text has to pass. `waive()` takes the check
away: what was cut off, or turned out not to be the answer, is told as it is.
"""

from collections.abc import Iterable
from typing import TypedDict

import msgspec
from msgspec import UNSET

from antiphon.core.deltas import ReasoningDelta, TextDelta
from antiphon.core.demands import Check
from antiphon.core.event_style import MARK, Encode, Lane, Style, event_to_template
from antiphon.core.headings import Heading, bold_heading
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import (
    Compaction,
    Logprob,
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
    SummaryText,
)


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

    def __init__(self, place: PartPlace, style: Style, encode: Encode) -> None:
        self._place = place
        self._style = style
        self._pieces: list[str] = []
        self._logprobs: list[Logprob] = []
        self.lane: Lane | None = None
        if style.plain:
            self.lane = Lane(TextDelta, self._pieces, event_to_template(events.OutputTextDelta(**place, delta=MARK), encode))

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
        return OutputText(text=text, logprobs=self._logprobs if self._style.logprobs else UNSET)

    @property
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def part(self) -> OutputText:
        return self._part(self.written)


class RefusalPart:
    """One `refusal` part of a message. Rare and short: it has no lane."""

    lane = None

    def __init__(self, place: PartPlace, style: Style, encode: Encode) -> None:
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
    """A message. One that has to pass a check before anybody sees it is told when it is whole, and mended where that helps."""

    def __init__(self, item_id: str, style: Style, encode: Encode, check: Check | None = None) -> None:
        self.check = check
        self._id = item_id
        self._style = style
        self._encode = encode
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._parts: list[TextPart | RefusalPart] = []
        self._waiting: list[Piece] = []

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self.item)
        waiting, self._waiting = self._waiting, []
        if self.check is not None and self.check.held and all(kind is TextPart for kind, _, _ in waiting):
            waiting = [self._mended(waiting, self.check)]
        for kind, text, logprobs in waiting:
            yield from self.feed(kind, text, logprobs)

    def feed(self, kind: PartKind, text: str, logprobs: list[Logprob] | None = None) -> Iterable[Event]:
        if self._index is None:
            self._waiting.append((kind, text, logprobs))
            return ()
        if self._parts and type(self._parts[-1]) is kind:
            return (self._parts[-1].feed(text, logprobs),)
        return self._next_part(kind(self._next_place(self._index), self._style, self._encode), text, logprobs)

    def _mended(self, waiting: list[Piece], check: Check) -> Piece:
        """All that was held as one piece. Tokens that are not in it any more have no probabilities."""
        text = "".join(text for _, text, _ in waiting)
        mended = check.mended(text)
        logprobs = [logprob for _, _, given in waiting for logprob in given or ()]
        return TextPart, mended, logprobs if mended == text else None

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
        return self.check is None or not self.check.held

    def waive(self) -> None:
        self.check = None

    @property
    def lane(self) -> Lane | None:
        return self._parts[-1].lane if self._parts else None

    @property
    def written(self) -> str:
        return "".join(part.written for part in self._parts) or "".join(text for _, text, _ in self._waiting)

    @property
    def checked(self) -> str:
        return self.written

    @property
    def item(self) -> OutputMessage:
        return OutputMessage(id=self._id, status=self._status, content=[part.part for part in self._parts])


class CompactionState(MessageState):
    """The summary of a conversation: told to nobody, and given whole and sealed."""

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
    """Raw reasoning; where a summary was asked for, the same text is told as a summary too."""

    check: Check | None = None

    def __init__(self, item_id: str, style: Style, encode: Encode) -> None:
        self._id = item_id
        self._style = style
        self._encode = encode
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._pieces: list[str] = []
        self._heading = Heading()
        self._sealed: str | msgspec.UnsetType = UNSET
        self.lane: Lane | None = None

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
        if self._heading.over and self._style.padding is None and self.lane is None:
            # From here on the summary says what the text says.
            templates = (event_to_template(event, self._encode) for event in self._deltas(MARK, MARK))
            self.lane = Lane(ReasoningDelta, self._pieces, *templates)
        return self._deltas(text, summary)

    def _deltas(self, text: str, summary: str) -> Iterable[Event]:
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
    def checked(self) -> str:
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
