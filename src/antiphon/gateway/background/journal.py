"""The recorder and sink of a background response: its events are stored as they come, the last ones with the response."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import structs

from antiphon.core.events.encode import SseEncoder, long_frame
from antiphon.core.events.plain_deltas import AnyEvent, PlainDelta
from antiphon.core.exchange.steps import ToolCall
from antiphon.errors import StoreUnavailable
from antiphon.gateway.limits.threads import LARGE_BODY, run_aside
from antiphon.gateway.state.owners import Owners
from antiphon.gateway.state.record_format import decode_calls, decode_items, encode_call, encode_settings, long_items
from antiphon.gateway.state.recorder import ResponseRecorder, items_to_keep
from antiphon.gateway.webhooks.messages import Webhooks
from antiphon.store.protocol import Store
from antiphon.store.records import Event, Job, LongEvent, Pieces, Record
from antiphon.store.records import Item as StoredItem
from antiphon.wire.events import DeltaEvent
from antiphon.wire.events import Event as WireEvent
from antiphon.wire.input_items import Item
from antiphon.wire.responses import CreateResponse, Response

# Seconds between two writes. Followers get events when they are durable.
WRITE_INTERVAL = 0.05
# An engine that is faster than the store pauses when so many bytes are not written yet.
MOST_UNWRITTEN = 256 * 1024
# A write ends with the event that makes it this large, in bytes: what is read and written at once stays small.
LARGEST_WRITE = 256 * 1024
# What an event counts that is encoded only when it is written, in bytes.
NOMINAL_SIZE = 1024
# Seconds after which a store that did not answer is asked again.
RETRY_INTERVAL = 0.5


# Deltas are encoded at once, other events when they are written.
Unwritten = Event | WireEvent


class Lost(Exception):
    """Another worker has the response now, or it was deleted: this attempt is void."""


class Journal(ResponseRecorder):
    def __init__(
        self,
        store: Store,
        request: CreateResponse,
        job: Job,
        worker: str,
        *,
        retention: int,
        owners: Owners,
        lease: float,
        webhooks: Webhooks,
    ) -> None:
        super().__init__(store, job.record.owner, request, response_id=job.record.id, retention=retention, owners=owners)
        self.created_at = job.record.created_at
        self.begun_calls = decode_calls(job.begun_calls)
        self._job = job
        self._worker = worker
        self._lease = lease
        self._webhooks = webhooks
        self._encoder = SseEncoder()
        self._unwritten: list[Unwritten] = []
        self._unwritten_bytes = 0
        self._has_unwritten = asyncio.Event()
        self._all_written = asyncio.Event()
        self._all_written.set()
        self._writing = asyncio.Lock()
        # Nothing more is written: the end is stored, or cannot be.
        self.closed = False
        self.finished = False

    async def read(self, own: Sequence[Item], *, locks: bool = True, large_body: bool = False) -> list[Item]:
        # Its key may have got a name while it was queued.
        self._owner = await self._owners.settled(self._owner)
        # The ids of its items were given when it was queued.
        stored = self._job.record.input
        self._stored_input = await run_aside(lambda: items_to_keep(decode_items(stored)), large=len(stored) >= LARGE_BODY)
        return await super().read(own, locks=locks, large_body=large_body)

    async def _find_items(self, ids: Sequence[str]) -> dict[str, Item]:
        """What was found when it was queued is kept with it. It may have been deleted elsewhere in the meantime."""
        wanted = set(ids)
        kept = {item["id"]: item for item in self._input if item["id"] in wanted}
        others = [id for id in ids if id not in kept]
        return kept | await super()._find_items(others) if others else kept

    async def begin_call(self, call: ToolCall) -> bool:
        """It is durable before the tool is run."""
        note = partial(self._store.begin_call, self.response_id, self._worker, self._job.attempt, encode_call(call))
        try:
            return await self._retried(note)
        except StoreUnavailable:
            return False

    def lost(self) -> Lost:
        """Nothing more is written. The lock of the conversation belongs to the next attempt, which has the same id."""
        self.closed = True
        self._has_lock = False
        return Lost()

    # ---- events ------------------------------------------------------------------------------------------------------

    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        if self.closed:
            return False
        for event in events:
            if isinstance(event, PlainDelta):
                encoded = self._encode(event)
                self._unwritten.append(encoded)
                self._unwritten_bytes += len(encoded.data)
            else:
                # At the end of an item, each of several events has all of its text: they are encoded one after another.
                self._unwritten.append(event)
                self._unwritten_bytes += NOMINAL_SIZE
        self._has_unwritten.set()
        self._all_written.clear()
        return self._unwritten_bytes > MOST_UNWRITTEN

    async def drain(self) -> None:
        await self._all_written.wait()

    async def keep_writing(self) -> None:
        while True:
            await self._has_unwritten.wait()
            await asyncio.sleep(WRITE_INTERVAL)
            async with self._writing:
                await self._append(self._take())

    def _encode(self, event: AnyEvent) -> Event:
        return Event(event.sequence_number, self._encoder.encode(event))

    def _take(self) -> list[Unwritten]:
        events, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        self._has_unwritten.clear()
        return events

    async def _append(self, events: list[Unwritten]) -> None:
        id, attempt = self.response_id, self._job.attempt
        events.reverse()
        while row := self._next_write(events):
            if not await self._retried(partial(self._store.append_events, id, self._worker, attempt, row)):
                raise self.lost()
            # Before the next ones are encoded.
            del row
        if not self._unwritten:
            self._all_written.set()

    def _next_write(self, backwards: list[Unwritten]) -> Sequence[Event | LongEvent]:
        """The events that are written next, taken from the end of the list: several, or a long one."""
        row: list[Event] = []
        size = 0
        while backwards and size < LARGEST_WRITE:
            event = self._to_stored(backwards[-1])
            if isinstance(event, LongEvent):
                if row:
                    break
                backwards.pop()
                return [event]
            backwards.pop()
            row.append(event)
            size += len(event.data)
        return row

    def _to_stored(self, event: Event | AnyEvent) -> Event | LongEvent:
        if isinstance(event, Event):
            return event
        if not isinstance(event, PlainDelta | DeltaEvent) and (frame := long_frame(event)) is not None:
            return LongEvent(event.sequence_number, frame)
        return self._encode(event)

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def record(self, response: Response, last: Sequence[AnyEvent]) -> None:
        await self._keep_history()
        output = long_items(response.output)
        record = partial(self._to_record_aside, response, None if output is None else output.outline)
        await self._finish(record, partial(self._new_items_aside, response), last, output)

    async def record_not_run(self, response: Response, events: Sequence[AnyEvent]) -> None:
        """The end of a response that was never run: what was queued stays as it was, readable or not."""
        settings = encode_settings(response)
        record = structs.replace(
            self._job.record, status=response.status, expires_at=self._expires_at(), output=b"[]", settings=settings
        )

        async def as_queued() -> Record:
            return record

        async def no_items() -> Sequence[StoredItem]:
            return ()

        await self._finish(as_queued, no_items, events)

    async def _finish(
        self,
        record: Callable[[], Awaitable[Record]],
        items: Callable[[], Awaitable[Sequence[StoredItem]]],
        last: Sequence[AnyEvent],
        output: Pieces | None = None,
    ) -> None:
        """The record, its items and the terminal event are one write. All other events are written before they are made."""
        async with self._writing:
            self.write(last[:-1])
            self.closed = True
            await self._append(self._take())
            self._all_written.set()
            # As it was claimed. The store knows if that owner has another name by now.
            queued = self._job.record
            ended = await record()
            messages = self._webhooks.messages(f"response.{ended.status}", ended.id, self.owner, time.time())
            claimed = structs.replace(ended, owner=queued.owner, kept_after_end=queued.kept_after_end, deliveries=messages)
            work = (claimed, self._worker, self._job.attempt, [self._to_stored(last[-1])], await items(), output)
            if not await self._retried(partial(self._store.finish, *work)):
                raise self.lost()
            # The conversation was unlocked with it.
            self._has_lock = False
            self.finished = True
            if claimed.usage is not None:
                self._usage_stored()

    async def _retried(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """A store that is away for less than a lease does no harm. Work that was done all the same is not done twice."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lease
        while True:
            try:
                return await work()
            except StoreUnavailable:
                if loop.time() >= until:
                    raise
            await asyncio.sleep(RETRY_INTERVAL)
