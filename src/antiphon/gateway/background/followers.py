"""Following a background response: the events that there are, and those to come, in one stream.

Numbers only grow, and exactly one terminal event comes, last. A new attempt numbers its events from the beginning: a client
that has seen events of an earlier one gets those of the new one from the next number on. If the new one ended before that
number, its terminal event gets the next number. So does the end of a response without events: one that was cancelled before
any worker had begun it. A client that asks for what comes after the end gets nothing more.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from msgspec import structs

from antiphon.core.events.encode import event_to_frame
from antiphon.core.events.lifecycle import Numbering, opening_events, terminal_event
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.errors import NotFound
from antiphon.gateway.state.record_format import record_to_response
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, LongEventPlace, Record

# The number of the terminal event of a response that was never begun: its first two events come before any attempt.
END_WITHOUT_ATTEMPT = 2
# How much of a long event is read at once, in bytes. None of its parts is only the end of its frame: a parser may drop it.
PART_BYTES = 512 * 1024
SMALLEST_PART = 1024


async def follow(
    store: Store, record: Record, after: int, heartbeat: float, *, whole: bool = False
) -> AsyncGenerator[bytes, None]:
    """The bytes of its events with numbers above `after`, as they come, to the end. A page of them is read only when the
    client has taken the one before. `whole`: parts of a long event are of no use to the caller."""
    loop, encoder = asyncio.get_running_loop(), RESPONSES.encoder()
    last_sent = loop.time()
    with store.follow(record.id) as wakeup:
        while True:
            progress = await store.events(record.owner, record.id, after)
            if progress is None and (owner := await store.owner_of(record.id)) is not None:
                # Its owner's key has got a name.
                record = structs.replace(record, owner=owner)
                progress = await store.events(owner, record.id, after)
            has_events = progress is not None and bool(progress.events)
            if progress is not None and progress.long is not None:
                after = progress.long.number
                if whole:
                    yield bytes(await long_event(store, record, progress.long))
                else:
                    async for part in _parts(store, record, progress.long):
                        yield part
                last_sent = loop.time()
            elif progress is not None and progress.events:
                after = progress.events[-1].number
                frames = b"".join(event.data for event in progress.events)
                # A client that reads slowly makes this wait for long: only what it is sent is kept meanwhile.
                progress = structs.replace(progress, events=[])
                yield frames
                del frames
                last_sent = loop.time()
            elif loop.time() - last_sent >= heartbeat:
                yield encoder.heartbeat()
                last_sent = loop.time()
            if progress is not None and progress.more:
                continue
            if progress is None or progress.status not in UNFINISHED:
                if not has_events:
                    async for frame in _end(store, record, after):
                        yield frame
                break
            if progress.status == "queued" and after < 1:
                yield b"".join(_opening(record)[after + 1 :])
                after = 1
            await wakeup.wait()
    yield b"".join(encoder.end)


async def long_event(store: Store, record: Record, place: LongEventPlace) -> bytearray:
    """The bytes of a long event. Raises NotFound: it was deleted."""
    whole = bytearray()
    async for part in _parts(store, record, place):
        whole += part
    return whole


async def _parts(store: Store, record: Record, place: LongEventPlace) -> AsyncIterator[bytes]:
    """A long event. Its next part is read when the client has taken the one before."""
    id, owner, start = record.id, record.owner, 0
    while start < place.size:
        rest = place.size - start
        size = rest if rest < PART_BYTES + SMALLEST_PART else PART_BYTES
        part = await store.event_part(owner, id, place, start, size)
        if not part and (owner := await store.owner_of(id) or owner) != record.owner:
            # Its owner's key has got a name.
            part = await store.event_part(owner, id, place, start, size)
        if not part:
            raise NotFound(f"Event {place.number} of {id!r} was deleted while it was sent.", code="event_deleted")
        start += len(part)
        yield part


def _opening(record: Record) -> list[bytes]:
    """The first events of every attempt, before any worker has begun."""
    response = record_to_response(structs.replace(record, status="queued"))
    numbering = Numbering()
    return [event_to_frame(numbering.number(event)) for event in opening_events(response)]


async def _end(store: Store, record: Record, after: int) -> AsyncIterator[bytes]:
    """The end, for a client that has not got it from an event of the current attempt."""
    if await _has_end(store, record, after):
        return
    final = await store.get(record.owner, record.id) or structs.replace(record, status="cancelled")
    if after < 1:
        yield b"".join(_opening(record)[after + 1 :])
        after = 1
    yield event_to_frame(Numbering(after + 1).number(terminal_event(record_to_response(final))))


async def _has_end(store: Store, record: Record, after: int) -> bool:
    """Whether a client that asks for the events after this one, of which there are none, has the last one, or claims so.
    Numbers of several attempts cannot be compared."""
    first = await store.events(record.owner, record.id, most_bytes=1)
    if first is None:
        return False
    if first.attempt == 0:
        # It was cancelled before any worker had begun it.
        return after >= END_WITHOUT_ATTEMPT
    return first.attempt == 1 and (bool(first.events) or first.long is not None)


async def ended(store: Store, owner: str, id: str, patience: float) -> Record | None:
    """The response when it has ended, or as it is after so many seconds. None: there is none."""
    with store.follow(id) as wakeup, suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while (record := await read_again(store, owner, id)) is not None and record.status in UNFINISHED:
                await wakeup.wait()
            return record
    return await read_again(store, owner, id)


async def read_again(store: Store, owner: str, id: str) -> Record | None:
    """A response that was this owner's when it was read before: the owner's key may have got a name since."""
    record = await store.get(owner, id)
    if record is None and (named := await store.owner_of(id)) is not None:
        return await store.get(named, id)
    return record
