"""The models of the engines: `/v1/models`, as Codex reads them too, and whether the gateway is ready."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta, Struct, structs

from antiphon.core.knowledge.codex_catalog import catalog_entry
from antiphon.core.knowledge.help import NO_HELP, Help
from antiphon.core.knowledge.knowledge import Model
from antiphon.core.protocols.client_protocol import JSON
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.read import convert_strings
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineError, EngineUnavailable, InvalidRequest, NotFound, quoted
from antiphon.server.answers import to_json
from antiphon.server.pages import to_timestamp
from antiphon.server.parts import APP, is_trusted
from antiphon.server.paths import speaks

# ---- The engines' own: their models, and their readiness -------------------------------------------------------------


async def health(request: web.Request) -> web.Response:
    return to_json({"status": "ok"})


async def ready(request: web.Request) -> web.Response:
    """For anybody, whether the gateway is ready. What is behind it is shown to those who have a key, if keys are set."""
    pool, trusted = request.app[APP].gateway.pool, is_trusted(request)
    try:
        await pool.ready_engines()
    except EngineError as error:
        if trusted:
            return _not_ready(error, pool.engines)
    await request.app[APP].open.readiness.check()
    count = sum(engine.ready for engine in pool.engines)
    if not count:
        raise EngineUnavailable(f"No engine is ready (0 of {len(pool.engines)}).", retry_after=1)
    counts = {"status": "ready", "engines_ready": count, "engines_total": len(pool.engines)}
    return to_json(counts | {"engines": [_state(engine) for engine in pool.engines]} if trusted else counts)


def _not_ready(error: EngineError, engines: Sequence[Engine]) -> web.Response:
    """The error, and what is wrong with each engine."""
    body = msgspec.json.encode({**error.envelope(), "engines": [_state(engine) for engine in engines]})
    return web.Response(status=error.status, body=body, headers={**error.headers, "Content-Type": JSON})


def _state(engine: Engine) -> dict[str, Any]:
    if not engine.ready:
        why = f"is {engine.loading}." if engine.loading is not None else engine.unusable or "does not answer."
        loading = {"loading": engine.loading} if engine.loading is not None else {}
        return {"url": engine.root, "status": "not ready", "reason": f"It {why}", **loading}
    models = [model.id for model in engine.models]
    return {"url": engine.root, "status": "ready", "dialect": engine.dialect.name, "models": models}


async def models(request: web.Request) -> web.Response:
    """One body for two kinds of clients: OpenAI's `data`, and the `models` that Codex reads. The CLI reads the help. Clients
    of Anthropic's API get their own list."""
    found = await _models(request)
    if speaks(request, MESSAGES):
        return to_json(_page_of_messages(request, [_to_anthropic(known) for known in found.values()]))
    window = request.app[APP].limits.context_window
    help = {name: _help(request, name) for name in found}
    listing: dict[str, Any] = {
        "object": "list",
        "data": [_to_openai(known) for known in found.values()],
        "models": [
            catalog_entry(name, window=known.window or window, vision=known.vision, help=help[name])
            for name, known in found.items()
        ],
    }
    if (own := request.app[APP].resources.embeddings.model) is not None and own not in found:
        # It answers no conversation, so Codex is not offered it.
        listing["data"].append(_to_openai(_own(own)))
    helped = {name: structs.asdict(given) for name, given in help.items() if given}
    return to_json(listing | {"antiphon_help": helped} if helped else listing)


async def model(request: web.Request) -> web.Response:
    name = request.match_info["id"].rstrip("/")
    found = await _model(request, name)
    if found is None:
        raise NotFound(f"The model {quoted(name)} does not exist.", param="model", code="model_not_found")
    return to_json(_to_anthropic(found) if speaks(request, MESSAGES) else _to_openai(found))


async def _models(request: web.Request) -> dict[str, Model]:
    """Those that the engines list, the default one first: it is the one that Codex gets. Then the other names of models. Of an
    engine that lists none, those that the settings name."""
    pool = request.app[APP].gateway.pool
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
    named = {name: structs.replace(listed[model], id=name) for name, model in pool.names.names.items() if model in listed}
    return listed | named


async def _model(request: web.Request, name: str) -> Model | None:
    found = await _models(request)
    ready = [engine.knowledge for engine in request.app[APP].gateway.pool.engines if engine.ready]
    called = next((model for engine in ready if (model := engine.model_called(name)) is not None), None)
    known = found.get(name) or found.get(called or name)
    if known is not None:
        return known
    if name == request.app[APP].resources.embeddings.model:
        return _own(name)
    return _unlisted(name) if called is not None or any(engine.takes_any_model for engine in ready) else None


def _help(request: web.Request, name: str) -> Help:
    """What the model of this name gets of the engine that is asked first."""
    gateway = request.app[APP].gateway
    model = gateway.pool.names.names.get(name, name)
    ready = [engine.knowledge for engine in gateway.pool.engines if engine.ready]
    # What is listed is looked up first: only then every name is compared with every model.
    lists = next((knowledge for knowledge in ready if knowledge.listed(model) is not None), None)
    knows = lists or next((knowledge for knowledge in ready if knowledge.serves(model)), next(iter(ready), None))
    return knows.help_for(model, gateway.environment.help) if knows is not None else NO_HELP


def _own(name: str) -> Model:
    """The model of embeddings that comes with Antiphon."""
    return Model(id=name, created=0, owned_by="antiphon")


def _unlisted(name: str) -> Model:
    """Of an engine that does not list all of its models."""
    return Model(id=name, created=0, owned_by="engine")


def _to_anthropic(known: Model) -> dict[str, Any]:
    return {
        "type": "model",
        "id": known.id,
        "display_name": known.id,
        "created_at": to_timestamp(known.created),
        # What an engine serves is there until it is not.
        "lifecycle": ACTIVE,
        "max_input_tokens": known.window,
        # An answer may be as long as the window has room.
        "max_tokens": known.window,
    }


class ModelPage(Struct, frozen=True):
    """The page that a client of Anthropic's API asks for."""

    after_id: str | None = None
    before_id: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


ACTIVE = "active"


def _page_of_messages(request: web.Request, shown: list[dict[str, Any]]) -> dict[str, Any]:
    query = request.query
    page = convert_strings({name: query[name] for name in ModelPage.__struct_fields__ if name in query}, ModelPage)
    if (stages := query.getall("lifecycle[]", [])) and ACTIVE not in stages:
        shown = []
    ids = [each["id"] for each in shown]
    start, end = 0, len(ids)
    if page.after_id is not None:
        start = _index(ids, page.after_id, "after_id") + 1
        end = min(end, start + page.limit)
    elif page.before_id is not None:
        end = _index(ids, page.before_id, "before_id")
        start = max(0, end - page.limit)
    else:
        end = min(end, page.limit)
    data = shown[start:end]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    has_more = start > 0 if page.before_id is not None else end < len(ids)
    return {"data": data, "has_more": has_more, "first_id": first, "last_id": last}


def _index(ids: Sequence[str], id: str, name: str) -> int:
    if id not in ids:
        raise InvalidRequest(f"Invalid `{name}`: there is no model {quoted(id)} here.", param=name, code="invalid_value")
    return ids.index(id)


def _to_openai(known: Model) -> dict[str, Any]:
    return {"id": known.id, "object": "model", "created": known.created, "owned_by": known.owned_by}
