"""Batches as their owners make, see and stop them."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from antiphon.errors import BodyTooLarge, InvalidRequest, RateLimited, counted, quoted
from antiphon.files.batches.objects import WINDOW, batch_to_object, not_found
from antiphon.files.contents import in_thread
from antiphon.files.library import FileLibrary
from antiphon.files.readers.batch_lines import MESSAGES_ENDPOINT
from antiphon.store.files import batches as operations
from antiphon.store.files.records import BatchDetails, BatchTimes, FileRecord, RequestBatch
from antiphon.store.operations import Operation
from antiphon.store.protocol import FileStore
from antiphon.store.sql.listings import RowPage
from antiphon.wire.batches import BATCH_ENDPOINTS, Batch, CreateBatch, MessageRequest

DAY = 86_400
# Of the requests of a batch of messages: the name of their file, seconds after which it expires, how many are written at once.
INPUT_NAME, FILE_LIFE, ENCODED_AT_ONCE = "message_batch.jsonl", 2 * DAY, 100
# What an input file must have been uploaded for.
PURPOSE = "batch"
WRONG_PURPOSE = "The file {id} was uploaded for {purpose}: the input of a batch must be uploaded with the purpose batch."
TOO_LARGE = "The input file has {size}, and may have {most} (`batches.max_bytes`)."
TOO_MANY = "This key may have {most} unfinished batches, and no more (`batches.per_key`). Try again when one has ended."


class BatchLimits(NamedTuple):
    """`lines`, `bytes`: of an input file. `unfinished`: batches of one owner. `retention`: of a batch, in seconds."""

    lines: int
    bytes: int
    unfinished: int
    retention: int


class Listed(NamedTuple):
    batches: list[Batch]
    has_more: bool


class Batches:
    """What belongs to another owner is not found."""

    def __init__(self, stored: FileStore, library: FileLibrary, limits: BatchLimits, new_id: Callable[[str], str]) -> None:
        self._stored = stored
        self._database = stored.database
        self._library = library
        self._limits = limits
        self._new_id = new_id

    def _now(self) -> int:
        return int(self._database.clock())

    async def create(self, owner: str, body: CreateBatch) -> Batch:
        _check(body)
        file = await self._input(owner, body.input_file_id)
        # Its output would have no room.
        await self._library.check_room(owner)
        expiry = body.output_expires_after
        details = BatchDetails(
            times=BatchTimes(), metadata=body.metadata, output_life=None if expiry is None else expiry.seconds
        )
        return batch_to_object(await self._add(owner, file, body.endpoint, details))

    async def _input(self, owner: str, id: str) -> FileRecord:
        file = await self._library.get(owner, id)
        if file is None:
            raise _invalid("input_file_id", f"There is no file {quoted(id)}.", "file_not_found")
        if file.purpose != PURPOSE:
            raise _invalid("input_file_id", WRONG_PURPOSE.format(id=quoted(id), purpose=file.purpose), "invalid_purpose")
        if file.size > (most := self._limits.bytes):
            size, words = counted(file.size, "byte"), counted(most, "byte")
            raise BodyTooLarge(TOO_LARGE.format(size=size, most=words), param="input_file_id", code="file_too_large")
        return file

    async def _add(
        self, owner: str, file: FileRecord, endpoint: str, details: BatchDetails, *, prefix: str = "batch", total: int = 0
    ) -> RequestBatch:
        """`total`: the number of its lines, if that is known."""
        now = self._now()
        batch = RequestBatch(
            id=self._new_id(prefix),
            owner=owner,
            created_at=now,
            expires_at=now + DAY,
            kept_until=now + DAY + self._limits.retention,
            endpoint=endpoint,
            status="validating",
            input_file=file.id,
            total=total,
            details=details,
        )
        if not await self._database.write(operations.create(batch, self._limits.unfinished)):
            raise RateLimited(TOO_MANY.format(most=self._limits.unfinished), code="too_many_batches")
        return batch

    async def get(self, owner: str, id: str) -> Batch:
        return batch_to_object(self._found(id, await self._database.read(operations.get(owner, id, self._now()))))

    async def cancel(self, owner: str, id: str) -> Batch:
        return batch_to_object(self._found(id, await self._database.write(operations.cancel(owner, id, self._now()))))

    async def list(self, owner: str, page: RowPage) -> Listed:
        listed = operations.list_batches(owner, page, self._now(), endpoint=MESSAGES_ENDPOINT, is_endpoint=False)
        found = await self._database.read(listed)
        return Listed([batch_to_object(each) for each in found.batches], found.has_more)

    def _found(self, id: str, batch: RequestBatch | None) -> RequestBatch:
        if batch is None or batch.endpoint == MESSAGES_ENDPOINT:
            raise not_found(id)
        return batch

    # ---- batches of messages -----------------------------------------------------------------------------------------

    async def create_messages(self, owner: str, requests: Sequence[MessageRequest]) -> RequestBatch:
        if len(requests) > (most := self._limits.lines):
            problem = f"A batch may have {counted(most, 'request')} (`batches.max_lines`)."
            raise InvalidRequest(problem, param="requests", code="too_many_lines")
        twice = next((id for id, count in Counter(each.custom_id for each in requests).items() if count > 1), None)
        if twice is not None:
            problem = f"Each `custom_id` must be unique. This one is not: {quoted(twice)}."
            raise InvalidRequest(problem, param="requests", code="duplicate_custom_id")
        file = await self._library.create(owner, INPUT_NAME, PURPOSE, _lines(requests), expires_after=FILE_LIFE)
        details = BatchDetails(times=BatchTimes())
        try:
            return await self._add(owner, file, MESSAGES_ENDPOINT, details, prefix="msgbatch", total=len(requests))
        except BaseException:
            await self._library.delete(owner, file.id)
            raise

    async def get_messages(self, owner: str, id: str) -> RequestBatch:
        return _of_messages(id, await self._database.read(operations.get(owner, id, self._now())))

    async def cancel_messages(self, owner: str, id: str) -> RequestBatch:
        return _of_messages(id, await self._database.write(operations.cancel(owner, id, self._now())))

    async def list_messages(self, owner: str, page: RowPage) -> operations.ListedBatches:
        listed = operations.list_batches(owner, page, self._now(), endpoint=MESSAGES_ENDPOINT, is_endpoint=True)
        return await self._database.read(listed)

    async def delete_messages(self, owner: str, id: str) -> None:
        """With its results. Raises InvalidRequest if it has not ended."""
        batch = await self.get_messages(owner, id)
        if not await self._database.write(operations.remove(owner, id)):
            raise InvalidRequest(f"The batch {quoted(id)} has not ended: cancel it first.", code="batch_not_ended")
        for file in filter(None, (batch.output_file, batch.input_file)):
            await self._library.delete(batch.owner, file)

    async def owner_of(self, id: str) -> str | None:
        return await self._database.read(operations.owner_of(id, self._now())) if self._stored.is_used() else None

    async def move_owner(self, earlier: str, owner: str) -> int:
        """Gives all batches of an owner to another one. Returns how many."""
        count = 0
        while self._stored.is_used() and (moved := await self._write(operations.move(earlier, owner))):
            count += moved
        return count

    async def sweep(self) -> int:
        """Removes what batches that have ended have left, and those whose time is over. Returns how many."""
        if not self._stored.is_used():
            return 0
        while ended := await self._database.read(operations.with_leftovers()):
            for batch in ended:
                while await self._write(operations.remove_some(batch.id)):
                    pass
                if batch.endpoint == MESSAGES_ENDPOINT:
                    # Its owner has not uploaded it.
                    await self._library.delete(batch.owner, batch.input_file)
                await self._database.write(operations.without_lines(batch.id))
        return await self._write(operations.sweep(self._now()))

    async def _write(self, operation: Operation[int] | Operation[bool]) -> int:
        return int(await self._database.write(operation))


def _of_messages(id: str, batch: RequestBatch | None) -> RequestBatch:
    if batch is None or batch.endpoint != MESSAGES_ENDPOINT:
        raise not_found(id)
    return batch


async def _lines(requests: Sequence[MessageRequest]) -> AsyncIterator[bytes]:
    """The input file of a batch whose requests came in one body."""
    for first in range(0, len(requests), ENCODED_AT_ONCE):
        some = requests[first : first + ENCODED_AT_ONCE]
        yield await in_thread(lambda some=some: b"".join(msgspec.json.encode(each) + b"\n" for each in some))  # type: ignore[misc]


def _check(body: CreateBatch) -> None:
    if body.endpoint not in BATCH_ENDPOINTS:
        allowed = ", ".join(BATCH_ENDPOINTS)
        raise _invalid("endpoint", f"Invalid `endpoint`: it must be one of: {allowed}. It is {quoted(body.endpoint)}.")
    if body.completion_window != WINDOW:
        problem = f"Invalid `completion_window`: it must be {WINDOW}. It is {quoted(body.completion_window)}."
        raise _invalid("completion_window", problem)


def _invalid(param: str, message: str, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(message, param=param, code=code)
