"""A background response as it is now: while it runs, with its output so far."""

import asyncio
from collections.abc import Iterable

from msgspec import structs

from antiphon.background.followers import long_event, read_again
from antiphon.core.lifecycle import output_text
from antiphon.core.output_so_far import OutputSoFar
from antiphon.core.stored_events import frame_to_event
from antiphon.errors import NotFound
from antiphon.gateway.record_format import record_to_response
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Event, Progress, Record
from antiphon.wire.responses import Response


async def current_response(store: Store, record: Record) -> Response | None:
    """None: it was deleted."""
    if record.status != "in_progress":
        return record_to_response(record)
    progress, output = await _read_output(store, record)
    if progress is not None and progress.status in UNFINISHED:
        response = record_to_response(structs.replace(record, status=progress.status))
        response.output = await asyncio.to_thread(output.items)
        response.output_text = output_text(response.output)
        return response
    # It has ended since the record was read, or its owner's key has got a name.
    latest = await read_again(store, record.owner, record.id)
    if latest is not None and latest.owner != record.owner:
        return await current_response(store, latest)
    return record_to_response(latest) if latest is not None else None


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
        if events := await _events(store, record, progress):
            after = events[-1].number
            # A large page takes a while: others are served meanwhile.
            await asyncio.to_thread(_add, output, events)
        if not progress.more:
            return progress, output


async def _events(store: Store, record: Record, progress: Progress) -> list[Event]:
    """Those of a page, or a long one. None of them, if it was deleted since: what is read next says why."""
    if progress.long is None:
        return progress.events
    try:
        return [await long_event(store, record, progress.long)]
    except NotFound:
        return []


def _add(output: OutputSoFar, stored: Iterable[Event]) -> None:
    for each in stored:
        if (event := frame_to_event(each.data)) is not None:
            output.add(event)
