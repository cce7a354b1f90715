"""A background response as it is now: while it runs, with its output so far."""

import asyncio
from collections.abc import Iterable

from msgspec import structs

from antiphon.core.lifecycle import output_text
from antiphon.core.output_so_far import output_so_far
from antiphon.core.stored_events import frame_to_event
from antiphon.gateway.record_format import record_to_response
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Event, Record
from antiphon.wire.responses import OutputItem, Response


async def current_response(store: Store, record: Record) -> Response | None:
    """None: it was deleted."""
    if record.status != "in_progress":
        return record_to_response(record)
    progress = await store.events(record.owner, record.id)
    if progress is not None and progress.status in UNFINISHED:
        response = record_to_response(structs.replace(record, status=progress.status))
        # A long one takes a while: others are served meanwhile.
        response.output = await asyncio.to_thread(stored_output, progress.events)
        response.output_text = output_text(response.output)
        return response
    # It has ended since the record was read.
    ended = await store.get(record.owner, record.id)
    return record_to_response(ended) if ended is not None else None


def stored_output(stored: Iterable[Event]) -> list[OutputItem]:
    return output_so_far(frame_to_event(event.data) for event in stored)
