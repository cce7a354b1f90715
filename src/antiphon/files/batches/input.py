"""The input file of a batch: its lines are read, checked, and put in the order in which they are run.

Lines that begin alike are neighbours, so that the prompt cache of an engine has their beginning: within a window, so that no
more than its lines are in memory.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from antiphon.core.checks.work import LinesWork
from antiphon.errors import counted
from antiphon.files.batches import objects
from antiphon.files.file_inputs import RunCheck
from antiphon.files.library import FileLibrary
from antiphon.files.readers import batch_lines
from antiphon.files.readers.batch_lines import ReadLine, ReadPiece
from antiphon.store.files import batches as operations
from antiphon.store.files.batches import ReadInput
from antiphon.store.files.records import BatchLine, Complaint, FileRecord, LineResult, RequestBatch
from antiphon.store.operations import Database

WINDOW = 10_000
# How many lines are written at once.
WRITTEN_LINES = 500
# How many complaints a batch shows. The error file has all of them.
MOST_SHOWN = 100
# Lines of one batch may name so many models.
MOST_MODELS = 50

GONE = "The input file was deleted, or has expired."
EMPTY = "The input file has no lines."
TOO_MANY = "The input file has more than {most} (`batches.max_lines`)."
TWICE = "The `custom_id` of this line is that of an earlier line, too."
MANY_MODELS = "The lines of a batch may name {most} at most."
SLOW = "The input file could not be read: that takes too long."


class Lost(Exception):
    """The batch was cancelled, or another gateway reads it."""


class Unusable(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.complaint = Complaint(code=code, message=message, param="input_file_id")


class InputLimits(NamedTuple):
    lines: int
    # Of one line, in bytes.
    line: int


class InputReader:
    """Of one batch: `read()`."""

    def __init__(
        self,
        worker: str,
        database: Database,
        library: FileLibrary,
        run_check: RunCheck,
        limits: InputLimits,
        new_id: Callable[[str], str],
    ) -> None:
        """`worker`: of this gateway, which has claimed the batch."""
        self._worker = worker
        self._database = database
        self._library = library
        self._run_check = run_check
        self._limits = limits
        self._new_id = new_id
        # Called before it is written that the batch has failed.
        self.before_failure: Callable[[], Awaitable[None]] | None = None
        # Digests of the custom ids that were seen.
        self._seen: set[bytes] = set()
        self._models: dict[str, None] = {}
        self._errors: list[Complaint] = []
        # How many lines there are, how many of them cannot be run, and how many have their place.
        self._total = self._refused = self._placed = 0
        self._window: list[ReadLine] = []

    async def read(self, batch: RequestBatch, owner: str) -> None:
        """To the point where its lines can be run, or it has failed. `owner`: whose its file is now."""
        try:
            await self._read(batch, owner)
        except Lost:
            return
        except Unusable as unusable:
            if self.before_failure is not None:
                await self.before_failure()
            await self._database.write(operations.fail(self._worker, batch.id, [unusable.complaint], self._now()))
            return
        read = ReadInput(self._total, self._refused, list(self._models), self._errors)
        await self._database.write(operations.begin(self._worker, batch.id, read, self._now()))

    def _now(self) -> int:
        return int(self._database.clock())

    async def _read(self, batch: RequestBatch, owner: str) -> None:
        while await self._database.write(operations.begin_reading(self._worker, batch.id)):
            pass
        found = await self._library.find(owner, [batch.input_file])
        if (record := found.get(batch.input_file)) is None:
            raise Unusable("file_not_found", GONE)
        async with self._library.local_copy(record) as path:
            await self._read_file(batch, record, path)
        await self._flush(batch)
        if not self._total:
            raise Unusable("empty_file", EMPTY)

    async def _read_file(self, batch: RequestBatch, record: FileRecord, path: Path) -> None:
        start = number = 0
        while True:
            work = LinesWork(str(path), start, number, batch.endpoint, self._limits.line)
            piece = await self._piece(work, record.owner)
            self._total += len(piece.lines)
            if self._total > self._limits.lines:
                raise Unusable("too_many_lines", TOO_MANY.format(most=counted(self._limits.lines, "line")))
            for line in piece.lines:
                self._window.append(self._checked(line))
                if len(self._window) >= WINDOW:
                    await self._flush(batch)
            if piece.is_last:
                return
            start, number = piece.next, piece.number

    async def _piece(self, work: LinesWork, owner: str) -> ReadPiece:
        outcome = await self._run_check(work, owner, patient=True)
        if outcome.unfinished:
            raise Unusable("server_error", SLOW)
        return batch_lines.decode(outcome.text)

    def _checked(self, line: ReadLine) -> ReadLine:
        """With what only the lines before it show."""
        if line.custom_id is not None and not line.message:
            digest = hashlib.blake2b(line.custom_id.encode(errors="surrogatepass"), digest_size=10).digest()
            if digest in self._seen:
                return structs.replace(line, code="duplicate_custom_id", message=TWICE, param="custom_id")
            self._seen.add(digest)
        if not line.message and line.model not in self._models:
            if len(self._models) >= MOST_MODELS:
                problem = MANY_MODELS.format(most=counted(MOST_MODELS, "model"))
                return structs.replace(line, code="too_many_models", message=problem, param="body.model")
            self._models[line.model] = None
        return line

    async def _flush(self, batch: RequestBatch) -> None:
        """The lines of a window get their places."""
        window, self._window = sorted(self._window, key=lambda line: (line.order, line.number)), []
        for first in range(0, len(window), WRITTEN_LINES):
            lines = window[first : first + WRITTEN_LINES]
            good, bad = [line for line in lines if not line.message], [line for line in lines if line.message]
            self._refused += len(bad)
            self._errors += [objects.complaint_of(line) for line in bad][: MOST_SHOWN - len(self._errors)]
            refused = [self._result_of(batch, line) for line in bad]
            if not await self._database.write(operations.add_lines(self._worker, batch.id, self._in_place(good), refused)):
                raise Lost
            self._placed += len(good)

    def _result_of(self, batch: RequestBatch, line: ReadLine) -> LineResult:
        data = objects.format_of(batch.endpoint).refused(self._new_id("batch_req"), line)
        return LineResult(batch.id, line.number, False, data)

    def _in_place(self, lines: Sequence[ReadLine]) -> list[BatchLine]:
        return [
            BatchLine(
                number=line.number,
                place=self._placed + at,
                start=line.start,
                size=line.size,
                custom_id=line.custom_id or "",
                model=line.model,
                prefix=line.prefix,
            )
            for at, line in enumerate(lines)
        ]
