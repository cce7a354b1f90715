"""The Responses API for a server that has Chat Completions: POST /v1/responses, streamed and whole.

pip install . fastapi httpx uvicorn
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
from antiphon import AnyEvent, Ask, Check, Done, EngineKnowledge, Environment, Estimate, Exchange, SseEncoder, errors
from antiphon.core.knowledge import dialects

app = FastAPI()
engine = httpx.AsyncClient(base_url=os.environ["ENGINE_URL"], timeout=httpx.Timeout(600, connect=5))
# Shared by all requests: what was learned about the engine, and which schemas compile.
knowledge, environment = EngineKnowledge(dialects.PLAIN), Environment(new_id=antiphon.new_id, now=time.time)


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
    # Comes once the engine has accepted the request: an error before it is an HTTP error.
    first = await anext(events)
    if request.stream:
        return StreamingResponse(to_sse(first, events), media_type="text/event-stream")
    async for _event in events:
        pass
    if exchange.error is not None:
        raise exchange.error
    return Response(msgspec.json.encode(exchange.response), media_type="application/json")


async def respond(exchange: Exchange) -> AsyncIterator[list[AnyEvent]]:
    unsent = exchange.start()
    while not isinstance(step := exchange.step, Done):
        try:
            if isinstance(step, Ask):
                async with engine.stream("POST", "/chat/completions", content=antiphon.chat_to_bytes(step.chat)) as answer:
                    if answer.status_code != 200:
                        unsent += exchange.refused(antiphon.http_answer_to_error(answer.status_code, await answer.aread()))
                        continue
                    async for data in answer.aiter_bytes():
                        yield [*unsent, *exchange.receive(data)]
                        unsent = []
                        if not exchange.reading:
                            break
                unsent += exchange.finish()
            elif isinstance(step, Check):
                unsent += exchange.checked(await asyncio.to_thread(antiphon.run_check, step.work))
            elif isinstance(step, Estimate):
                # The engine reports no usage. It could be estimated; here it stays null.
                unsent += exchange.estimated([])
        except httpx.HTTPError as broken:
            unsent += exchange.abort(errors.EngineUnavailable(f"The connection to the engine failed: {broken!r}"))
    if exchange.error is not None and any(isinstance(event, antiphon.events.ResponseCreated) for event in unsent):
        raise exchange.error
    # A server that stores responses stores `exchange.response` between `end()` and the last event.
    yield [*unsent, *exchange.end()]


async def to_sse(first: list[AnyEvent], events: AsyncIterator[list[AnyEvent]]) -> AsyncIterator[bytes]:
    encoder = SseEncoder()
    yield b"".join(map(encoder.encode, first))
    async for emitted in events:
        yield b"".join(map(encoder.encode, emitted))
    yield b"".join(encoder.end)
