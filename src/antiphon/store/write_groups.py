"""Records that are put at once, gathered into one transaction."""

import asyncio
from collections.abc import Awaitable, Callable

from antiphon.store.protocol import IdTaken
from antiphon.store.records import Record

# So many records share a transaction at most.
GROUP = 100


class Gathering:
    """While one group is written, the next one gathers: nobody waits for others to come."""

    def __init__(self, write: Callable[[list[Record]], Awaitable[set[str]]]) -> None:
        # Writes records of different ids, and says which ids were there already.
        self._write = write
        self._waiting: list[tuple[Record, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, record: Record) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, answer))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await answer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._next_group())
        finally:
            self._writing = None

    def _next_group(self) -> list[tuple[Record, asyncio.Future[None]]]:
        """The first ones, but of each id one: a later one of the same id is refused by itself."""
        group: dict[str, tuple[Record, asyncio.Future[None]]] = {}
        later = []
        for put in self._waiting:
            if put[1].done():
                # Whoever asked is gone.
                continue
            if len(group) < GROUP and put[0].id not in group:
                group[put[0].id] = put
            else:
                later.append(put)
        self._waiting = later
        return list(group.values())

    async def _write_group(self, group: list[tuple[Record, asyncio.Future[None]]]) -> None:
        if not group:
            return
        taken: set[str] = set()
        failure: Exception | None = None
        try:
            taken = await self._write([record for record, _ in group])
        except Exception as error:
            failure = error
        for record, answer in group:
            refusal = failure or (IdTaken(record.id) if record.id in taken else None)
            if answer.done():
                continue
            if refusal is None:
                answer.set_result(None)
            else:
                answer.set_exception(refusal)
