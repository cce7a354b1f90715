"""Requests become runs: the one place that brings engines, the store and the core together."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, structs

from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Check
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.knowledge.model_names import ModelChoice
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.core.protocols.responses.read import unknown_notices
from antiphon.core.recording.recording import Recording
from antiphon.engines.affinity import affinity_key
from antiphon.engines.pool import Choice, Pool, ToolForm, form_of
from antiphon.errors import ApiError, EngineUnavailable, InvalidRequest
from antiphon.gateway.limits.owner_limits import Admission
from antiphon.gateway.limits.places import Place
from antiphon.gateway.limits.threads import LARGE_BODY, LARGE_HISTORY, is_large, run_aside
from antiphon.gateway.runs.observers import Arrival, MakeObserver, ObserverMakers, make_observers, notify, unrecorded
from antiphon.gateway.runs.response_usage import ResponseUsage
from antiphon.gateway.runs.run import ResponseRun, Running, RunsInFlight
from antiphon.gateway.runs.steps import Equipment
from antiphon.gateway.runs.timers import TimeLimit
from antiphon.gateway.state.owners import OwnerEnvironments, Owners
from antiphon.gateway.state.recent_histories import RecentHistories
from antiphon.gateway.state.recorder import ResponseRecorder
from antiphon.gateway.state.seal import to_stored_request
from antiphon.gateway.stored_prompts.prompts import StoredPrompts
from antiphon.gateway.usage.budgets import Budgets
from antiphon.gateway.usage.ledger import Ledger
from antiphon.gateway.webhooks.messages import NO_WEBHOOKS, Webhooks
from antiphon.ids import new_id
from antiphon.sealing import Sealer
from antiphon.store.protocol import Store
from antiphon.store.records import Record
from antiphon.tools.runner import check_tools, container_files, tool_containers
from antiphon.wire.input_items import Tool
from antiphon.wire.responses import CreateResponse

# ---- A request as it was read ----------------------------------------------------------------------------------------


class ReceivedRequest(Struct, frozen=True):
    """A request as it was read, and how it came."""

    request: CreateResponse
    # The names of the fields that are not part of its protocol.
    unknown: Sequence[str]
    # What else was changed or left out when it was read.
    changes: Sequence[str]
    arrival: Arrival
    # Its body says the same, as a request of the Responses API.
    is_as_sent: bool = True
    protocol: ClientProtocol = RESPONSES
    # As the protocol has read it.
    passes: bool = False
    facts: Any = None
    # It waits for its engine for as long as that takes, and others come first.
    patient: bool = False
    # By which it belongs with other requests, on one engine. None: by how it begins.
    affinity: str | None = None

    def in_own_words(self, text: str) -> str:
        """As its client knows the names in it."""
        return self.protocol.in_own_words(text, self.facts)

    @property
    def has_large_body(self) -> bool:
        return len(self.arrival.body) >= LARGE_BODY

    def is_large(self, history: Sequence[object]) -> bool:
        own = 1 if isinstance(self.request.input, str) else len(self.request.input or ())
        return len(history) + own >= LARGE_HISTORY or len(self.arrival.body) >= LARGE_BODY

    @property
    def notices(self) -> list[str]:
        return [*unknown_notices(self.unknown), *self.changes]


T = TypeVar("T")


def no_tools(owner: str, models: Collection[str | None]) -> Sequence[Tool]:
    return ()


def asks_for_approval(attached: Tool) -> bool:
    return bool(attached["require_approval"] != "never")


class Attached(NamedTuple):
    """Tools that the operator adds to a request, and notices of those that were left out."""

    tools: Sequence[Tool] = ()
    notices: Sequence[str] = ()


NOT_ATTACHED = Attached()
NOT_APPROVED = (
    "MCP server {label} was left out: each of its calls needs an approval, and only clients of the Responses API can give it"
)


class Enqueued(NamedTuple):
    """A background response that waits for a worker."""

    record: Record
    streams: bool
    notices: list[str]


class Prepared(Struct, frozen=True):
    """What an exchange is made of."""

    read: ReceivedRequest
    recorder: ResponseRecorder
    history: Sequence[dict[str, Any]]
    # The model that the request names, and what is chosen for it.
    named: str | None
    chosen: Choice
    form: ToolForm
    recording: Recording | None
    large: bool
    compact: bool


class Gateway:
    def __init__(
        self,
        pool: Pool,
        store: Store,
        environment: Environment,
        equipment: Equipment,
        admission: Admission,
        *,
        retention: int,
        unstored_retention: int,
        stores_messages: bool,
        owners: Owners,
        ledger: Ledger,
        budgets: Budgets,
        webhooks: Webhooks = NO_WEBHOOKS,
        make_sealer: Callable[[str, Sequence[str]], Sealer],
        observers: Sequence[MakeObserver] = (),
        may_record: Callable[[], bool] | None = None,
    ) -> None:
        """`retention`: how long responses are stored, in seconds. `unstored_retention`: the same of background responses that
        are not to be stored, after their end. `stores_messages`: so are answers of other protocols than the Responses API.
        `make_sealer`: for an owner, and those that it was before. `may_record`: asked
        before each exchange whether observers get its inputs, from which it can be run again."""
        self.pool = pool
        self.store = store
        self.environment = environment
        self.owners = owners
        self.ledger = ledger
        self.budgets = budgets
        self.webhooks = webhooks
        # None: there are none.
        self.prompts: StoredPrompts | None = None
        ledger.current = owners.current
        self._environments = OwnerEnvironments(owners, make_sealer)
        self.equipment = equipment
        self.admission = admission
        pool.is_full, pool.loads.in_flight = admission.engines.is_full, admission.engines.in_flight
        self.retention = retention
        self._unstored_retention = unstored_retention
        self._stores_messages = stores_messages
        self._observers = ObserverMakers(observers, may_record)
        # Tools that the operator adds to the requests of an owner for a model, by any of its names.
        self.attached: Callable[[str, Collection[str | None]], Sequence[Tool]] = no_tools
        self.in_flight = RunsInFlight()

    @property
    def heartbeat(self) -> float:
        return self.equipment.timeouts.heartbeat

    def in_time(self, began: float) -> TimeLimit:
        """Ends what is done here when it has taken as long as a response may. `began`: by the loop's clock."""
        return TimeLimit(self.equipment.timeouts.total, began)

    def sealer_of(self, owner: str) -> Sealer:
        return self._environments.sealer_of(owner)

    def environment_of(self, owner: str) -> Environment:
        return self._environments.make(self.environment, owner)

    # ---- from a request to a run -------------------------------------------------------------------------------------

    async def receive(
        self, arrival: Arrival, protocol: ClientProtocol = RESPONSES, *, model: str | None = None, is_counted: bool = False
    ) -> ReceivedRequest:
        """Counts a request, and reads it: once, for all that is decided about it. `model`: of a request that names none.
        `is_counted`: another process has counted it."""
        try:
            if not is_counted and (counting := self.admission.owners.count(arrival.owner)) is not None:
                await counting
            if not is_counted and self.budgets.are_set and (checking := self.check_budget(arrival.owner)) is not None:
                await checking
            return await self.read(arrival, protocol, model)
        except ApiError as error:
            self.show_refusal(arrival, error)
            raise

    async def enqueue(self, received: ReceivedRequest) -> Enqueued:
        """Puts a background response into the queue. It needs no place among those of its owner yet."""
        try:
            return await self._enqueue(received, self.recorder_of(received.request, received.arrival.owner))
        except ApiError as error:
            self.show_refusal(received.arrival, error)
            raise

    async def begin(
        self,
        received: ReceivedRequest,
        *,
        compact: bool = False,
        histories: RecentHistories | None = None,
    ) -> ResponseRun:
        """Takes a place among the responses of the owner, which the run leaves at its end, and prepares the run; no engine has
        been asked yet."""
        request, arrival = received.request, received.arrival
        place: Place | None = None
        try:
            entering = self.admission.owners.enter(self.owners.current(arrival.owner))
            place = entering if isinstance(entering, Place) else await entering
            if compact:
                if request.model is None:
                    raise InvalidRequest("`model` is required.", param="model", code="missing_required_parameter")
                request.stream = request.store = False
            # The caller waits for it.
            request.background = None
            run = await self.prepare(received, self.recorder_of(request, arrival.owner, histories), compact=compact)
        except BaseException as failure:
            if place is not None:
                place.leave()
            if isinstance(failure, ApiError):
                self.show_refusal(arrival, failure)
            raise
        run.place = place
        return run

    def check_budget(self, owner: str) -> Awaitable[None] | None:
        """As `Budgets.check`."""
        return self.budgets.check(self.owners.current(owner)) if self.budgets.are_set else None

    def show_refusal(self, arrival: Arrival, error: ApiError) -> None:
        """Observers see a request when its response is about to run; this one is not going to."""
        observers = make_observers(self._observers.makers, arrival)
        notify([ResponseUsage(self.ledger, arrival), *observers], "dropped", error)

    def show_passed(self, arrival: Arrival, model: str | None, engine: str, status: int) -> None:
        """It has no response: observers see it once it has ended."""
        makers, may_record = self._observers.of_passed, self._observers.may_record
        if not makers:
            return
        if may_record is not None and not may_record():
            arrival = unrecorded(arrival)
        notify(make_observers(makers, arrival), "passed_on", model, engine, status)

    async def read(
        self, arrival: Arrival, protocol: ClientProtocol = RESPONSES, model: str | None = None, *, patient: bool = False
    ) -> ReceivedRequest:
        body, limits = arrival.body, self.environment.limits
        if len(body) < LARGE_BODY:
            request, unknown, changes, passes, facts = protocol.read(body, arrival.headers, limits, arrival.owner)
        else:
            reading = partial(protocol.read, body, arrival.headers, limits, arrival.owner)
            request, unknown, changes, passes, facts = await self.aside(reading, arrival.owner, large=True, patient=patient)
        is_as_sent = protocol.is_responses
        if not is_as_sent:
            request.background, request.store = None, self._stores_messages
        if request.prompt is not None and self.prompts is not None:
            self.prompts.fill(request)
            is_as_sent = False
        if model is not None and request.model is None and not passes:
            request.model, is_as_sent = model, False
        return ReceivedRequest(request, unknown, changes, arrival, is_as_sent, protocol, passes, facts, patient)

    async def aside(self, work: Callable[[], T], owner: str, *, large: bool, patient: bool = False) -> T:
        """Work on a request. Owners get places for large ones in turn: they need no place among an owner's responses for it."""
        if not large:
            return work()
        async with self.admission.reading(self.owners.current(owner), patient=patient):
            return await run_aside(work, large=True)

    def recorder_of(self, request: CreateResponse, owner: str, histories: RecentHistories | None = None) -> ResponseRecorder:
        return ResponseRecorder(self.store, owner, request, new_id("resp"), self.retention, self.owners, histories)

    async def prepare(self, read: ReceivedRequest, recorder: ResponseRecorder, *, compact: bool = False) -> ResponseRun:
        request, given, named = read.request, read.request.input, read.request.model
        large_body = len(read.arrival.body) >= LARGE_BODY
        history = await recorder.read(request_to_items(request), large_body=large_body)
        large = read.is_large(history)
        arrival, recording = read.arrival, None
        may_record = self._observers.may_record
        if may_record is not None and may_record():
            # Items that stood for stored ones may have been replaced.
            recording = self._make_recording(read, is_as_sent=read.is_as_sent and request.input is given)
        elif may_record is not None:
            arrival = unrecorded(arrival)
        owner = recorder.owner
        seat = self.admission.engines.seat(owner, patient=read.patient or bool(request.background))
        try:
            key = read.affinity or affinity_key(request, history, owner)
            chosen = await self.pool.choose(named, key)
            seat.intend(chosen.engines[0])
            form = form_of(chosen.engines, chosen.model, request, history, owner)
            prepared = Prepared(read, recorder, history, named, chosen, form, recording, large, compact)
            exchange = await self._make_exchange(prepared)
            usage = recorder.usage = ResponseUsage(self.ledger, arrival)
            observers = [usage, *make_observers(self._observers.makers, arrival)]
            if recording is not None:
                notify(observers, "recorded", recording)
            return ResponseRun(
                exchange,
                chosen.engines,
                recorder,
                self.equipment,
                seat,
                observers,
                large,
                arrival,
                key if self.pool.placement.sends_key else None,
                form.conversation,
            )
        except BaseException:
            seat.leave()
            await recorder.unlock()
            raise

    async def _make_exchange(self, prepared: "Prepared") -> Exchange:
        read, recorder, history = prepared.read, prepared.recorder, prepared.history
        chosen, recording, compact = prepared.chosen, prepared.recording, prepared.compact
        request, tools = read.request, self.equipment.tools
        # A summary is made without tools.
        own_tools = () if compact else request.tools or ()
        containers = await tool_containers(tools, request, history, recorder.owner) if own_tools else {}
        # Its key may have got a name meanwhile.
        owner = recorder.owner
        spent = self.budgets.notice(owner) if self.budgets.are_set else None
        attached, left_out = NOT_ATTACHED if compact else self.attached_to(read, owner, (prepared.named, chosen.model))
        environment = self._environments.make(self.environment, owner)
        if request.background:
            # A copy: it may have to be prepared again.
            request = structs.replace(request, model=chosen.model)
        else:
            request.model = chosen.model
        make = Exchange if recording is None else recording.make_exchange

        # Not a `partial`: to add its keywords to those of a call takes longer than the call.
        def make_exchange() -> Exchange:
            return make(
                request,
                [engine.knowledge for engine in chosen.engines],
                _as_spoken(read.protocol, environment) if read.protocol.is_plain else environment,
                history=history,
                compact=compact,
                response_id=recorder.response_id,
                created_at=recorder.created_at,
                notices=[
                    *(read.notices if read.unknown or read.changes else ()),
                    *chosen.notices,
                    *recorder.notices,
                    *left_out,
                    *([spent] if spent is not None else ()),
                ],
                attached=attached,
                containers=containers,
                files=container_files(tools, containers, owner) if containers else {},
                in_words=prepared.form.in_words,
            )

        if prepared.large:
            exchange = await self.aside(make_exchange, owner, large=True, patient=read.patient or bool(request.background))
        else:
            exchange = make_exchange()
        if own_tools:
            await check_tools(request, tools, recorder.owner)
        return exchange

    def attached_to(self, read: ReceivedRequest, owner: str, models: Collection[str | None]) -> Attached:
        """What the operator adds to this request. Only the Responses API has a form for the question whether a call may run."""
        tools = self.attached(owner, models)
        if not tools:
            return NOT_ATTACHED
        if read.protocol.is_responses:
            return Attached(tools)
        left_out = [NOT_APPROVED.format(label=tool["server_label"]) for tool in tools if asks_for_approval(tool)]
        return Attached([tool for tool in tools if not asks_for_approval(tool)], left_out)

    def _make_recording(self, read: ReceivedRequest, *, is_as_sent: bool) -> Recording:
        environment = _as_spoken(read.protocol, self.environment) if read.protocol.is_plain else self.environment
        return Recording(read.arrival.body, asyncio.get_running_loop().time, is_as_sent=is_as_sent, environment=environment)

    async def _enqueue(self, read: ReceivedRequest, recorder: ResponseRecorder) -> Enqueued:
        """Checks all that can be checked now. The history is read again when the response runs."""
        request = read.request
        history = await recorder.read(request_to_items(request), locks=False, large_body=read.has_large_body)
        chosen = ModelChoice(request.model)
        # An engine that is away is no reason to refuse a response that runs later.
        if not self.pool.ready:
            await self.pool.identify()
        with suppress(EngineUnavailable):
            chosen = await self.pool.choose_model(request.model)
        ready = next((engine.knowledge for engine in self.pool.serving(chosen.model)), EngineKnowledge(PLAIN))
        make_exchange = partial(
            Exchange,
            structs.replace(request, model=chosen.model),
            [ready],
            self.environment_of(recorder.owner),
            history=history,
            response_id=recorder.response_id,
            created_at=recorder.created_at,
            notices=[*read.notices, *([chosen.notice] if chosen.notice else ()), *recorder.notices],
            attached=self.attached(recorder.owner, (request.model, chosen.model)),
            containers=await tool_containers(self.equipment.tools, request, history, recorder.owner),
        )
        large = read.is_large(history)
        exchange = await self.aside(make_exchange, recorder.owner, large=large)
        await self.check_definitions(exchange, recorder.owner, large=large)
        await check_tools(request, self.equipment.tools, recorder.owner)
        record = await self.aside(partial(recorder.to_record, exchange.response), recorder.owner, large=large)
        if request.store is False:
            record = structs.replace(record, kept_after_end=self._unstored_retention)
        to_stored = partial(_to_queued, read, self.sealer_of(recorder.owner))
        await self.store.enqueue(record, await self.aside(to_stored, recorder.owner, large=read.has_large_body))
        await self.owners.catch_up(record.owner)
        return Enqueued(record, bool(request.stream), exchange.notices)

    async def check_definitions(self, exchange: Exchange, owner: str, *, large: bool) -> None:
        """Raises for a schema that cannot be compiled, where no engine is going to be asked."""
        while isinstance(step := exchange.step, Check):
            outcome = await self.equipment.run_check(step.work, owner)
            large = large or is_large(outcome)
            await run_aside(partial(exchange.checked, outcome), large=large)
        if exchange.error is not None:
            raise exchange.error

    def running(self, run: ResponseRun) -> Running:
        """Delays the shutdown while the response runs, and leaves nothing of it behind."""
        return Running(self.in_flight, run)


def _to_queued(read: ReceivedRequest, sealer: Sealer) -> bytes:
    body = read.arrival.body if read.is_as_sent else msgspec.json.encode(read.request)
    return to_stored_request(body, read.request, sealer)


def _as_spoken(protocol: ClientProtocol, environment: Environment) -> Environment:
    """What the exchanges of this protocol get, which is plain."""
    return environment.plain(helps=protocol.gets_help)
