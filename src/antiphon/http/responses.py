"""POST /v1/responses: as JSON, or as server-sent events."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from aiohttp import web

from antiphon.background.followers import follow
from antiphon.errors import EngineError
from antiphon.gateway.gateway import Enqueued, Gateway, output_text
from antiphon.gateway.recorder import record_to_response
from antiphon.gateway.run import Turn
from antiphon.gateway.sinks import Nobody
from antiphon.http.answers import to_json
from antiphon.http.middlewares import LOGGED, OWNER, REQUEST_ID
from antiphon.store.records import Record
from antiphon.transport import Transport
from antiphon.wire.responses import CompactedResponse

GATEWAY = web.AppKey("gateway", Gateway)
TRANSPORT = web.AppKey("transport", Transport)

LONGEST_NOTICE = 4000


async def create(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    turn = await gateway.begin_or_enqueue(await request.read(), request[OWNER])
    if isinstance(turn, Enqueued):
        return await _enqueued(request, turn)
    async with gateway.running(turn):
        try:
            if turn.streams:
                return await _stream(request, turn, gateway.settings.heartbeat)
            return await _whole(turn)
        finally:
            note(request, turn)


async def compact(request: web.Request) -> web.StreamResponse:
    """The conversation as one sealed summary, to be sent back in its place."""
    gateway = request.app[GATEWAY]
    turn = await gateway.begin(await request.read(), request[OWNER], compact=True)
    async with gateway.running(turn):
        try:
            await _drained(turn)
        finally:
            note(request, turn)
    response = turn.response
    if response.incomplete_details is not None:
        # Half a hand-over would be taken for a whole one.
        raise EngineError(f"The summary was cut off ({response.incomplete_details.reason}). Allow it more tokens.")
    compacted = CompactedResponse(id=response.id, created_at=response.created_at, output=response.output, usage=response.usage)
    return web.Response(
        body=msgspec.json.encode(compacted), content_type="application/json", headers=_notice_header(turn.notices)
    )


async def input_tokens(request: web.Request) -> web.StreamResponse:
    counted = await request.app[GATEWAY].count_input(await request.read(), request[OWNER])
    answer = to_json({"object": "response.input_tokens", "input_tokens": counted.tokens})
    answer.headers["antiphon-notice"] = f"input_tokens were {counted.how}"
    return answer


async def _drained(turn: Turn) -> None:
    await turn.connect()
    await turn.run(Nobody())
    if turn.error is not None:
        raise turn.error


async def _whole(turn: Turn) -> web.StreamResponse:
    await _drained(turn)
    turn.response.output_text = output_text(turn.response)
    return web.Response(
        body=msgspec.json.encode(turn.response), content_type="application/json", headers=_notice_header(turn.notices)
    )


async def _stream(request: web.Request, turn: Turn, patience: float) -> web.StreamResponse:
    await turn.connect(patience)
    response = _event_stream(request, turn.notices)
    async with request.app[TRANSPORT].open_events(request, response) as stream:
        await turn.run(stream)
    return response


def _event_stream(request: web.Request, notices: Sequence[str]) -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
            "x-request-id": request[REQUEST_ID],
            **_notice_header(notices),
        }
    )


async def _enqueued(request: web.Request, enqueued: Enqueued) -> web.StreamResponse:
    record = enqueued.record
    request[LOGGED].update(response_id=record.id, stream=enqueued.streams, outcome=record.status)
    if enqueued.streams:
        return await followed(request, record, -1, enqueued.notices)
    body = msgspec.json.encode(record_to_response(record))
    return web.Response(body=body, content_type="application/json", headers=_notice_header(enqueued.notices))


def as_they_are(frames: bytes) -> bytes:
    return frames


async def followed(
    request: web.Request,
    record: Record,
    after: int,
    notices: Sequence[str] = (),
    shown: Callable[[bytes], bytes] = as_they_are,
) -> web.StreamResponse:
    """A background response as a stream. A client that drops can come back: the response goes on without it."""
    gateway = request.app[GATEWAY]
    response = _event_stream(request, notices)
    await response.prepare(request)
    async with aclosing(follow(gateway.store, record, after, gateway.settings.heartbeat)) as frames:
        async for frame in frames:
            await response.write(shown(frame))
    await response.write_eof()
    return response


def note(request: web.Request, turn: Turn) -> None:
    request[LOGGED].update(noted(turn))


def noted(turn: Turn) -> dict[str, Any]:
    """What the log tells of a turn."""
    response = turn.response
    members: dict[str, Any] = {
        "response_id": response.id,
        "model": response.model,
        "engine": turn.engine.root,
        "dialect": turn.engine.dialect.name,
        "stream": turn.streams,
        "outcome": response.status,
    }
    if response.usage is not None:
        members |= {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
    if turn.error is not None:
        members["error"] = turn.error.code or turn.error.kind
    if turn.notices:
        members["notices"] = turn.notices
    return members


def _notice_header(notices: Sequence[str]) -> dict[str, str]:
    text = "; ".join(notices)
    if not text:
        return {}
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return {"antiphon-notice": plain[:LONGEST_NOTICE]}
