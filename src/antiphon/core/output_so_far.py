"""The output of a response that still runs, put together from its events.

Items follow one another, and are whole when they are done. Only the last one can be open: it is completed by the deltas that
came since it was added.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import OutputItem

Item = dict[str, Any]
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
    events.FunctionCallArgumentsDelta: lambda event: ("arguments",),
    events.CustomToolCallInputDelta: lambda event: ("input",),
    events.ShellCallCommandDelta: lambda event: ("action", "commands", event.command_index),
}


def output_so_far(emitted: Iterable[Event | None]) -> list[OutputItem]:
    items: list[OutputItem] = []
    since: list[Event] = []
    for event in emitted:
        if isinstance(event, events.OutputItemAdded | events.OutputItemDone):
            items[event.output_index :] = [event.item]
            since.clear()
        elif event is not None:
            since.append(event)
    if items and since:
        items[-1] = _continued(items[-1], since)
    return items


def _continued(item: OutputItem, since: Iterable[Event]) -> OutputItem:
    """Pieces are joined at the end, so that a long text is copied once."""
    built: Item = msgspec.to_builtins(item)
    pieces: defaultdict[Path, list[str]] = defaultdict(list)
    for event in since:
        if (part := PARTS.get(type(event))) is not None:
            _begin(built, *part(event))
        elif (path_of := DELTAS.get(type(event))) is not None:
            path = path_of(event)
            pieces[path].append(_delta(event))
            if isinstance(event, events.OutputTextDelta) and event.logprobs:
                _inside(built, path[:-1])["logprobs"] += msgspec.to_builtins(event.logprobs)
    for path, texts in pieces.items():
        _inside(built, path[:-1])[path[-1]] += "".join(texts)
    whole: OutputItem = msgspec.convert(built, OutputItem)
    return whole


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
