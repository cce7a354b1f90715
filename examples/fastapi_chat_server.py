"""The Responses API for a server that has Chat Completions: POST /v1/responses, streamed and whole.

pip install antiphon fastapi httpx uvicorn
ENGINE_URL=http://127.0.0.1:8080/v1 uvicorn --app-dir examples fastapi_chat_server:app
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator

import httpx
import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

import antiphon
from antiphon import AnyEvent, Ask, Check, Done, EngineKnowledge, Environment, Estimate, Exchange, SseEncoder, dialects, errors

app = FastAPI()
engine = httpx.AsyncClient(
    base_url=os.environ["ENGINE_URL"],
    headers={"Content-Type": "application/json"},
    timeout=httpx.Timeout(600, connect=5),
)
# Both are shared by all requests: what was learned about the engine, and which schemas are valid.
knowledge = EngineKnowledge(dialects.PLAIN)
environment = Environment(new_id=antiphon.new_id, now=time.time)


@app.exception_handler(errors.ApiError)
async def answer_error(request: Request, error: errors.ApiError) -> Response:
    return JSONResponse(error.envelope(), error.status)


@app.post("/v1/responses")
async def create_response(http_request: Request) -> Response:
    request, _unknown_fields = antiphon.body_to_request(await http_request.body())
    if request.previous_response_id or request.conversation or request.background:
        raise errors.InvalidRequest("This server stores no responses: send the whole conversation as `input`.")
    request.store = False
    exchange = Exchange(request, [knowledge], environment)
    events = respond(exchange)
    if request.stream:
        # Waits for the first event, so that an error before it is an HTTP error.
        return StreamingResponse(to_sse(await anext(events), events), media_type="text/event-stream")
    async for _event in events:
        pass
    if exchange.error is not None:
        raise exchange.error
    return Response(msgspec.json.encode(exchange.response), media_type="application/json")


async def respond(exchange: Exchange) -> AsyncIterator[AnyEvent]:
    """Every event of the response. Raises what goes wrong before there is anything to send."""
    unsent = exchange.start()
    while not isinstance(exchange.step, Done):
        async for emitted in take_step(exchange):
            if not emitted:
                continue
            for event in (*unsent, *emitted):
                yield event
            unsent = []
    if unsent and exchange.error is not None:
        raise exchange.error
    # A server that stores responses stores `exchange.response` between `end()` and the last event.
    for event in (*unsent, *exchange.end()):
        yield event


async def take_step(exchange: Exchange) -> AsyncIterator[list[AnyEvent]]:
    match exchange.step:
        case Ask(chat=chat):
            async for events in ask(exchange, antiphon.chat_to_bytes(chat)):
                yield events
        case Check(work=work):
            yield exchange.checked(await asyncio.to_thread(antiphon.run_check, work))
        case Estimate():
            # The engine reports no usage. It could be estimated; here it stays null.
            yield exchange.estimated([])


async def ask(exchange: Exchange, body: bytes) -> AsyncIterator[list[AnyEvent]]:
    try:
        async with engine.stream("POST", "/chat/completions", content=body) as answer:
            if answer.status_code != 200:
                yield exchange.refused(antiphon.http_answer_to_error(answer.status_code, await answer.aread()))
                return
            async for data in answer.aiter_bytes():
                yield exchange.receive(data)
                if not exchange.reading:
                    break
    except httpx.HTTPError as broken:
        yield exchange.finish(errors.EngineUnavailable(f"The connection to the engine failed: {broken!r}"))
    else:
        yield exchange.finish()


async def to_sse(first: AnyEvent, events: AsyncIterator[AnyEvent]) -> AsyncIterator[bytes]:
    encoder = SseEncoder()
    yield encoder.encode(first)
    async for event in events:
        yield encoder.encode(event)
    for last in encoder.end:
        yield last
