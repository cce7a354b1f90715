"""Routes that are passed through: the body goes to the engine as it came, and the answer comes back as it is.

Headers are not passed on, in either direction, but for those that are listed here.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial

import aiohttp
from aiohttp import web

from antiphon.core.knowledge.retry_advice import headers_to_advice
from antiphon.core.protocols.client_protocol import JSON
from antiphon.engines.bodies import read_error
from antiphon.engines.upstream import Engine
from antiphon.errors import ApiError, NotFound, seconds_to_header
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.passed_through.requests import PassedBody, PassedRequest, PassedUsage, model_of
from antiphon.gateway.runs.gateway import Gateway, ReceivedRequest
from antiphon.gateway.usage.counting import PassedAnswer
from antiphon.server.answers import notice_header, to_answer
from antiphon.server.bodies import Bodies, in_turn
from antiphon.server.parts import APP
from antiphon.server.paths import canonical_path, is_form
from antiphon.server.request_state import OWNER, STATE
from antiphon.server.routes.multipart import LONGEST_FIELD, FormReader, PartStart, boundary_of

# The headers of an engine's answer that the client gets. `Retry-After` comes in whole seconds; `x-request-id` and
# `openai-processing-ms` are the gateway's own. The others are about a connection or a server, or are secrets, as `Set-Cookie`,
# or name the operator's account, as `openai-organization` and `openai-project`.
PASSED_ON = frozenset({"cache-control", "content-type", "openai-model", "openai-version", "x-should-retry"})
EMBEDDINGS, COMPLETIONS = "/v1/embeddings", "/v1/completions"
PASSED_ON_FAMILIES = ("x-ratelimit-",)


def answer_to_headers(headers: Mapping[str, str], now: float) -> dict[str, str]:
    """`now`: in seconds since 1970."""
    passed = {name: value for name, value in headers.items() if _is_passed_on(name.lower()) and _is_plain(value)}
    after = headers_to_advice(headers, now).after
    return passed if after is None else passed | {"Retry-After": seconds_to_header(after)}


def _is_passed_on(name: str) -> bool:
    return name in PASSED_ON or name.startswith(PASSED_ON_FAMILIES)


def _is_plain(value: str) -> bool:
    """Other values cannot be sent, or not be read."""
    return value.isascii() and value.isprintable()


async def passed_through(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    """Only the model is changed, if another one answers."""
    request[STATE].way = "pass"
    body = await bodies.read(request)
    await _check_budget(request)
    async with request.app[APP].gateway.admission.entered(request[OWNER]) as seat:
        named = await in_turn(request, partial(model_of, body), large=len(body) >= LARGE_BODY)
        return await _pass_through(request, PassedBody(body, named), seat)


async def _check_budget(request: web.Request) -> None:
    if (checking := request.app[APP].gateway.check_budget(request[OWNER])) is not None:
        await checking


async def embeddings(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    """The engine's, or those of the model that comes with Antiphon."""
    request[STATE].way = "pass"
    body, app = await bodies.read(request), request.app[APP]
    await _check_budget(request)
    async with app.gateway.admission.entered(request[OWNER]) as seat:
        named = await in_turn(request, partial(model_of, body), large=len(body) >= LARGE_BODY)
        own = app.resources.embeddings
        if not await own.answers_for(named, app.gateway):
            return await _pass_through(request, PassedBody(body, named), seat)
        request[STATE].logged["model"] = named
        return to_answer(await own.answer(app.gateway, body, request[OWNER]), JSON, {})


# ---- what only some engines serve: sounds, images, ranks, moderations ------------------------------------------------

# How an engine says that it has no such route, or no such model there.
NOT_SERVED = frozenset({404, 405, 501})
NOBODY = "No engine serves POST {path} here. {said}"
SAID = "{root} answers with HTTP {status}."


async def passed_to_its_engine(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    """To the engines that have its model, and if none has, to all, one after another, until one of them serves it. The body is
    JSON or a form."""
    app, body = request.app[APP], await bodies.read(request)
    kind, path = request.headers.get("Content-Type", JSON), canonical_path(request)
    read = partial(_model_in_form, body, kind) if is_form(request) else partial(model_of, body)
    await _check_budget(request)
    async with app.gateway.admission.entered(request[OWNER]) as seat:
        named = await in_turn(request, read, large=len(body) >= LARGE_BODY)
        engines = await _engines_for(named or request.match_info.get("deployment"), app.gateway)
        refusals = []
        async with app.open.answers.opened(), app.gateway.in_time(asyncio.get_running_loop().time()):
            for engine in engines:
                await seat.take(engine)
                answer = await engine.post(path, body, {"Content-Type": kind})
                if answer.status not in NOT_SERVED:
                    request[STATE].logged |= {"engine": engine.root, "model": named}
                    response = web.StreamResponse()
                    passed = PassedRequest(body, engine, named, ())
                    with PassedUsage(app.gateway.ledger, request[OWNER], passed, "passed") as usage:
                        # Sounds and images are no text: without a word of the engine, nothing is estimated.
                        await _pass_on(answer, engine, request, response, usage.begin(b"", failed=not answer.ok))
                    return response
                # Read, so that the engine is not cut off in the middle of its sentence.
                await read_error(answer)
                refusals.append(SAID.format(root=engine.root, status=answer.status))
    raise NotFound(NOBODY.format(path=path, said=" ".join(refusals)), code="not_served")


async def _engines_for(model: str | None, gateway: Gateway) -> Sequence[Engine]:
    try:
        return (await gateway.pool.choose(model, None)).engines
    except NotFound:
        # An engine for sounds or images may list no models, or others.
        return await gateway.pool.ready_engines()


def _model_in_form(body: bytes, content_type: str) -> str | None:
    """The field `model` of a form."""
    reader, name, value = FormReader(boundary_of(content_type)), None, b""
    for event in reader.receive(body):
        if isinstance(event, PartStart):
            name, value = event.name, b""
        elif name == "model":
            if not isinstance(event, bytes):
                return value.decode(errors="replace")
            value = (value + event)[:LONGEST_FIELD]
    return None


async def pass_received(request: web.Request, received: ReceivedRequest) -> web.StreamResponse:
    """The same for a request that its protocol has read."""
    request[STATE].way = "pass"
    arrival, gateway = received.arrival, request.app[APP].gateway
    body = PassedBody(arrival.body, received.request.model)
    try:
        async with gateway.admission.entered(request[OWNER], is_counted=True) as seat:
            answer = await _pass_through(request, body, seat, received.notices)
    except ApiError as error:
        gateway.show_refusal(arrival, error)
        raise
    logged = request[STATE].logged
    gateway.show_passed(arrival, logged["model"], logged["engine"], answer.status)
    return answer


async def _pass_through(
    request: web.Request, body: PassedBody, seat: EngineSeat, notices: Sequence[str] = ()
) -> web.StreamResponse:
    gateway, began = request.app[APP].gateway, asyncio.get_running_loop().time()
    passed = await PassedRequest.choose(gateway, request[OWNER], body, request.match_info.get("deployment"))
    request[STATE].logged |= {"engine": passed.engine.root, "model": passed.model}
    spent, path = gateway.budgets.notice(gateway.owners.current(request[OWNER])), canonical_path(request)
    said = [*notices, *passed.notices, *([spent] if spent is not None else ())]
    response = web.StreamResponse(headers=notice_header(said))
    channel = path.rpartition("/")[2] if path in (EMBEDDINGS, COMPLETIONS) else "passed"
    async with request.app[APP].open.answers.opened(), gateway.in_time(began):
        with PassedUsage(gateway.ledger, request[OWNER], passed, channel) as usage:
            answer = await passed.ask(path, seat)
            await _pass_on(answer, passed.engine, request, response, usage.begin(passed.body, failed=not answer.ok))
    return response


async def _pass_on(
    answer: aiohttp.ClientResponse,
    engine: Engine,
    request: web.Request,
    response: web.StreamResponse,
    seen: PassedAnswer,
) -> None:
    try:
        response.set_status(answer.status)
        response.headers.update(answer_to_headers(answer.headers, time.time()))
        await response.prepare(request)
        async for data in engine.pieces(answer):
            seen.receive(data)
            await response.write(data)
        await response.write_eof()
    finally:
        answer.close() if not answer.content.at_eof() else answer.release()
