"""The output of a response that still runs, put together from its events.

Items follow one another, and are whole when they are done. Only the last one can be open: it is completed by the deltas that
came since it was added.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.errors import UNREADABLE
from antiphon.wire import events
from antiphon.wire.events import Event, StreamEvent
from antiphon.wire.input_items import Item
from antiphon.wire.responses import OutputItem

# The members that lead to a text inside an item: names, and indexes of lists.
Path = tuple[str | int, ...]

# Event that adds a part → the list that the part belongs to, its index there, and the part.
PARTS: dict[type[Event], Callable[[Any], tuple[Path, int, Any]]] = {
    events.ContentPartAdded: lambda event: (("content",), event.content_index, msgspec.to_builtins(event.part)),
    events.ReasoningSummaryPartAdded: lambda event: (("summary",), event.summary_index, msgspec.to_builtins(event.part)),
    events.OutputTextAnnotationAdded: lambda event: (
        ("content", event.content_index, "annotations"),
        event.annotation_index,
        event.annotation,
    ),
    events.ShellCallCommandAdded: lambda event: (("action", "commands"), event.command_index, event.command),
}
# Delta event → the text of the open item that it continues.
DELTAS: dict[type[Event], Callable[[Any], Path]] = {
    events.OutputTextDelta: lambda event: ("content", event.content_index, "text"),
    events.RefusalDelta: lambda event: ("content", event.content_index, "refusal"),
    events.ReasoningTextDelta: lambda event: ("content", event.content_index, "text"),
    events.ReasoningDelta: lambda event: ("content", event.content_index, "text"),
    events.ReasoningSummaryTextDelta: lambda event: ("summary", event.summary_index, "text"),
    events.ShellCallCommandDelta: lambda event: ("action", "commands", event.command_index),
    **{delta: lambda event: (event.CONTINUES,) for delta in events.CALL_DELTAS},
}

# Events that have an item, as it is then.
ITEMS = (events.OutputItemAdded, events.OutputItemDone)
# The types of the events that say something about the output. The others repeat it.
_USED: tuple[type[Event], ...] = (*PARTS, *DELTAS, *ITEMS)
TYPES = frozenset(str(kind.__struct_config__.tag) for kind in _USED)

# How many pieces of a text are kept one by one.
JOINED_PIECES = 4096


class OutputSoFar:
    """`add()` each event, then ask for the `items()`."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        # The last item, once an event has continued it; and its texts, by where they are in it.
        self._open: Item | None = None
        self._texts: defaultdict[Path, LongText] = defaultdict(LongText)

    def add(self, event: Event) -> None:
        if isinstance(event, ITEMS):
            self._items[event.output_index :] = [event.item]
            self._open = None
            self._texts.clear()
        elif self._items and (part := PARTS.get(type(event))) is not None:
            _begin(self._opened(), *part(event))
        elif self._items and (path_of := DELTAS.get(type(event))) is not None:
            path = path_of(event)
            self._texts[path].add(_delta(event))
            if isinstance(event, events.OutputTextDelta) and event.logprobs:
                _inside(self._opened(), path[:-1])["logprobs"] += msgspec.to_builtins(event.logprobs)

    def _opened(self) -> Item:
        if self._open is None:
            self._open = msgspec.to_builtins(self._items[-1])
        return self._open

    def items(self) -> list[OutputItem]:
        if self._open is None and not self._texts:
            return self._items
        whole = self._opened()
        for path, text in self._texts.items():
            _inside(whole, path[:-1])[path[-1]] += text.whole()
        last: OutputItem = msgspec.convert(whole, OutputItem)
        return [*self._items[:-1], last]


class LongText:
    """A text from its pieces. Those that came are joined from time to time: a small piece takes several times its length."""

    __slots__ = ("_joined", "_pieces")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        if len(self._pieces) >= JOINED_PIECES:
            self._joined.append("".join(self._pieces))
            self._pieces.clear()

    def whole(self) -> str:
        return "".join([*self._joined, *self._pieces])


def _delta(event: Any) -> str:
    text: str = event.delta
    return text


def _begin(item: Item, path: Path, index: int, part: Any) -> None:
    holder = _inside(item, path[:-1])
    parts = holder.setdefault(path[-1], [])
    # Commands that are empty have no events.
    parts += [""] * (index - len(parts)) + [part]


def _inside(item: Item, path: Path) -> Any:
    holder: Any = item
    for step in path:
        holder = holder[step]
    return holder


# ---- Stored events: the frames of a stream, as the store keeps them. This is the only place that decodes them --------
# Frames are stored as they are sent, so a follower passes them on unread. What needs the event itself reads it here.

_NAME = b"event: "
_DATA = b"\ndata: "
_END = b"\n\n"
_decode = msgspec.json.Decoder(StreamEvent).decode


def split_frames(frames: bytes) -> list[bytes]:
    return [frame + _END for frame in frames.split(_END)[:-1]]


def frame_type(frame: bytes) -> str:
    """The type of an event, from the beginning of its frame."""
    return frame.partition(b"\n")[0].removeprefix(_NAME).decode(errors="replace")


def frame_to_event(frame: bytes | bytearray) -> Event | None:
    """None: an event that this version does not know. Another version stored it."""
    try:
        # Not copied: it may be long.
        event: Event = _decode(memoryview(frame)[frame.find(_DATA) + len(_DATA) :])
        return event
    except UNREADABLE:
        return None
