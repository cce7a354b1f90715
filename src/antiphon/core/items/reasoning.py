"""The reasoning item: the thought, sent once, as raw text or as a summary."""

from collections.abc import Iterable
from typing import ClassVar, TypedDict

import msgspec
from msgspec import UNSET

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.deltas import ReasoningDelta
from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.events.plain_deltas import DeltaTemplate, FastPath
from antiphon.core.items.item_state import PartPlace
from antiphon.core.toolbox.requirements import Check
from antiphon.patterns import late_pattern
from antiphon.wire import events
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.responses import ReasoningItem, ReasoningText, Status, SummaryText

# ---- The title of a reasoning summary: a heading in its first line, made bold ----------------------------------------

# A first line that is clearly a Markdown heading is not longer than this.
LONGEST_HEADING = 120
_HEADING = late_pattern(r"#{1,6} +(?P<title>[^\n]*\S)[ #]*")


def bold_heading(text: str) -> str:
    """Codex shows the bold first line of a summary as its title."""
    line, rest = text[: _line_end(text)], text[_line_end(text) :]
    heading = _HEADING.fullmatch(line) if len(line) <= LONGEST_HEADING else None
    return f"**{heading['title'].strip('*')}**{rest}" if heading else text


def _line_end(text: str) -> int:
    end = text.find("\n")
    return len(text) if end < 0 else end


class Heading:
    """`bold_heading` while the text arrives: only a first line that begins like a heading is buffered."""

    def __init__(self) -> None:
        self._buffer = ""
        self.over = False

    def receive(self, text: str) -> str:
        if self.over:
            return text
        self._buffer += text
        if self._buffer.startswith("#") and "\n" not in self._buffer and len(self._buffer) <= LONGEST_HEADING:
            return ""
        return self.close()

    def close(self) -> str:
        self.over = True
        buffered, self._buffer = self._buffer, ""
        return bold_heading(buffered)


class SummaryPlace(TypedDict):
    item_id: str
    output_index: int
    summary_index: int


class RawText:
    """The thought as `reasoning_text`, the only part of the item's `content`."""

    # Every further piece is emitted as it comes.
    copies = True

    def __init__(self, item_id: str, output_index: int, style: EventOptions) -> None:
        self._place: PartPlace = {"item_id": item_id, "output_index": output_index, "content_index": 0}
        self._style = style

    def open(self) -> Event:
        return events.ContentPartAdded(**self._place, part=ReasoningText(text=""))

    def feed(self, text: str) -> str:
        """What is emitted of the text now."""
        return text

    def flush(self) -> str:
        """What is left to emit at the end."""
        return ""

    def delta(self, text: str) -> DeltaEvent:
        return self._style.reasoning_events.delta(**self._place, delta=text, obfuscation=self._style.obfuscation(text))

    def close(self, thought: str) -> Iterable[Event]:
        yield self._style.reasoning_events.done(**self._place, text=thought)
        yield events.ContentPartDone(**self._place, part=ReasoningText(text=thought))

    @staticmethod
    def item(item_id: str, status: Status, thought: str) -> ReasoningItem:
        return ReasoningItem(id=item_id, status=status, content=[ReasoningText(text=thought)])

    @staticmethod
    def item_text(thought: str) -> str:
        """The thought as the item has it."""
        return thought


class Summary:
    """The thought as `summary_text`, with a heading in its first line made bold. There is no `content` then: clients that show
    both would show every word twice."""

    def __init__(self, item_id: str, output_index: int, style: EventOptions) -> None:
        self._place: SummaryPlace = {"item_id": item_id, "output_index": output_index, "summary_index": 0}
        self._style = style
        self._heading = Heading()

    def open(self) -> Event:
        return events.ReasoningSummaryPartAdded(**self._place, part=SummaryText(text=""))

    def feed(self, text: str) -> str:
        return self._heading.receive(text)

    def flush(self) -> str:
        return self._heading.close()

    @property
    def copies(self) -> bool:
        return self._heading.over

    def delta(self, text: str) -> DeltaEvent:
        return events.ReasoningSummaryTextDelta(**self._place, delta=text, obfuscation=self._style.obfuscation(text))

    def close(self, thought: str) -> Iterable[Event]:
        summary = bold_heading(thought)
        yield events.ReasoningSummaryTextDone(**self._place, text=summary)
        yield events.ReasoningSummaryPartDone(**self._place, part=SummaryText(text=summary))

    @staticmethod
    def item(item_id: str, status: Status, thought: str) -> ReasoningItem:
        return ReasoningItem(id=item_id, status=status, summary=[SummaryText(text=bold_heading(thought))])

    @staticmethod
    def item_text(thought: str) -> str:
        return bold_heading(thought)


class ReasoningState:
    """A thought. Its item always lets the exact thought be restored: where a heading was changed, it is sealed in the item."""

    prefix: ClassVar[str] = "rs"
    check = None

    @classmethod
    def first(cls, delta: ReasoningDelta, *, follows_item: bool) -> ReasoningDelta | None:
        return ReasoningDelta(text) if (text := delta.text.lstrip()) else None

    def __init__(self, item_id: str, style: EventOptions, check: Check | None = None) -> None:
        self.outcome: CheckOutcome | None = None
        self._id = item_id
        self._style = style
        self._kind: type[RawText] | type[Summary] = Summary if style.summary else RawText
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._part: RawText | Summary | None = None
        self._pieces: list[str] = []
        self._sealed: str | msgspec.UnsetType = UNSET
        self.fast_path: FastPath | None = None

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        self._part = self._kind(self._id, output_index, self._style)
        waiting = self.written
        self._pieces = []
        yield events.OutputItemAdded(output_index=output_index, item=ReasoningItem(id=self._id, status="in_progress"))
        yield self._part.open()
        if waiting:
            yield from self.feed(waiting)

    def receive(self, delta: ReasoningDelta) -> Iterable[Event]:
        return self.feed(delta.text)

    def feed(self, text: str) -> Iterable[Event]:
        self._pieces.append(text)
        part = self._part
        if part is None:
            return ()
        emitted = part.feed(text)
        if part.copies and self._style.padding is None and self.fast_path is None:
            self.fast_path = FastPath(ReasoningDelta, self._pieces, DeltaTemplate(part.delta("")))
        return (part.delta(emitted),) if emitted else ()

    def close(self, status: Status) -> Iterable[Event]:
        assert self._part is not None
        assert self._index is not None
        thought = self.written
        # From now on there is one copy of it, however often it is asked for.
        self._pieces[:] = [thought]
        self._status = status
        if self._style.seals_reasoning or self._kind.item_text(thought) != thought:
            # Without a key there is no seal.
            self._sealed = self._style.seal(thought) or UNSET
        if rest := self._part.flush():
            yield self._part.delta(rest)
        yield from self._part.close(thought)
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def waive(self) -> None: ...

    @property
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def checked_text(self) -> str:
        return self.written

    @property
    def item(self) -> ReasoningItem:
        item = self._kind.item(self._id, self._status, self.written)
        item.encrypted_content = self._sealed
        return item
