"""One attempt at a background response, from its claim to its end."""

import asyncio
from contextlib import suppress
from typing import Any

from antiphon.background.journal import Journal, Lost
from antiphon.background.places import Place
from antiphon.core.event_style import Style
from antiphon.core.sse import event_to_frame
from antiphon.core.translator import Translator
from antiphon.core.validation import body_to_request
from antiphon.errors import ApiError, Cancelled, Conflict, EngineError, EngineUnavailable, InvalidRequest, StoreUnavailable
from antiphon.gateway.gateway import Asked, Gateway
from antiphon.gateway.ids import new_id
from antiphon.gateway.recorder import record_to_response
from antiphon.gateway.run import Turn
from antiphon.logs import log
from antiphon.store.records import Job
from antiphon.wire import UNREADABLE
from antiphon.wire.responses import CreateResponse, Response

# How soon a conversation that is another's, or an engine that is away, is asked for again.
ASK_AGAIN = 0.5
# The lease is renewed at most so often, in seconds: every event of the response wakes its followers too.
LOOK_AGAIN = 0.5


class Attempt:
    def __init__(self, gateway: Gateway, job: Job, worker: str, place: Place) -> None:
        self._gateway = gateway
        self.job = job
        self.place = place
        self._worker = worker
        self._end: ApiError | None = None
        self._asked = self._read(job.request)
        self._journal = Journal(gateway.store, gateway.settings, self._asked.request, job, worker)
        self._turn: Turn | None = None
        self._waiting: asyncio.Timeout | None = None

    def _read(self, body: bytes) -> Asked:
        """A request that this version cannot read, because another wrote it or it was damaged, ends at once."""
        try:
            return Asked(*body_to_request(body))
        except InvalidRequest as wrong:
            self._end = _unreadable(wrong)
            return Asked(CreateResponse(), ())

    async def run(self) -> None:
        """To the end of the response; or until the attempt is void."""
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._journal.keep_writing()), group.create_task(self._hold())]
                await self._make()
                for task in beside:
                    task.cancel()
        except* (Lost, StoreUnavailable):
            # It is another's, or will be when the lease has run out.
            pass
        finally:
            self._note()

    def end(self, error: ApiError) -> None:
        """Whatever it does, it ends with this error now, unless with another already; the engine is let go at once."""
        if self._end is not None:
            return
        self._end = error
        if self._turn is not None:
            self._turn.abandon(error)
        elif self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _make(self) -> None:
        try:
            turn = await self._begin()
        except ApiError as error:
            await self._tell(error)
            return
        async with self._gateway.running(turn):
            self._turn = turn
            # What the engine refuses at once is told by the run, like all that it does later.
            with suppress(ApiError):
                await turn.connect(0)
            if self._end is not None:
                turn.abandon(self._end)
            await turn.run(self._journal)

    async def _begin(self) -> Turn:
        """Waits for its turn in a conversation, for an engine and for the store, but not for ever."""
        if self.job.purpose == "cancel":
            raise Cancelled
        if self.job.purpose == "fail":
            raise EngineError(f"The response was begun {self.job.lost} times, and each time its gateway was lost.")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._gateway.settings.background_patience
        while True:
            if self._end is not None:
                raise self._end
            try:
                return await self._gateway.prepare(self._asked, self._journal)
            except UNREADABLE as damaged:
                raise _unreadable(damaged) from damaged
            except (Conflict, EngineUnavailable, StoreUnavailable):
                if loop.time() >= until:
                    raise
            await self._wait()

    async def _wait(self) -> None:
        """For a while, in which another has its place; and for a place. An end that is asked for is not waited for."""
        if self._end is not None:
            return
        self.place.leave()
        try:
            async with asyncio.timeout(None) as self._waiting:
                await asyncio.sleep(ASK_AGAIN)
                await self.place.take()
        except TimeoutError:
            pass
        finally:
            self._waiting = None

    async def _tell(self, error: ApiError) -> None:
        """The whole of a response for which no engine was asked."""
        response = self._as_queued()
        response.status = "queued"
        translator = Translator(response, new_id=new_id, encode=event_to_frame, style=Style())
        translator.start()
        translator.fail(error)
        translator.close(now=response.created_at)
        await self._journal.keep_unmade(response, translator.out)

    def _as_queued(self) -> Response:
        record = self.job.record
        try:
            return record_to_response(record)
        except UNREADABLE:
            model = self._asked.request.model or "unknown"
            return Response(id=record.id, created_at=record.created_at, model=model, background=True, store=True)

    def _note(self) -> None:
        members: dict[str, Any] = {"outcome": "given_up"}
        if self._turn is not None:
            members |= {"model": self._turn.response.model, "engine": self._turn.engine.root, "notices": self._turn.notices}
        if self._journal.finished:
            members["outcome"] = self._turn.response.status if self._turn is not None else "not_begun"
        log("background", response_id=self.job.record.id, attempt=self.job.attempt, **members)

    async def _hold(self) -> None:
        """Keeps the lease; ends the response when that was asked for, and the attempt when the lease is another's."""
        id, store, lease = self.job.record.id, self._gateway.store, self._gateway.settings.background_lease
        with store.follow(id) as wakeup:
            while True:
                with suppress(StoreUnavailable):
                    held = await store.renew(self._worker, [id], lease)
                    if id not in held and not self._journal.closed:
                        raise self._journal.lost()
                    if held.get(id):
                        self.end(Cancelled())
                await asyncio.sleep(min(LOOK_AGAIN, lease / 6))
                with suppress(TimeoutError):
                    async with asyncio.timeout(lease / 3):
                        await wakeup.wait()


def _unreadable(reason: Exception) -> ApiError:
    return ApiError(f"What is stored of the response cannot be read: {reason}", code="stored_request_unreadable")
