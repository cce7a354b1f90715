"""Routes that are passed through: the body goes to the engine as it came, and the answer comes back as it is.

Headers are not passed on, in either direction, but for those that are listed here.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
from aiohttp import web

from antiphon.core.knowledge.retry_advice import headers_to_advice
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineUnavailable, seconds_to_header
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.runs.in_flight import SHUTTING_DOWN
from antiphon.server.answers import notice_header
from antiphon.server.app_keys import GATEWAY
from antiphon.server.bodies import (
    Bodies,
    in_turn,
    model_of,
    with_model,
)
from antiphon.server.paths import canonical_path
from antiphon.server.request_state import OWNER, STATE

# The headers of an engine's answer that the client gets. `Retry-After` comes in whole seconds; `x-request-id` and
# `openai-processing-ms` are the gateway's own. The others are about a connection or a server, or are secrets, as `Set-Cookie`,
# or name the operator's account, as `openai-organization` and `openai-project`.
PASSED_ON = frozenset({"cache-control", "content-type", "openai-model", "openai-version", "x-should-retry"})
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


class OpenAnswers:
    """The answers that are being passed through. A shutdown waits for them."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()
        # On the clock of the event loop.
        self._deadline: float | None = None

    @property
    def count(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Ends its block with an error when the time for a shutdown is over."""
        try:
            async with asyncio.timeout_at(self._deadline) as timeout:
                self._open.add(timeout)
                self._none_open.clear()
                try:
                    yield
                finally:
                    self._open.discard(timeout)
                    if not self._open:
                        self._none_open.set()
        except TimeoutError:
            raise EngineUnavailable(SHUTTING_DOWN, retry_after=1) from None

    async def drain(self, within: float) -> None:
        """Lets them finish for so many seconds, and ends the others."""
        self._deadline = asyncio.get_running_loop().time() + within
        for timeout in self._open:
            timeout.reschedule(self._deadline)
        await self._none_open.wait()


OPEN_ANSWERS = web.AppKey("open_answers", OpenAnswers)


async def passed_through(request: web.Request, bodies: Bodies) -> web.StreamResponse:
    """Only the model is changed, if another one answers."""
    body = await bodies.read_prompt(request)
    async with request.app[GATEWAY].admission.entered(request[OWNER]) as seat:
        return await _pass_through(request, body, seat)


async def _pass_through(request: web.Request, body: bytes, seat: EngineSeat) -> web.StreamResponse:
    gateway, began = request.app[GATEWAY], asyncio.get_running_loop().time()
    large = len(body) >= LARGE_BODY
    asked = await in_turn(request, partial(model_of, body), large=True) if large else model_of(body)
    chosen = await gateway.pool.choose(asked, None)
    if chosen.model is not None and chosen.model != asked:
        body = await in_turn(request, partial(with_model, body, chosen.model), large=large)
    engine = chosen.engines[0]
    request[STATE].logged |= {"engine": engine.root, "model": chosen.model or engine.knowledge.default_model}
    response = web.StreamResponse(headers=notice_header(chosen.notices))
    async with request.app[OPEN_ANSWERS].opened(), gateway.in_time(began):
        await seat.take(engine)
        await _pass_on(await engine.post(canonical_path(request), body), engine, request, response)
    return response


async def _pass_on(answer: aiohttp.ClientResponse, engine: Engine, request: web.Request, response: web.StreamResponse) -> None:
    try:
        response.set_status(answer.status)
        response.headers.update(answer_to_headers(answer.headers, time.time()))
        await response.prepare(request)
        async for data in engine.pieces(answer):
            await response.write(data)
        await response.write_eof()
    finally:
        answer.close() if not answer.content.at_eof() else answer.release()
