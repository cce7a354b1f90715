"""The engines' own: their models, their readiness, and the routes that are passed through unchanged."""

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from antiphon.core.knowledge import Model
from antiphon.engines.upstream import ours
from antiphon.errors import EngineError, EngineUnavailable, InvalidRequest, NotFound
from antiphon.gateway.codex_catalog import catalog_entry
from antiphon.http.answers import to_json
from antiphon.http.keys import GATEWAY, LIMITS
from antiphon.http.middlewares import LOGGED, REQUEST_ID
from antiphon.http.paths import canonical_path, read_body
from antiphon.wire import UNREADABLE

# Headers about one connection or about the coding of a body, and not about the answer.
HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-request-id",
    }
)


async def health(request: web.Request) -> web.Response:
    return to_json({"status": "ok"})


async def ready(request: web.Request) -> web.Response:
    pool = request.app[GATEWAY].pool
    if not pool.ready:
        await asyncio.gather(*(engine.identify() for engine in pool.engines))
    if not pool.ready:
        raise EngineUnavailable("No engine is ready.", retry_after=1)
    return to_json(
        {
            "status": "ready",
            "engines": [
                {"url": engine.root, "dialect": engine.dialect.name, "models": [model.id for model in engine.models]}
                for engine in pool.engines
                if engine.ready
            ],
        }
    )


async def models(request: web.Request) -> web.Response:
    """One body for both kinds of clients: OpenAI's `data`, and the `models` that Codex reads."""
    found = await _models(request)
    window = request.app[LIMITS].context_window
    return to_json(
        {
            "object": "list",
            "data": [_to_openai(known) for known in found.values()],
            "models": [catalog_entry(known.id, window=known.window or window, vision=known.vision) for known in found.values()],
        }
    )


async def model(request: web.Request) -> web.Response:
    name = request.match_info["id"].rstrip("/")
    found = (await _models(request)).get(name)
    if found is None:
        raise NotFound(f"The model {name!r} does not exist.", param="model", code="model_not_found")
    return to_json(_to_openai(found))


async def passed_through(request: web.Request) -> web.StreamResponse:
    """The body goes to the engine as it came, and the answer comes back as it is."""
    body = await read_body(request)
    engine = (await request.app[GATEWAY].pool.choose(_model_of(body), None))[0]
    request[LOGGED]["engine"] = engine.root
    answer = await engine.post(canonical_path(request), body)
    response = web.StreamResponse(
        status=answer.status,
        headers={name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP},
    )
    response.headers["x-request-id"] = request[REQUEST_ID]
    try:
        await response.prepare(request)
        async with ours(engine.root):
            while data := await answer.content.readany():
                await response.write(data)
        await response.write_eof()
        return response
    except EngineError:
        # The status has been sent: only a closed connection can still show the client that this was not the end.
        if not response.prepared or request.transport is None:
            raise
        request.transport.close()
        return response
    finally:
        answer.close() if not answer.content.at_eof() else answer.release()


async def _models(request: web.Request) -> dict[str, Model]:
    pool = request.app[GATEWAY].pool
    await pool.choose(None, None)
    return {known.id: known for engine in pool.engines if engine.ready for known in engine.models}


def _to_openai(known: Model) -> dict[str, Any]:
    return {"id": known.id, "object": "model", "created": known.created, "owned_by": known.owned_by}


def _model_of(body: bytes) -> str | None:
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE as broken:
        raise InvalidRequest(f"The body is not JSON: {broken}.", code="invalid_json") from None
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None
