"""POST /v1/responses, and the requests of other protocols: answered as JSON, or as server-sent events."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import partial

from aiohttp import hdrs, web
from multidict import istr

from antiphon.core.prompt.conversation import user_messages
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.errors import ApiError, EngineError
from antiphon.gateway.background.followers import follow
from antiphon.gateway.limits.threads import run_aside
from antiphon.gateway.runs.gateway import Enqueued, ReceivedRequest
from antiphon.gateway.runs.input_counts import count_input
from antiphon.gateway.runs.observers import arrive
from antiphon.gateway.runs.outbox import EncodedSink, NoSink
from antiphon.gateway.runs.run import ResponseRun, Running
from antiphon.gateway.runs.status import run_summary
from antiphon.gateway.state.record_format import record_to_response
from antiphon.ids import new_id
from antiphon.server.answers import id_header, notice_header, to_answer, to_json
from antiphon.server.bodies import Bodies
from antiphon.server.parts import APP
from antiphon.server.request_state import OWNER, STATE, add_to_log, is_from_sibling
from antiphon.server.routes.containers import relayed_response
from antiphon.server.routes.passed_through import pass_received
from antiphon.server.routes.views import ALL_AS_STORED, View
from antiphon.store.records import Record
from antiphon.wire.messages import TokensCounted
from antiphon.wire.responses import CompactedResponse, Response

# The name of a header is made once: for each stream that is open, it would take 90 bytes.
ACCEL_BUFFERING = istr("X-Accel-Buffering")
# Of the events of a background response, so many bytes are written at once.
LARGEST_PIECE = 256 * 1024


async def create(request: web.Request, bodies: Bodies, protocol: ClientProtocol = RESPONSES) -> web.StreamResponse:
    if protocol.may_pass:
        # Unless it turns out to be one to pass on.
        request[STATE].way = "reliable"
    app, body = request.app[APP], await bodies.read(request)
    gateway, several = app.gateway, bool(app.siblings.others)
    received = await gateway.receive(
        arrive(body, request[OWNER], protocol, request.headers),
        protocol,
        model=request.match_info.get("deployment"),
        is_counted=several and is_from_sibling(request),
    )
    if received.passes:
        return await pass_received(request, received)
    if several and (elsewhere := await relayed_response(request, received.request, body)) is not None:
        return elsewhere
    try:
        if received.request.background:
            return await _answer_enqueued(request, await gateway.enqueue(received))
        run = await gateway.begin(received)
        async with Running(gateway.in_flight, run):
            try:
                return await (_stream if received.request.stream else _answer_whole)(request, run, received)
            finally:
                add_to_log(request, partial(run_summary, run))
    except ApiError as error:
        error.reword(received.in_own_words)
        raise


async def compact(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    """The conversation as a window that clients send back in its place: the user's messages, and one sealed summary.

    The summary covers all of them, and replaces them when the window comes back: only the client reads them there.
    """
    gateway, body = request.app[APP].gateway, await bodies.read(request)
    arrival = arrive(body, request[OWNER], headers=request.headers, compact=True)
    run = await gateway.begin(await gateway.receive(arrival, model=request.match_info.get("deployment")), compact=True)
    async with gateway.running(run):
        try:
            await run.connect()
            if (error := await run.run(NoSink())) is not None:
                raise error
        finally:
            add_to_log(request, partial(run_summary, run))
    response = run.response
    if response.incomplete_details is not None:
        # Half a summary would be taken for a whole one.
        raise EngineError(f"The summary was cut off ({response.incomplete_details.reason}). Allow it more tokens.")
    return await run_aside(partial(_window, run, response), large=run.is_large)


def _window(run: ResponseRun, response: Response) -> web.Response:
    window = [*user_messages(run.items, new_id), *response.output]
    compacted = CompactedResponse(id=response.id, created_at=response.created_at, output=window, usage=response.usage)
    return to_json(compacted, notice_header(run.notices))


async def input_tokens(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    arrival = arrive(await bodies.read(request), request[OWNER])
    counted = await count_input(request.app[APP].gateway, arrival, model=request.match_info.get("deployment"))
    return to_json({"object": "response.input_tokens", "input_tokens": counted.tokens}, notice_header(counted.notices))


async def count_tokens(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    """The same for a request of Anthropic Messages."""
    arrival = arrive(await bodies.read(request), request[OWNER], MESSAGES, request.headers)
    counted = await count_input(request.app[APP].gateway, arrival, MESSAGES)
    headers = notice_header(counted.notices) | id_header(MESSAGES, request[STATE].id)
    return to_json(TokensCounted(counted.tokens), headers)


async def _answer_whole(request: web.Request, run: ResponseRun, received: ReceivedRequest) -> web.StreamResponse:
    await run.connect()
    if (error := await run.run(NoSink())) is not None:
        raise error
    response, protocol = run.response, received.protocol
    headers = notice_header([*map(received.in_own_words, notices)]) if (notices := response.antiphon_notices) else {}
    if protocol.id_header is not None:
        headers[protocol.id_header] = request[STATE].id
    return to_answer(protocol.whole(response, received.request, received.facts), protocol.whole_type, headers)


async def _stream(request: web.Request, run: ResponseRun, received: ReceivedRequest) -> web.StreamResponse:
    app, protocol = request.app[APP], received.protocol
    await run.connect(app.gateway.equipment.timeouts.heartbeat)
    if not protocol.is_responses and run.error is not None:
        # Only clients of the Responses API know such an error as an event.
        raise run.error
    response = _event_stream(protocol, [*map(received.in_own_words, run.notices)])
    if protocol.id_header is not None:
        response.headers[protocol.id_header] = request[STATE].id
    async with app.transport.open_events(request, response) as stream:
        try:
            await run.run(EncodedSink(stream, protocol.encoder(received.request, received.facts)))
        except ConnectionError:
            # What it has not read is not kept for it.
            if request.transport is not None:
                request.transport.abort()
            raise
        # A client may close the connection now, before the end of the body.
        request[STATE].finished = True
    return response


def _event_stream(protocol: ClientProtocol, notices: Sequence[str]) -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            hdrs.CONTENT_TYPE: protocol.stream_type,
            hdrs.CACHE_CONTROL: "no-cache",
            ACCEL_BUFFERING: "no",
            **(notice_header(notices) if notices else {}),
        }
    )


# ---- background responses --------------------------------------------------------------------------------------------


async def _answer_enqueued(request: web.Request, enqueued: Enqueued) -> web.StreamResponse:
    record = enqueued.record
    request[STATE].logged.update(response_id=record.id, stream=enqueued.streams, outcome=record.status)
    if enqueued.streams:
        return await answer_followed(request, record, -1, enqueued.notices)
    whole = RESPONSES.whole(record_to_response(record))
    return to_answer(whole, RESPONSES.whole_type, notice_header(enqueued.notices))


async def answer_followed(
    request: web.Request, record: Record, after: int, notices: Sequence[str] = (), view: View = ALL_AS_STORED
) -> web.StreamResponse:
    """A background response as a stream. A client that drops can come back: the response runs on without it."""
    gateway = request.app[APP].gateway
    response = _event_stream(RESPONSES, notices)
    await response.prepare(request)
    async with aclosing(follow(gateway.store, record, after, gateway.heartbeat, whole=view.reads)) as frames:
        async for frame in frames:
            for piece in in_pieces(view.frames(frame)):
                await response.write(piece)
    request[STATE].finished = True
    await response.write_eof()
    return response


def in_pieces(frames: bytes, size: int = LARGEST_PIECE) -> Iterator[bytes | memoryview]:
    """The next piece waits until the client has taken the one before: a long event is not copied for each that follows it.

    No piece begins with the end of a frame: a parser may drop it.
    """
    if len(frames) <= 2 * size:
        yield frames
        return
    whole, start = memoryview(frames), 0
    while start < len(frames):
        end = min(start + size, len(frames))
        while frames[end : end + 1] == b"\n":
            end += 1
        yield whole[start:end]
        start = end
