"""The engines' own: their models, their readiness, and the routes that are passed through unchanged."""

import asyncio
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from aiohttp import web

from antiphon.core.help import NO_HELP, Help
from antiphon.core.knowledge import Model
from antiphon.engines.upstream import ours
from antiphon.errors import EngineError, NotFound
from antiphon.gateway.admission import EngineSeat
from antiphon.gateway.codex_catalog import catalog_entry
from antiphon.http.answers import notice_header, to_json
from antiphon.http.bodies import model_of, read_body, with_model
from antiphon.http.keys import GATEWAY, LIMITS
from antiphon.http.middlewares import LOGGED, OWNER
from antiphon.http.paths import canonical_path

# Headers about one connection or about the coding of a body, and not about the answer; and those that the gateway decides on.
NOT_PASSED_ON = frozenset(
    {
        "access-control-allow-credentials",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "keep-alive",
        "openai-processing-ms",
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
    engines = await request.app[GATEWAY].pool.ready_engines()
    return to_json(
        {
            "status": "ready",
            "engines": [
                {"url": engine.root, "dialect": engine.dialect.name, "models": [model.id for model in engine.models]}
                for engine in engines
            ],
        }
    )


async def models(request: web.Request) -> web.Response:
    """One body for both kinds of clients: OpenAI's `data`, and the `models` that Codex reads. The CLI reads the help."""
    found = await _models(request)
    window = request.app[LIMITS].context_window
    help = {name: _help(request, name) for name in found}
    listing = {
        "object": "list",
        "data": [_to_openai(known) for known in found.values()],
        "models": [
            catalog_entry(name, window=known.window or window, vision=known.vision, help=help[name])
            for name, known in found.items()
        ],
    }
    helped = {name: asdict(given) for name, given in help.items() if given}
    return to_json(listing | {"antiphon_help": helped} if helped else listing)


async def model(request: web.Request) -> web.Response:
    name = request.match_info["id"].rstrip("/")
    found = await _model(request, name)
    if found is None:
        raise NotFound(f"The model {name!r} does not exist.", param="model", code="model_not_found")
    return to_json(_to_openai(found))


async def passed_through(request: web.Request) -> web.StreamResponse:
    """The body goes to the engine as it came, except for the model if another one answers. The answer comes back as it is."""
    body = await read_body(request)
    async with request.app[GATEWAY].admission.entered(request[OWNER]) as seat:
        return await _pass_through(request, body, seat)


async def _pass_through(request: web.Request, body: bytes, seat: EngineSeat) -> web.StreamResponse:
    gateway, began = request.app[GATEWAY], asyncio.get_running_loop().time()
    asked = model_of(body)
    chosen = await gateway.pool.choose(asked, None)
    if chosen.model is not None and chosen.model != asked:
        body = with_model(body, chosen.model)
    engine = chosen.engines[0]
    request[LOGGED]["engine"] = engine.root
    await seat.take(engine)
    async with gateway.admission.in_time(began):
        answer = await engine.post(canonical_path(request), body)
    response = web.StreamResponse(
        status=answer.status,
        headers={name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON},
    )
    response.headers.update(notice_header(chosen.notices))
    try:
        await response.prepare(request)
        async with gateway.admission.in_time(began), ours(engine.root):
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
    """Those that the engines list, the default one first: it is the one that Codex gets. Then the other names of models. Of an
    engine that lists none, those that the settings name."""
    pool = request.app[GATEWAY].pool
    ready = await pool.ready_engines()
    await pool.read_lists()
    listed = {known.id: known for engine in ready for known in engine.models}
    default = None
    with suppress(NotFound):
        default = pool.names.choose(None, (engine.knowledge for engine in ready)).model
    if default is not None:
        listed = {default: listed.get(default) or _unlisted(default)} | listed
    if any(engine.knowledge.takes_any_model for engine in ready):
        listed |= {name: _unlisted(name) for name in pool.names.models if name not in listed}
    named = {name: replace(listed[model], id=name) for name, model in pool.names.names.items() if model in listed}
    return listed | named


async def _model(request: web.Request, name: str) -> Model | None:
    found = await _models(request)
    ready = [engine.knowledge for engine in request.app[GATEWAY].pool.engines if engine.ready]
    called = next((model for engine in ready if (model := engine.model_called(name)) is not None), None)
    known = found.get(name) or found.get(called or name)
    if known is not None:
        return known
    return _unlisted(name) if called is not None or any(engine.takes_any_model for engine in ready) else None


def _help(request: web.Request, name: str) -> Help:
    """What the model of this name gets of the engine that is asked first."""
    gateway = request.app[GATEWAY]
    model = gateway.pool.names.names.get(name, name)
    ready = [engine.knowledge for engine in gateway.pool.engines if engine.ready]
    # What is listed is looked up first: only then every name is compared with every model.
    lists = next((knowledge for knowledge in ready if knowledge.listed(model) is not None), None)
    knows = lists or next((knowledge for knowledge in ready if knowledge.serves(model)), next(iter(ready), None))
    return knows.help_for(model, gateway.environment.help) if knows is not None else NO_HELP


def _unlisted(name: str) -> Model:
    """Of an engine that does not list all of its models."""
    return Model(id=name, created=0, owned_by="engine")


def _to_openai(known: Model) -> dict[str, Any]:
    return {"id": known.id, "object": "model", "created": known.created, "owned_by": known.owned_by}
