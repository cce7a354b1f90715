"""One line of a batch: the request in it goes the way that it would go by itself, and what it is answered is recorded."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

import aiohttp
import msgspec
from msgspec import structs

from antiphon.core.exchange.steps import ToolCall
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.core.protocols.responses.read import unknown_notices
from antiphon.errors import UNREADABLE, ApiError, EngineDisagrees, EngineError, InvalidRequest, RateLimited, counted
from antiphon.files.batches import objects
from antiphon.files.batches.input import GONE
from antiphon.files.batches.objects import AnswerIds
from antiphon.files.library import FileLibrary
from antiphon.files.readers.batch_lines import request_of
from antiphon.gateway.limits.request_rates import MINUTE
from antiphon.gateway.limits.threads import LARGE_BODY, run_aside
from antiphon.gateway.passed_through.own_embeddings import PATH as EMBEDDINGS
from antiphon.gateway.passed_through.own_embeddings import OwnEmbeddings
from antiphon.gateway.passed_through.requests import PassedBody, PassedRequest, PassedUsage, model_of
from antiphon.gateway.runs.gateway import Gateway, ReceivedRequest
from antiphon.gateway.runs.observers import arrive
from antiphon.gateway.runs.outbox import NoSink
from antiphon.gateway.runs.run import BUG, ResponseRun
from antiphon.gateway.state.record_format import decode_calls, encode_call
from antiphon.gateway.state.recorder import ResponseRecorder
from antiphon.gateway.usage.reports import BATCH
from antiphon.ids import new_id
from antiphon.store.files import batch_lines
from antiphon.store.files.batch_lines import PutOff
from antiphon.store.files.records import ClaimedLine, LineResult, Usage
from antiphon.store.operations import Database
from antiphon.wire.responses import Response

# How often a line is put off because of an error that may pass, and after how many seconds it is tried again: twice as long
# each time.
MOST_FAILURES = 5
FIRST_DELAY = 1.0
# Of an answer that is passed on, in bytes.
LARGEST_ANSWER = 256 * 1024 * 1024
# What engines answer when another attempt may succeed.
MAY_PASS = frozenset({429, 502, 503, 504})


class LineParts(NamedTuple):
    """What every line uses. `protocols`: by path; what has none is passed through. `attempts`: how many gateways may die with a
    line before it fails."""

    worker: str
    gateway: Gateway
    database: Database
    library: FileLibrary
    protocols: Mapping[str, ClientProtocol]
    embeddings: OwnEmbeddings
    attempts: int


class Answer(NamedTuple):
    status: int
    body: bytes
    usage: Usage = Usage()
    # That are not in its body.
    notices: Sequence[str] = ()


class NotNow(Exception):
    """The limits of its owner leave no room for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class LineRecorder(ResponseRecorder):
    """Notes the calls of tools that must not be made twice, as that of a background response does."""

    __slots__ = ("_note",)

    def note_calls(self, line: ClaimedLine, note: Callable[[bytes], Awaitable[bool]]) -> None:
        self.begun_calls = decode_calls(line.begun_calls)
        self._note = note

    async def begin_call(self, call: ToolCall) -> bool:
        return await self._note(encode_call(call))


class LineRun:
    def __init__(self, parts: LineParts, line: ClaimedLine) -> None:
        self._parts = parts
        self._gateway = parts.gateway
        self.line = line
        # Its engine has been chosen: it counts there.
        self.is_placed = False
        # About the line itself.
        self._notices: Sequence[str] = ()

    @property
    def _owner(self) -> str:
        """Its key may have got a name."""
        return self._gateway.owners.current(self.line.owner)

    async def run(self) -> LineResult | PutOff:
        try:
            async with AsyncExitStack() as stack:
                answer = await self._answer(stack)
        except NotNow as not_now:
            return self._put_off(not_now.seconds, is_failure=False)
        except ApiError as error:
            if error.may_pass and self.line.failures < MOST_FAILURES:
                delay = max(error.retry_after or 0.0, FIRST_DELAY * 2**self.line.failures)
                return self._put_off(delay, is_failure=True)
            answer = self._failed(error)
        return await run_aside(partial(self._result, answer), large=len(answer.body) >= LARGE_BODY)

    def _put_off(self, seconds: float, *, is_failure: bool) -> PutOff:
        return PutOff(self.line.batch, self.line.number, self._parts.database.clock() + seconds, is_failure)

    def failed_by_bug(self) -> LineResult:
        return self._result(self._failed(EngineError(BUG, code="internal_error")))

    def _failed(self, error: ApiError) -> Answer:
        protocol = self._parts.protocols.get(self.line.endpoint, RESPONSES)
        shown = protocol.error(error)
        return Answer(shown.status, shown.body)

    def _result(self, answer: Answer) -> LineResult:
        line, is_output = self.line, 200 <= answer.status < 300
        form = objects.format_of(line.endpoint)
        ids = AnswerIds(new_id("batch_req"), line.custom_id, new_id("req"))
        data = form.answered(ids, answer.status, answer.body, [*self._notices, *answer.notices])
        return LineResult(line.batch, line.number, is_output, data, answer.usage)

    async def _answer(self, stack: AsyncExitStack) -> Answer:
        if self.line.lost >= self._parts.attempts:
            raise EngineError(
                f"The request was begun {counted(self.line.lost, 'time')}, and each time its gateway died.", may_pass=False
            )
        gateway = self._gateway
        await self._count()
        place = gateway.admission.owners.patient_place(self._owner)
        stack.callback(place.leave)
        await place.take()
        body = await self._body()
        protocol = self._parts.protocols.get(self.line.endpoint)
        if protocol is not None:
            arrival = structs.replace(arrive(body, self._owner, protocol), channel=BATCH, path=self.line.endpoint)
            received = await gateway.read(arrival, protocol, patient=True)
            if not received.passes:
                return await self._run_exchange(structs.replace(received, affinity=self.line.prefix or None), stack)
            return await self._pass_on(body, received.notices)
        return await self._pass_on(body, ())

    async def _count(self) -> None:
        """Half of what a key may send in a minute is for the requests of people."""
        owners = self._gateway.admission.owners
        rate = owners.rate(self._owner)
        if rate is not None and rate.remaining <= rate.limit // 2:
            raise NotNow(MINUTE / rate.limit)
        try:
            if (counting := owners.count(self._owner)) is not None:
                await counting
        except RateLimited as full:
            raise NotNow(full.retry_after or FIRST_DELAY) from None
        if (checking := self._gateway.check_budget(self._owner)) is not None:
            await checking

    async def _body(self) -> bytes:
        line, library = self.line, self._parts.library
        file = (await library.find(self._owner, [line.input_file])).get(line.input_file)
        if file is None:
            raise InvalidRequest(GONE, code="file_not_found")
        text = await library.part(file, line.start, line.size)
        request = await run_aside(partial(request_of, text, line.endpoint), large=len(text) >= LARGE_BODY)
        self._notices = unknown_notices(request.unknown)
        return request.body

    # ---- answered by an exchange -------------------------------------------------------------------------------------

    async def _run_exchange(self, received: ReceivedRequest, stack: AsyncExitStack) -> Answer:
        gateway, request = self._gateway, received.request
        # Whoever made the batch waits for all of it.
        request.background = None
        recorder = LineRecorder(
            gateway.store,
            received.arrival.owner,
            request,
            response_id=new_id("resp"),
            retention=gateway.retention,
            owners=gateway.owners,
        )
        recorder.note_calls(self.line, self._note_call)
        try:
            run = await gateway.prepare(received, recorder)
        except ApiError as refused:
            gateway.show_refusal(received.arrival, refused)
            raise
        self.is_placed = True
        await stack.enter_async_context(gateway.running(run))
        await run.connect()
        await run.run(NoSink())
        if run.error is not None:
            raise run.error
        return await run_aside(partial(_whole, run, received), large=run.is_large)

    async def _note_call(self, call: bytes) -> bool:
        parts, line = self._parts, self.line
        return await parts.database.write(batch_lines.begin_call(parts.worker, line.batch, line.number, call))

    # ---- passed through ----------------------------------------------------------------------------------------------

    async def _pass_on(self, body: bytes, notices: Sequence[str]) -> Answer:
        gateway, owner, began = self._gateway, self._owner, asyncio.get_running_loop().time()
        named = await gateway.aside(partial(model_of, body), owner, large=len(body) >= LARGE_BODY, patient=True)
        own = self._parts.embeddings
        if self.line.endpoint == EMBEDDINGS and await own.answers_for(named, gateway):
            answered = await own.answer(gateway, body, owner, patient=True, channel=BATCH)
            return Answer(200, answered, objects.usage_of(answered))
        passed_body = PassedBody(body, named, self.line.prefix or None)
        passed = await PassedRequest.choose(gateway, owner, passed_body, patient=True)
        seat = gateway.admission.engines.seat(owner, patient=True)
        try:
            seat.intend(passed.engine)
            self.is_placed = True
            async with gateway.in_time(began):
                with PassedUsage(gateway.ledger, owner, passed, BATCH) as usage:
                    answer = await passed.ask(self.line.endpoint, seat)
                    seen = usage.begin(passed.body, failed=not answer.ok)
                    try:
                        read = await _read_whole(passed, answer)
                        seen.receive(read)
                    finally:
                        answer.close() if not answer.content.at_eof() else answer.release()
        finally:
            seat.leave()
        if answer.status in MAY_PASS and self.line.failures < MOST_FAILURES:
            raise EngineError(f"The engine at {passed.engine.root} answers with HTTP {answer.status}.")
        said = [*notices, *passed.notices, *filter(None, [gateway.budgets.notice(owner)])]
        return await run_aside(partial(_passed_on, passed, answer.status, read, said), large=len(read) >= LARGE_BODY)


async def _read_whole(passed: PassedRequest, answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in passed.engine.pieces(answer):
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise EngineDisagrees(f"The engine's answer is larger than {counted(LARGEST_ANSWER, 'byte')}.", may_pass=False)
    return bytes(body)


def _passed_on(passed: PassedRequest, status: int, body: bytes, notices: Sequence[str]) -> Answer:
    """On one line."""
    try:
        line = msgspec.json.format(body, indent=-1)
    except UNREADABLE:
        problem = f"The engine at {passed.engine.root} answered with HTTP {status} and a body that is not JSON."
        raise EngineDisagrees(problem, may_pass=False) from None
    return Answer(status, line, objects.usage_of(line), notices)


def _whole(run: ResponseRun, received: ReceivedRequest) -> Answer:
    response = run.response
    whole = received.protocol.whole(response, received.request, received.facts)
    protocol = received.protocol
    # Those of the Responses API are in the response.
    notices = () if protocol.is_responses else [*map(received.in_own_words, response.antiphon_notices or ())]
    return Answer(200, whole if isinstance(whole, bytes) else b"".join(whole), _usage(response), notices)


def _usage(response: Response) -> Usage:
    usage = response.usage
    if usage is None:
        return Usage()
    cached, reasoning = usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens
    return Usage(usage.input_tokens, cached, usage.output_tokens, reasoning)
