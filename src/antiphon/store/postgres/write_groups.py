"""Groups of records that are put at the same time and share one transaction."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from antiphon.store.protocol import IdTaken
from antiphon.store.records import Record

# The most records in one transaction.
MAX_GROUP_SIZE = 100


class Put(NamedTuple):
    record: Record
    answer: asyncio.Future[None]


class WriteGroups:
    """Puts that arrive while a group is being written form the next group, so no put waits for others to arrive."""

    def __init__(self, write: Callable[[list[Record]], Awaitable[set[str]]]) -> None:
        """`write` takes records with different ids, and returns the ids that existed already."""
        self._write = write
        self._waiting: list[Put] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, record: Record) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Put(record, answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await answer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._next_group())
        finally:
            self._writer = None

    def _next_group(self) -> list[Put]:
        """The first puts, but only one for each id: a second one goes into a later group, which finds the id taken."""
        group: dict[str, Put] = {}
        later = []
        for put in self._waiting:
            if put.answer.done():
                # The caller was cancelled.
                continue
            if len(group) < MAX_GROUP_SIZE and put.record.id not in group:
                group[put.record.id] = put
            else:
                later.append(put)
        self._waiting = later
        return list(group.values())

    async def _write_group(self, group: list[Put]) -> None:
        if not group:
            return
        taken: set[str] = set()
        failure: Exception | None = None
        try:
            taken = await self._write([put.record for put in group])
        except Exception as error:
            failure = error
        for record, answer in group:
            reason = failure or (IdTaken(record.id) if record.id in taken else None)
            if answer.done():
                continue
            if reason is None:
                answer.set_result(None)
            else:
                answer.set_exception(reason)
