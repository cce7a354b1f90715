"""What one attempt at a background response leaves in the store."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import structs

from antiphon.errors import StoreUnavailable
from antiphon.gateway.recorder import Item, Keeper
from antiphon.settings import Settings
from antiphon.store.protocol import Store
from antiphon.store.records import Event, Job, Record
from antiphon.store.records import Item as StoredItem
from antiphon.wire.responses import CreateResponse, Response

# Events are written together, so often in seconds. Who follows a response hears of them when they are durable.
EVERY = 0.05
# An engine that is faster than the store waits for it once so many bytes are not written yet.
MOST_UNWRITTEN = 256 * 1024
# How soon a store that did not answer is asked again.
ASK_AGAIN = 0.5


class Lost(Exception):
    """Another worker has the response now, or nobody wants it any more: this attempt is void."""


class Journal(Keeper):
    """The keeper of an attempt, and its sink: events are kept as they come, the last of them together with the response."""

    def __init__(self, store: Store, settings: Settings, request: CreateResponse, job: Job, worker: str) -> None:
        super().__init__(store, settings, job.record.owner, request, job.record.id)
        self.created_at = job.record.created_at
        self._job = job
        self._worker = worker
        self._lease = settings.background_lease
        self._count = 0
        self._unwritten: list[Event] = []
        self._weight = 0
        self._something = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()
        self._writing = asyncio.Lock()
        # Its end has been told, or cannot be.
        self.closed = False
        self.finished = False

    async def read(self, own: Sequence[Item], *, takes_turn: bool = True) -> list[Item]:
        earlier = await super().read(own, takes_turn=takes_turn)
        # The ids of its items were given when it was queued.
        self._input = msgspec.json.decode(self._job.record.input)
        return earlier

    def lost(self) -> Lost:
        """Nothing more is written; and the turn in the conversation is the next attempt's, which has the same name."""
        self.closed = True
        self._held = False
        return Lost()

    # ---- events ------------------------------------------------------------------------------------------------------

    def write(self, events: Sequence[bytes]) -> bool:
        if self.closed:
            return False
        for event in events:
            self._unwritten.append(Event(self._count, event))
            self._count += 1
            self._weight += len(event)
        self._something.set()
        self._nothing.clear()
        return self._weight > MOST_UNWRITTEN

    async def drain(self) -> None:
        await self._nothing.wait()

    async def keep_writing(self) -> None:
        while True:
            await self._something.wait()
            await asyncio.sleep(EVERY)
            async with self._writing:
                await self._append(self._take())

    def _take(self) -> list[Event]:
        events, self._unwritten, self._weight = self._unwritten, [], 0
        self._something.clear()
        return events

    async def _append(self, events: list[Event]) -> None:
        id, attempt = self.response_id, self._job.attempt
        if events and not await self._insist(lambda: self._store.append_events(id, self._worker, attempt, events)):
            raise self.lost()
        if not self._unwritten:
            self._nothing.set()

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def keep(self, response: Response, last: Sequence[bytes]) -> None:
        await self._finish(self.record(response), self._said(response), last)

    async def keep_unmade(self, response: Response, last: Sequence[bytes]) -> None:
        """The end of a response that nobody began to make: what was queued stays as it was, readable or not."""
        settings = msgspec.json.encode(response)
        record = structs.replace(
            self._job.record, status=response.status, expires_at=self._expires_at(), output=b"[]", settings=settings
        )
        await self._finish(record, (), last)

    async def _finish(self, record: Record, items: Sequence[StoredItem], last: Sequence[bytes]) -> None:
        async with self._writing:
            self.write(last)
            self.closed = True
            events = self._take()
            self._nothing.set()
            work = (record, self._worker, self._job.attempt, events, items)
            if not await self._insist(lambda: self._store.finish(*work)):
                raise self.lost()
            # Its turn in the conversation was given back with it.
            self._held = False
            self.finished = True

    async def _insist(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """A store that is away for less than a lease costs nothing. What it did all the same, it does not do twice."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lease
        while True:
            try:
                return await work()
            except StoreUnavailable:
                if loop.time() >= until:
                    raise
            await asyncio.sleep(ASK_AGAIN)
