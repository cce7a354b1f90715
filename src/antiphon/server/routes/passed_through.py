"""Routes that are passed through: the body goes to the engine as it came, and the answer comes back as it is.

Headers are not passed on, in either direction, but for those that are listed here.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import aiohttp
from aiohttp import web

from antiphon.core.knowledge.retry_advice import headers_to_advice
from antiphon.engines.upstream import Engine
from antiphon.errors import seconds_to_header
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.runs.gateway import ReceivedRequest
from antiphon.gateway.usage.counting import PassedAnswer
from antiphon.gateway.usage.ledger import NO_MODEL
from antiphon.server.answers import notice_header
from antiphon.server.bodies import Bodies, in_turn, model_of, with_model
from antiphon.server.parts import APP
from antiphon.server.paths import canonical_path
from antiphon.server.request_state import OWNER, STATE

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
    body = await bodies.read(request)
    if (checking := request.app[APP].gateway.check_budget(request[OWNER])) is not None:
        await checking
    async with request.app[APP].gateway.admission.entered(request[OWNER]) as seat:
        named = await in_turn(request, partial(model_of, body), large=len(body) >= LARGE_BODY)
        return await _pass_through(request, body, named, seat)


async def pass_received(request: web.Request, received: ReceivedRequest) -> web.StreamResponse:
    """The same for a request that its protocol has read."""
    body, named = received.arrival.body, received.request.model
    async with request.app[APP].gateway.admission.entered(request[OWNER], is_counted=True) as seat:
        return await _pass_through(request, body, named, seat, received.notices)


async def _pass_through(
    request: web.Request, body: bytes, named: str | None, seat: EngineSeat, notices: Sequence[str] = ()
) -> web.StreamResponse:
    """`named`: the model that the body names."""
    gateway, began = request.app[APP].gateway, asyncio.get_running_loop().time()
    large = len(body) >= LARGE_BODY
    asked = named if named is not None else request.match_info.get("deployment")
    chosen = await gateway.pool.choose(asked, None)
    model = chosen.model if chosen.model is not None else asked
    if model is not None and model != named:
        body = await in_turn(request, partial(with_model, body, model), large=large)
    engine = chosen.engines[0]
    request[STATE].logged |= {"engine": engine.root, "model": chosen.model or engine.knowledge.default_model}
    spent = gateway.budgets.notice(gateway.owners.current(request[OWNER]))
    said = [*notices, *chosen.notices, *([spent] if spent is not None else ())]
    response = web.StreamResponse(headers=notice_header(said))
    async with request.app[APP].open.answers.opened(), gateway.in_time(began):
        await seat.take(engine)
        with _counted(request, model or engine.knowledge.default_model) as counted:
            answer = await engine.post(canonical_path(request), body)
            counted.begin(body, failed=not answer.ok)
            await _pass_on(answer, engine, request, response, counted)
    return response


class _Counted:
    """What is used by a request that is passed through, whatever becomes of it."""

    def __init__(self) -> None:
        self.answer = PassedAnswer(b"", failed=True)

    def begin(self, body: bytes, *, failed: bool) -> None:
        self.answer = PassedAnswer(body, failed=failed)


@contextmanager
def _counted(request: web.Request, model: str | None) -> Iterator[_Counted]:
    counted, path = _Counted(), canonical_path(request)
    channel = path.rpartition("/")[2] if path in (EMBEDDINGS, COMPLETIONS) else "passed"
    try:
        yield counted
    finally:
        request.app[APP].gateway.ledger.count(request[OWNER], model or NO_MODEL, channel, counted.answer.counts())


async def _pass_on(
    answer: aiohttp.ClientResponse,
    engine: Engine,
    request: web.Request,
    response: web.StreamResponse,
    counted: _Counted,
) -> None:
    try:
        response.set_status(answer.status)
        response.headers.update(answer_to_headers(answer.headers, time.time()))
        await response.prepare(request)
        async for data in engine.pieces(answer):
            counted.answer.receive(data)
            await response.write(data)
        await response.write_eof()
    finally:
        answer.close() if not answer.content.at_eof() else answer.release()
