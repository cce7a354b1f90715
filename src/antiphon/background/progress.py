"""A background response as it is now: while it runs, with the output that its events have told of so far.

The store keeps every event, so that any gateway can tell. Items follow one another, and come whole when they are done: only the
last one can be open, and is put together of what was told of it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from antiphon.gateway.recorder import record_to_response
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Event, Record
from antiphon.wire.responses import OutputItem, Response

Item = dict[str, Any]
# Names of members, and of the event's fields that tell a place in a list.
Way = tuple[str, ...]


class Beginning(NamedTuple):
    """Where a part of the open item begins, and the field of the event that holds it."""

    way: Way
    holds: str


ITEMS = frozenset({"response.output_item.added", "response.output_item.done"})
BEGINNINGS: dict[str, Beginning] = {
    "response.content_part.added": Beginning(("content", "content_index"), "part"),
    "response.reasoning_summary_part.added": Beginning(("summary", "summary_index"), "part"),
    "response.shell_call_command.added": Beginning(("action", "commands", "command_index"), "command"),
}
# Event → what of the open item goes on with its `delta`. What is said at the end of a part was told in its deltas.
DELTAS: dict[str, Way] = {
    "response.output_text.delta": ("content", "content_index", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "text"),
    "response.reasoning.delta": ("content", "content_index", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "text"),
    "response.function_call_arguments.delta": ("arguments",),
    "response.custom_tool_call_input.delta": ("input",),
    "response.shell_call_command.delta": ("action", "commands", "command_index"),
}

_decode = msgspec.json.Decoder(dict[str, Any]).decode


async def as_it_is(store: Store, record: Record) -> Response | None:
    """None: it is gone."""
    if record.status != "in_progress":
        return record_to_response(record)
    progress = await store.events(record.owner, record.id)
    if progress is not None and progress.status in UNFINISHED:
        response = record_to_response(structs.replace(record, status=progress.status))
        # A long one takes a while, in which others are served.
        response.output = await asyncio.to_thread(output_so_far, progress.events)
        return response
    # It has ended since the record was read.
    ended = await store.get(record.owner, record.id)
    return record_to_response(ended) if ended is not None else None


def output_so_far(told: Iterable[Event]) -> list[OutputItem]:
    items: list[Item] = []
    # What was told of the last item; not even read if that is done.
    since: list[tuple[str, bytes]] = []
    for event in told:
        head, _, data = event.data.partition(b"\ndata: ")
        kind = head.removeprefix(b"event: ").decode()
        if kind in ITEMS:
            placed = _decode(data)
            items[placed["output_index"] :] = [placed["item"]]
            since.clear()
        elif kind in DELTAS or kind in BEGINNINGS:
            since.append((kind, data))
    if items:
        _tell(items[-1], since)
    return msgspec.convert(items, list[OutputItem])


def _tell(item: Item, since: Sequence[tuple[str, bytes]]) -> None:
    """Pieces are joined at the end, so that a long text is copied once."""
    pieces: defaultdict[tuple[str | int, ...], list[str]] = defaultdict(list)
    for kind, data in since:
        event = _decode(data)
        if (begins := BEGINNINGS.get(kind)) is not None:
            _begin(item, _steps(begins.way, event), event[begins.holds])
            continue
        steps = _steps(DELTAS[kind], event)
        pieces[steps].append(event["delta"])
        if probabilities := event.get("logprobs"):
            _inside(item, steps)["logprobs"] += probabilities
    for steps, texts in pieces.items():
        _inside(item, steps)[steps[-1]] += "".join(texts)


def _steps(way: Way, event: dict[str, Any]) -> tuple[str | int, ...]:
    return tuple(event[step] if step.endswith("_index") else step for step in way)


def _begin(item: Item, steps: tuple[str | int, ...], part: Any) -> None:
    if steps[0] not in item:
        item[str(steps[0])] = []
    parts, place = _inside(item, steps), int(steps[-1])
    # Commands that are empty are not told of.
    parts += [""] * (place - len(parts)) + [part]


def _inside(item: Item, steps: tuple[str | int, ...]) -> Any:
    """What holds the last of the steps."""
    holder: Any = item
    for step in steps[:-1]:
        holder = holder[step]
    return holder
