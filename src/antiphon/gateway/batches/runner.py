"""Batches are worked on beside the requests: their input is read, their lines are run, their output is written.

A line is begun only where an engine has room that no request of a person uses, here or at another gateway: so a person waits
for one answer to a line at most. Gateways on one store agree step by step (`store/files/batch_lines.py`); one that dies leaves
its lines to the others.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from antiphon.errors import ApiError, StoreUnavailable
from antiphon.files.batches.input import InputLimits, InputReader
from antiphon.files.batches.output import OutputWriter
from antiphon.files.file_inputs import RunCheck
from antiphon.files.library import FileLibrary
from antiphon.gateway.batches.line_run import LineParts, LineRun
from antiphon.gateway.batches.room import UNKNOWN_AT_ONCE, Room
from antiphon.gateway.runs.gateway import Gateway
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.store.files import batch_lines
from antiphon.store.files import batches as operations
from antiphon.store.files.batch_lines import PutOff, Report, Wanted
from antiphon.store.files.batches import BATCHES
from antiphon.store.files.records import Complaint, LineResult, RequestBatch
from antiphon.store.protocol import FileStore
from antiphon.store.wakeups import Wakeup

# Seconds between two steps of a gateway that runs lines, or could: so long it takes until others know what its engines do.
STEP = 0.5
# What ends within so many seconds is one step.
GATHERED = 0.005
# Batches whose input is read, or whose output is written, at once.
FILES_AT_ONCE = 2
# Seconds after which that is tried again.
RETRY_INTERVAL = 10.0
# Lines of one model that one step begins.
MOST_BEGUN = 64
# Seconds that it may take to give lines back.
CLOSING_TIME = 2.0
BUG = Complaint(code="server_error", message="The gateway failed. This is a bug; its log has the details. It tries again.")


class BatchOptions(Struct, frozen=True):
    # How many requests an engine gets at once that does not say how many it processes. 0: no line is run here.
    places: int
    # Seconds without a step after which a gateway counts as dead.
    lease: float
    # How many gateways may die with a line before it fails.
    attempts: int
    input: InputLimits
    step: float = STEP


class BatchRunner:
    """`start()`, then `stop()`, and `close()` once what runs has had its time."""

    def __init__(
        self, stored: FileStore, library: FileLibrary, run_check: RunCheck, parts: LineParts, options: BatchOptions
    ) -> None:
        self._stored = stored
        self._database = stored.database
        self._library = library
        self._run_check = run_check
        self._parts = parts
        self._options = options
        self._gateway: Gateway = parts.gateway
        self._room = Room(parts.gateway, options.places)
        self._name = parts.worker
        self._running: dict[asyncio.Task[None], LineRun] = {}
        # What is reported with the next step.
        self._results: list[LineResult] = []
        self._put_off: list[PutOff] = []
        # By batch, the tasks that read its input or write its output.
        self._files: dict[str, asyncio.Task[None]] = {}
        # The store knows this gateway.
        self._is_known = False
        # By the loop's clock: when the next step, and the next renewal, is due.
        self._step_at = self._renew_at = 0.0
        self._wakeup: Wakeup | None = None
        self._stopped = False
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._working = asyncio.create_task(self._work())

    def stop(self) -> None:
        """Nothing more is begun. Lines that run may come to their end."""
        self._stopped = True
        self._wake()
        for task in self._files.values():
            task.cancel()

    async def close(self) -> None:
        """What has not ended is there for other gateways."""
        self.stop()
        if self._working is not None:
            await self._working
        tasks = [*self._running, *self._files.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_TIME)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._is_known:
            with suppress(StoreUnavailable):
                await self._step((), {})
                await self._database.write(batch_lines.leave(self._name))

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.wake()

    async def _work(self) -> None:
        with self._database.wakeups.subscribe(BATCHES) as wakeup:
            self._wakeup = wakeup
            while not self._stopped:
                is_busy = False
                # Where there is nothing yet, nothing is opened.
                if self._stored.is_used():
                    try:
                        is_busy = await self._look()
                    except ApiError as away:
                        log("batches_wait", level=logging.WARNING, reason=away.message)
                    except Exception as bug:
                        log("bug", level=logging.ERROR, exc_info=bug)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._options.step if is_busy else None):
                        await wakeup.wait()
                await asyncio.sleep(GATHERED)

    async def _look(self) -> bool:
        """False: there is nothing to do."""
        now = asyncio.get_running_loop().time()
        overview = await self._database.read(operations.overview(self._database.clock()))
        if overview.is_work_left:
            await self._begin_files()
        if self._files and now >= self._renew_at:
            self._renew_at = now + self._options.lease / 3
            held = operations.renew(self._name, list(self._files), self._options.lease, self._database.clock())
            await self._database.write(held)
        if not overview.running and not self._running and not self._results and not self._put_off:
            if self._is_known:
                await self._database.write(batch_lines.leave(self._name))
                self._is_known = False
            return bool(self._files)
        wanted, busy = await self._wanted(overview.running)
        if wanted or self._results or self._put_off or now >= self._step_at:
            self._step_at = now + self._options.step
            await self._step(wanted, busy, self._left_alone(overview.running))
        return True

    # ---- lines -------------------------------------------------------------------------------------------------------

    async def _wanted(self, batches: Sequence[RequestBatch]) -> tuple[list[Wanted], dict[str, int]]:
        """By model, for how many lines there is room here; and how many requests each engine has from here, with the lines that
        are about to be there."""
        wanted, busy = list[Wanted](), self._room.busy()
        if not self._options.places:
            return wanted, busy
        models = dict.fromkeys(model for batch in batches if batch.stop is None for model in batch.models)
        for model in models:
            beginning = sum(not run.is_placed for run in self._running.values())
            rooms = await self._room.of_model(model, beginning)
            free = UNKNOWN_AT_ONCE - beginning if rooms is None else sum(max(0, room.places - room.busy) for room in rooms)
            busy |= {room.engine: max(room.busy, busy.get(room.engine, 0)) for room in rooms or ()}
            if free > 0:
                wanted.append(Wanted(model, min(free, MOST_BEGUN), rooms))
        return wanted, busy

    def _left_alone(self, batches: Sequence[RequestBatch]) -> list[str]:
        """Owners that may begin nothing now; and those of whose minute half is used up: the rest is for people."""
        limits = self._gateway.admission.owners
        full = limits.full_owners()
        owners = {batch.owner for batch in batches}
        rates = {owner: limits.rate(self._gateway.owners.current(owner)) for owner in owners}
        used = {owner for owner, rate in rates.items() if rate is not None and rate.remaining <= rate.limit // 2}
        return sorted(used | {owner for owner in owners if self._gateway.owners.current(owner) in full})

    async def _step(self, wanted: Sequence[Wanted], busy: Mapping[str, int], not_of: Sequence[str] = ()) -> None:
        results, put_off = self._results, self._put_off
        self._results, self._put_off = [], []
        report = Report(self._name, self._options.lease, results, put_off, busy, wanted, not_of)
        try:
            lines = await self._database.write(batch_lines.step(report, self._database.clock()))
        except BaseException:
            # Reported with the next one. What was written all the same is not written twice.
            self._results, self._put_off = [*results, *self._results], [*put_off, *self._put_off]
            raise
        self._is_known = True
        for line in lines:
            run = LineRun(self._parts, line)
            task = asyncio.create_task(self._run(run))
            self._running[task] = run
            task.add_done_callback(self._over)

    async def _run(self, run: LineRun) -> None:
        try:
            outcome = await run.run()
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug, batch=run.line.batch, line=run.line.number)
            outcome = run.failed_by_bug()
        if isinstance(outcome, LineResult):
            self._results.append(outcome)
        else:
            # What was cut off because the gateway stops has not failed.
            self._put_off.append(outcome._replace(is_failure=outcome.is_failure and not self._stopped))

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._wake()

    # ---- input and output --------------------------------------------------------------------------------------------

    async def _begin_files(self) -> None:
        while len(self._files) < FILES_AT_ONCE and not self._stopped:
            now = self._database.clock()
            batch = await self._database.write(operations.claim(self._name, self._options.lease, now))
            if batch is None or batch.id in self._files:
                return
            self._files[batch.id] = task = asyncio.create_task(self._attend_to(batch))
            task.add_done_callback(lambda _, id=batch.id: self._file_over(id))  # type: ignore[misc]

    def _file_over(self, id: str) -> None:
        del self._files[id]
        self._wake()

    async def _attend_to(self, batch: RequestBatch) -> None:
        try:
            await self._read_or_write(batch)
        except asyncio.CancelledError:
            with suppress(StoreUnavailable):
                await self._give_back(batch, 0)
            raise
        except ApiError as away:
            log("batch_waits", level=logging.WARNING, batch=batch.id, reason=away.message)
            await self._try_again(batch, Complaint(code=away.code or away.kind, message=away.message))
        except OSError as failed:
            log("batch_waits", level=logging.WARNING, batch=batch.id, reason=str(failed))
            await self._try_again(batch, Complaint(code="server_error", message=f"{failed.strerror or failed}."))
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug, batch=batch.id)
            await self._try_again(batch, BUG)

    async def _try_again(self, batch: RequestBatch, complaint: Complaint) -> None:
        """If the store is away, the lease ends by itself."""
        with suppress(StoreUnavailable):
            await self._give_back(batch, RETRY_INTERVAL, complaint)

    async def _give_back(self, batch: RequestBatch, delay: float, complaint: Complaint | None = None) -> None:
        available_at = self._database.clock() + delay
        await self._database.write(operations.give_back(self._name, batch.id, available_at, complaint))

    async def _read_or_write(self, batch: RequestBatch) -> None:
        current = self._gateway.owners.current(batch.owner)
        if batch.status == "validating":
            reader = InputReader(self._name, self._database, self._library, self._run_check, self._options.input, new_id)
            reader.before_failure = partial(self._report, batch, "failed")
            await reader.read(batch, current)
        else:
            # Before it is written: a gateway that dies in between does both again.
            await self._report(batch, operations.end_of(batch))
            await OutputWriter(self._name, self._database, self._library, new_id).write(batch, current)
            counts = [batch.completed, batch.failed, batch.total]
            log("batch", batch=batch.id, stopped_by=batch.stop, completed_failed_total=counts)

    async def _report(self, batch: RequestBatch, end: str) -> None:
        """To the webhooks."""
        gateway, owner = self._gateway, self._gateway.owners.current(batch.owner)
        if messages := gateway.webhooks.messages(f"batch.{end}", batch.id, owner, self._database.clock()):
            await gateway.store.accounts.add_deliveries(messages)
