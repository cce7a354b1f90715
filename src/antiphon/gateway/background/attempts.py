"""One attempt at a background response, from its claim to its end."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct, structs

from antiphon.core.events.lifecycle import failed_response_events
from antiphon.core.protocols.responses.fields import NO_LIMITS
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.errors import (
    UNREADABLE,
    ApiError,
    Cancelled,
    Conflict,
    EngineError,
    EngineUnavailable,
    InvalidRequest,
    StoreUnavailable,
    counted,
)
from antiphon.gateway.background.journal import Journal, Lost
from antiphon.gateway.limits.places import Place
from antiphon.gateway.limits.threads import LARGE_BODY, run_aside
from antiphon.gateway.runs.gateway import Gateway, ReceivedRequest
from antiphon.gateway.runs.observers import Arrival
from antiphon.gateway.runs.run import ResponseRun
from antiphon.gateway.runs.status import run_summary
from antiphon.gateway.state.record_format import record_to_response
from antiphon.gateway.state.seal import from_stored_request
from antiphon.logs import log
from antiphon.store.records import Job
from antiphon.wire.responses import CreateResponse, Response

# Seconds after which a locked conversation, or an engine that is away, is tried again.
RETRY_INTERVAL = 0.5
# Seconds between two looks at the lease, at most. Every event of the response wakes it too.
LEASE_INTERVAL = 0.5

# A request was within the limits when it was accepted. They may be lower now.
ACCEPTED = NO_LIMITS


class BackgroundOptions(Struct, frozen=True):
    # How many responses run at once. 0: none are run here.
    workers: int
    # Seconds without a sign of life after which a gateway counts as dead.
    lease: float
    # How many gateways may die with a response before it fails.
    attempts: int
    # Seconds that a response waits for the lock of its conversation, or for an engine or store that is away.
    patience: float
    retry_interval: float = RETRY_INTERVAL


class Attempt:
    def __init__(
        self,
        gateway: Gateway,
        options: BackgroundOptions,
        job: Job,
        worker: str,
        place: Place,
        arrival: Arrival,
        read: ReceivedRequest | ApiError,
    ) -> None:
        """`place`: among the responses that run at once. It is taken, and left while the response waits for something else.
        `read`: its request, or why it cannot be read: then it fails at once."""
        self._gateway = gateway
        self._options = options
        self.job = job
        self.place = place
        self._worker = worker
        self._end = read if isinstance(read, ApiError) else None
        self._request = read if isinstance(read, ReceivedRequest) else ReceivedRequest(CreateResponse(), (), (), arrival)
        self._journal = Journal(
            gateway.store,
            self._request.request,
            job,
            worker,
            retention=gateway.retention,
            owners=gateway.owners,
            lease=options.lease,
            webhooks=gateway.webhooks,
        )
        self._run: ResponseRun | None = None
        self._waiting: asyncio.Timeout | None = None
        # Among the responses of its owner, as `place` is among those of the workers. Its key may have got a name.
        self._owner_place = gateway.admission.owners.patient_place(gateway.owners.current(job.record.owner))

    async def run(self) -> None:
        """To the end of the response, or until the attempt is void."""
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._journal.keep_writing()), group.create_task(self._keep_lease())]
                await self._respond()
                for task in beside:
                    task.cancel()
        except* (Lost, StoreUnavailable):
            # Another worker has it, or will have it when the lease has run out.
            pass
        finally:
            self._owner_place.leave()
            self._note()

    def end(self, error: ApiError) -> None:
        """Ends it with this error now, whatever it is doing. The engine is given up at once."""
        if self._end is not None:
            return
        self._end = error
        if self._run is not None:
            self._run.abort(error)
        elif self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _respond(self) -> None:
        try:
            run = await self._begin()
        except ApiError as error:
            await self._fail(error)
            return
        async with self._gateway.running(run):
            self._run = run
            # What the engine refuses at once is reported by the run, like all that it does later.
            with suppress(ApiError):
                await run.connect(0)
            if self._end is not None:
                run.abort(self._end)
            await run.run(self._journal)

    async def _begin(self) -> ResponseRun:
        """Waits for the lock of its conversation, for an engine and for the store, within limits."""
        if self.job.purpose == "cancel":
            raise Cancelled
        if self.job.purpose == "fail":
            raise EngineError(f"The response was begun {counted(self.job.lost, 'time')}, and each time its gateway died.")
        loop = asyncio.get_running_loop()
        if not self._owner_place.take_at_once():
            await self._wait(0)
        until = loop.time() + self._options.patience
        while True:
            if self._end is not None:
                raise self._end
            try:
                # It may have waited long for its turn.
                if (checking := self._gateway.check_budget(self.job.record.owner)) is not None:
                    await checking
                return await self._gateway.prepare(self._request, self._journal)
            except UNREADABLE as damaged:
                raise _unreadable(damaged) from damaged
            except (Conflict, EngineUnavailable, StoreUnavailable):
                if loop.time() >= until:
                    raise
            self._owner_place.leave()
            await self._wait(self._options.retry_interval)

    async def _wait(self, seconds: float) -> None:
        """For a while, in which another response has its place, and then for its places. The end is not delayed by that."""
        if self._end is not None:
            return
        self.place.leave()
        try:
            async with asyncio.timeout(None) as self._waiting:
                await asyncio.sleep(seconds)
                await self._owner_place.take()
                await self.place.take()
        except TimeoutError:
            pass
        finally:
            self._waiting = None

    async def _fail(self, error: ApiError) -> None:
        """The whole of a response for which no engine was asked."""
        self._gateway.show_refusal(self._request.arrival, error)
        response = self._as_queued()
        response.status = "queued"
        events = failed_response_events(response, error)
        await self._journal.record_not_run(response, events)

    def _as_queued(self) -> Response:
        record = self.job.record
        try:
            return record_to_response(record)
        except UNREADABLE:
            model = self._request.request.model or "unknown"
            return Response(
                id=record.id, created_at=record.created_at, model=model, background=True, store=record.kept_after_end is None
            )

    def _note(self) -> None:
        members: dict[str, Any] = {"response_id": self.job.record.id, "attempt": self.job.attempt}
        if self._run is not None:
            seconds = asyncio.get_running_loop().time() - self._request.arrival.at
            members |= run_summary(self._run) | {"seconds": round(seconds, 4)}
        if not self._journal.finished:
            members["outcome"] = "given_up"
        log("background", **{"outcome": "not_begun"} | members)

    async def _keep_lease(self) -> None:
        """Renews the lease. Ends the response when it was cancelled, and the attempt when another worker has the lease."""
        id, store, lease = self.job.record.id, self._gateway.store, self._options.lease
        with store.follow(id) as wakeup:
            while True:
                with suppress(StoreUnavailable):
                    leased = await store.renew(self._worker, [id], lease)
                    if id not in leased and not self._journal.closed:
                        raise self._journal.lost()
                    if leased.get(id):
                        self.end(Cancelled())
                await asyncio.sleep(min(LEASE_INTERVAL, lease / 6))
                with suppress(TimeoutError):
                    async with asyncio.timeout(lease / 3):
                        await wakeup.wait()


def job_to_arrival(job: Job) -> Arrival:
    return Arrival(job.request, job.record.owner, "background", asyncio.get_running_loop().time())


async def read_request(stored: Arrival, gateway: Gateway) -> ReceivedRequest | ApiError:
    """Or why it cannot be read: another version wrote it, or it was damaged."""
    sealer = gateway.sealer_of(gateway.owners.current(stored.owner))
    try:
        opened = partial(from_stored_request, stored.body, sealer)
        body = await run_aside(opened, large=len(stored.body) >= LARGE_BODY)
        arrival = structs.replace(stored, body=body)
    except ApiError as sealed:
        return sealed
    try:
        request, unknown = await run_aside(partial(body_to_request, body, ACCEPTED), large=len(body) >= LARGE_BODY)
        return ReceivedRequest(request, unknown, (), arrival)
    except InvalidRequest as wrong:
        return _unreadable(wrong)


def _unreadable(reason: Exception) -> ApiError:
    return ApiError(f"The stored request cannot be read: {reason}", code="stored_request_unreadable")
