"""Following a background response: what has been told of it, and what will be, in one stream.

Numbers only grow, and exactly one terminal event comes, last. A new attempt numbers its events from the beginning: who had seen
events of an earlier one hears of the new one from the next number on. If the new one ended before that number, its terminal
event is told under the next number. So is the end of a response of which there are no events: one that was cancelled before
anybody began it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from msgspec import structs

from antiphon.core.endings import TERMINAL, beginning
from antiphon.core.sse import DONE, event_to_frame
from antiphon.gateway.recorder import record_to_response
from antiphon.store.protocol import Store
from antiphon.store.records import UNFINISHED, Record

# Nothing to a client, but it keeps the connection from being taken for dead.
STILL_HERE = b": still here\n\n"


async def follow(store: Store, record: Record, after: int, heartbeat: float) -> AsyncGenerator[bytes, None]:
    """The frames of its events with numbers above `after`, as they come, to the end."""
    loop = asyncio.get_running_loop()
    spoke = loop.time()
    with store.follow(record.id) as wakeup:
        while True:
            progress = await store.events(record.owner, record.id, after)
            if progress is not None and progress.events:
                after = progress.events[-1].number
                yield b"".join(event.data for event in progress.events)
                spoke = loop.time()
            elif loop.time() - spoke >= heartbeat:
                yield STILL_HERE
                spoke = loop.time()
            if progress is None or progress.status not in UNFINISHED:
                if progress is None or not progress.events:
                    async for frame in _end(store, record, after):
                        yield frame
                break
            if progress.status == "queued" and after < 1:
                yield b"".join(_beginning(record)[after + 1 :])
                after = 1
            await wakeup.wait()
    yield DONE


def _beginning(record: Record) -> list[bytes]:
    """The first events of every attempt, which nobody has begun yet."""
    response = record_to_response(structs.replace(record, status="queued"))
    told = beginning(response)
    for number, event in enumerate(told):
        event.sequence_number = number
    return [event_to_frame(event) for event in told]


async def _end(store: Store, record: Record, after: int) -> AsyncIterator[bytes]:
    """The end, for whom no event of the attempt that counts has told it."""
    whole = await store.events(record.owner, record.id)
    if whole is not None and whole.events and (whole.events[-1].number, whole.attempt) == (after, 1):
        # There was but one attempt, and its last event is known.
        return
    final = await store.get(record.owner, record.id) or structs.replace(record, status="cancelled")
    response = record_to_response(final)
    if after < 1:
        yield b"".join(_beginning(record)[after + 1 :])
        after = 1
    yield event_to_frame(TERMINAL[response.status](response=response, sequence_number=after + 1))


async def ended(store: Store, owner: str, id: str, patience: float) -> Record | None:
    """The response when it has come to its end, or as it is after so many seconds. None: there is none."""
    with store.follow(id) as wakeup, suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while (record := await store.get(owner, id)) is not None and record.status in UNFINISHED:
                await wakeup.wait()
            return record
    return await store.get(owner, id)
