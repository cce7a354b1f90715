"""The message item, its parts, and the sealed summary that takes its place in a compaction."""

from collections.abc import Iterable
from typing import Any, ClassVar

from msgspec import UNSET

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.deltas import Citation, CitedDelta, Delta, RefusalDelta, TextDelta
from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.events.plain_deltas import DeltaTemplate, FastPath
from antiphon.core.items.item_state import PartPlace
from antiphon.core.toolbox.requirements import Check
from antiphon.sealing import CompactedText
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import Compaction, Logprob, OutputMessage, OutputRefusal, OutputText, Status

Annotation = dict[str, Any]


class TextPart:
    """One `output_text` part of a message."""

    __slots__ = (
        "_annotations",
        "_closed",
        "_content_index",
        "_item_id",
        "_length",
        "_logprobs",
        "_output_index",
        "_pieces",
        "_style",
        "fast_path",
    )

    def __init__(self, place: PartPlace, style: EventOptions) -> None:
        # One by one: an event made of a dictionary takes 2,100 instructions more, and every answer has five of them.
        self._item_id, self._output_index, self._content_index = place["item_id"], place["output_index"], place["content_index"]
        self._style = style
        self._pieces: list[str] = []
        self._logprobs: list[Logprob] = []
        self._annotations: list[Annotation] = []
        # As it is once nothing more can come.
        self._closed: OutputText | None = None
        # How many characters came through `feed()`: all of them, where there are citations.
        self._length = 0
        self.fast_path: FastPath | None = None
        if style.padding is None and not style.logprobs:
            # Deltas carry their text and nothing else.
            event = events.OutputTextDelta(
                item_id=self._item_id, output_index=self._output_index, content_index=self._content_index, delta=""
            )
            self.fast_path = FastPath(TextDelta, self._pieces, DeltaTemplate(event))

    def open(self) -> Event:
        return events.ContentPartAdded(
            item_id=self._item_id, output_index=self._output_index, content_index=self._content_index, part=self._part("")
        )

    def feed(self, delta: TextDelta) -> Iterable[Event]:
        text = delta.text
        self._pieces.append(text)
        self._length += len(text)
        style = self._style
        logprobs = style.shown_logprobs(delta.logprobs) if delta.logprobs else []
        self._logprobs += logprobs
        padding = style.obfuscation(text) if style.padding is not None else UNSET
        fed = events.OutputTextDelta(
            item_id=self._item_id,
            output_index=self._output_index,
            content_index=self._content_index,
            delta=text,
            logprobs=logprobs,
            obfuscation=padding,
        )
        return self._cited(fed, delta.citation) if isinstance(delta, CitedDelta) else (fed,)

    def _cited(self, fed: events.OutputTextDelta, citation: Citation) -> Iterable[Event]:
        """The text so far ends with this citation, which may have no text of its own."""
        annotation = citation.annotation(self._length - len(fed.delta), self._length)
        return (*((fed,) if fed.delta or fed.logprobs else ()), *self.annotate([annotation]))

    def annotate(self, annotations: Iterable[Annotation]) -> Iterable[Event]:
        for annotation in annotations:
            at = len(self._annotations)
            self._annotations.append(annotation)
            yield events.OutputTextAnnotationAdded(
                item_id=self._item_id,
                output_index=self._output_index,
                content_index=self._content_index,
                annotation_index=at,
                annotation=annotation,
            )

    def close(self) -> Iterable[Event]:
        # From now on there is one copy of the text, however often it is asked for.
        text = "".join(self._pieces)
        self._pieces[:] = [text]
        self._closed = part = self._part(text)
        return (
            events.OutputTextDone(
                item_id=self._item_id,
                output_index=self._output_index,
                content_index=self._content_index,
                text=text,
                logprobs=self._logprobs,
            ),
            events.ContentPartDone(
                item_id=self._item_id, output_index=self._output_index, content_index=self._content_index, part=part
            ),
        )

    def _part(self, text: str) -> OutputText:
        return OutputText(text=text, annotations=self._annotations.copy(), logprobs=self._logprobs.copy())

    @property
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def part(self) -> OutputText:
        return self._part(self.written) if self._closed is None else self._closed


class RefusalPart:
    """One `refusal` part of a message. Rare and short: it has no fast path."""

    fast_path = None

    def __init__(self, place: PartPlace, style: EventOptions) -> None:
        self._place = place
        self._style = style
        self._pieces: list[str] = []

    def open(self) -> Event:
        return events.ContentPartAdded(**self._place, part=OutputRefusal(refusal=""))

    def feed(self, delta: RefusalDelta) -> Iterable[Event]:
        text = delta.text
        self._pieces.append(text)
        return (events.RefusalDelta(**self._place, delta=text, obfuscation=self._style.obfuscation(text)),)

    def close(self) -> Iterable[Event]:
        self._pieces[:] = [self.written]
        yield events.RefusalDone(**self._place, refusal=self.part.refusal)
        yield events.ContentPartDone(**self._place, part=self.part)

    @property
    def written(self) -> str:
        return "".join(self._pieces)

    @property
    def part(self) -> OutputRefusal:
        return OutputRefusal(refusal=self.written)


ContentDelta = TextDelta | RefusalDelta
# Delta → the part that it belongs to.
PARTS: dict[type[Delta], type[TextPart] | type[RefusalPart]] = {
    TextDelta: TextPart,
    CitedDelta: TextPart,
    RefusalDelta: RefusalPart,
}


class MessageState:
    """A message. One that must pass a check before it is shown is buffered until it is whole, and repaired if possible."""

    __slots__ = ("_annotations", "_id", "_index", "_item", "_parts", "_status", "_style", "_waiting", "check", "outcome")
    prefix: ClassVar[str] = "msg"

    def __init__(self, item_id: str, style: EventOptions, check: Check | None = None) -> None:
        self.check = check
        self.outcome: CheckOutcome | None = None
        self._id = item_id
        self._style = style
        self._status: Status = "in_progress"
        self._index: int | None = None
        self._parts: list[TextPart | RefusalPart] = []
        self._waiting: list[ContentDelta] = []
        self._annotations: list[Annotation] = []
        # Made once it is closed.
        self._item: OutputMessage | None = None

    @classmethod
    def first(cls, delta: ContentDelta, *, follows_item: bool) -> ContentDelta | None:
        """Engines put line breaks between a thought and what follows it. A message does not begin with them, and white space
        between two calls is not a message."""
        if type(delta) is not TextDelta:
            return delta
        text = delta.text.lstrip("\r\n")
        return TextDelta(text, delta.logprobs) if text and not (text.isspace() and follows_item) else None

    def receive(self, delta: ContentDelta) -> Iterable[Event]:
        if self._index is None:
            self._waiting.append(delta)
            return ()
        kind = PARTS[type(delta)]
        if self._parts and type(part := self._parts[-1]) is kind:
            return part.feed(delta)  # type: ignore[arg-type]
        place: PartPlace = {"item_id": self._id, "output_index": self._index, "content_index": len(self._parts)}
        return self._next_part(kind(place, self._style), delta)

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        begun = OutputMessage(id=self._id, status=self._status, content=[])
        opened: list[Event] = [events.OutputItemAdded(output_index=output_index, item=begun)]
        waiting, self._waiting = self._waiting, []
        if self.outcome is not None:
            waiting = _repaired(waiting, self.outcome)
        for delta in waiting:
            opened += self.receive(delta)
        if self._annotations:
            opened += self.annotate(self._annotations)
        return opened

    def annotate(self, annotations: list[Annotation]) -> Iterable[Event]:
        """Of the text so far."""
        if self._index is None:
            self._annotations += annotations
            return ()
        return part.annotate(annotations) if self._parts and isinstance(part := self._parts[-1], TextPart) else ()

    def _next_part(self, part: TextPart | RefusalPart, delta: ContentDelta) -> Iterable[Event]:
        closed = self._parts[-1].close() if self._parts else ()
        self._parts.append(part)
        return (*closed, part.open(), *part.feed(delta))  # type: ignore[arg-type]

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        closed = self._parts[-1].close() if self._parts else ()
        self._status = status
        self._item = self._make_item()
        return (*closed, events.OutputItemDone(output_index=self._index, item=self._item))

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
        if len(self._parts) == 1:
            return self._parts[0].written
        return "".join(part.written for part in self._parts) or "".join(delta.text for delta in self._waiting)

    @property
    def checked_text(self) -> str:
        return self.written

    @property
    def item(self) -> OutputMessage:
        return self._make_item() if self._item is None else self._item

    def _make_item(self) -> OutputMessage:
        return OutputMessage(id=self._id, status=self._status, content=[part.part for part in self._parts])


def _repaired(waiting: list[ContentDelta], outcome: CheckOutcome) -> list[ContentDelta]:
    """All text that was buffered as one piece. Tokens of a text that was repaired have no probabilities."""
    texts = [delta for delta in waiting if isinstance(delta, TextDelta)]
    if len(texts) < len(waiting):
        return waiting
    text = "".join(delta.text for delta in texts)
    if outcome.unfinished or outcome.text == text:
        return [TextDelta(text, [logprob for delta in texts for logprob in delta.logprobs or ()])]
    return [TextDelta(outcome.text)]


class CompactionState(MessageState):
    """The summary of a conversation: no deltas; the item is emitted whole and sealed."""

    __slots__ = ("_sealed",)
    prefix: ClassVar[str] = "cmp"

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        return (
            events.OutputItemAdded(output_index=output_index, item=self._to_item("")),
            events.CompactionCompacting(item_id=self._id, output_index=output_index),
        )

    def receive(self, delta: ContentDelta) -> Iterable[Event]:
        self._waiting.append(delta)
        return ()

    def annotate(self, annotations: list[Annotation]) -> Iterable[Event]:
        return ()

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        compacted = CompactedText(self.written, self._style.kept())
        # Half a summary must not replace what it is about: without a seal it replaces nothing.
        self._sealed = self._to_item(self._style.seal(compacted.to_text()) if status == "completed" else "")
        if status == "completed" and self._style.shows_summary:
            self._sealed.summary = compacted.summary
        return (events.OutputItemDone(output_index=self._index, item=self._sealed),)

    def _to_item(self, sealed: str) -> Compaction:
        return Compaction(id=self._id, encrypted_content=sealed)

    @property
    def written(self) -> str:
        return "".join(delta.text for delta in self._waiting)

    @property
    def item(self) -> Compaction:  # type: ignore[override]
        return self._sealed


class FinishedCompaction(CompactionState):
    """A compaction that was made before the answer: it is sealed already."""

    def __init__(self, item: Compaction) -> None:
        super().__init__(item.id, EventOptions())
        self._sealed = item

    def close(self, status: Status) -> Iterable[Event]:
        assert self._index is not None
        return (events.OutputItemDone(output_index=self._index, item=self._sealed),)
