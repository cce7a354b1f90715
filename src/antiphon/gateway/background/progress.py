"""A background response as it is now: while it runs, with its output so far."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from msgspec import structs

from antiphon.core.events.lifecycle import output_text
from antiphon.core.events.stored import TYPES, OutputSoFar, frame_to_event, frame_type
from antiphon.errors import NotFound
from antiphon.gateway.background.followers import long_event, read_again
from antiphon.gateway.limits.threads import LARGE_BODY, run_aside
from antiphon.gateway.state.record_format import record_to_response
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Progress, Record
from antiphon.wire.responses import Response

# The bytes of a frame that have the type of its event.
LONGEST_NAME = 256


class Page(NamedTuple):
    """The frames that were read, and the number of the last one. None: there was none."""

    last: int | None
    frames: Sequence[bytes | bytearray]


async def current_response(store: Store, record: Record) -> Response | None:
    """None: it was deleted."""
    if record.status != "in_progress":
        return await _to_response(record)
    progress, output = await _read_output(store, record)
    if progress is not None and progress.status in UNFINISHED:
        response = await _to_response(structs.replace(record, status=progress.status))
        response.output = await asyncio.to_thread(output.items)
        response.output_text = output_text(response.output)
        return response
    # It has ended since the record was read, or its owner's key has got a name.
    latest = await read_again(store, record.owner, record.id)
    if latest is not None and latest.owner != record.owner:
        return await current_response(store, latest)
    return await _to_response(latest) if latest is not None else None


async def _to_response(record: Record) -> Response:
    return await run_aside(partial(record_to_response, record), large=is_large_record(record))


def is_large_record(record: Record) -> bool:
    return len(record.output) + len(record.settings) >= LARGE_BODY


async def _read_output(store: Store, record: Record) -> tuple[Progress | None, OutputSoFar]:
    """Page by page: all events of a long answer are many times as large as its text."""
    output, attempt, after = OutputSoFar(), None, -1
    while True:
        progress = await store.events(record.owner, record.id, after)
        if progress is None or progress.status not in UNFINISHED:
            return progress, output
        if attempt != progress.attempt and after >= 0:
            # Another attempt has begun, and its events with it.
            output, attempt, after = OutputSoFar(), None, -1
            continue
        attempt = progress.attempt
        page = await _page(store, record, progress)
        if page.last is not None:
            after = page.last
            # A large page takes a while: others are served meanwhile.
            await asyncio.to_thread(_add, output, page.frames)
        if not progress.more:
            return progress, output


async def _page(store: Store, record: Record, progress: Progress) -> Page:
    """What was read: a page of events, or a long one. Nothing, if it was deleted since: what is read next says why."""
    if (place := progress.long) is None:
        return Page(progress.events[-1].number if progress.events else None, [event.data for event in progress.events])
    beginning = await store.event_part(record.owner, record.id, place, 0, LONGEST_NAME)
    if beginning is not None and frame_type(beginning) not in TYPES:
        # What it repeats is known already.
        return Page(place.number, [])
    with suppress(NotFound):
        return Page(place.number, [await long_event(store, record, place)])
    return Page(None, [])


def _add(output: OutputSoFar, frames: Iterable[bytes | bytearray]) -> None:
    for frame in frames:
        if (event := frame_to_event(frame)) is not None:
            output.add(event)
