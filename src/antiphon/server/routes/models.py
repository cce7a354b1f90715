"""The models of the engines: `/v1/models`, as Codex reads them too, and whether the gateway is ready."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web
from msgspec import structs

from antiphon.core.knowledge.help import NO_HELP, Help
from antiphon.core.knowledge.knowledge import Model
from antiphon.core.protocols.client_protocol import JSON
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.engines.upstream import Engine
from antiphon.errors import EngineError, EngineUnavailable, NotFound, quoted
from antiphon.server.answers import to_json
from antiphon.server.pages import to_timestamp
from antiphon.server.parts import APP, is_trusted
from antiphon.server.paths import speaks

# One tool output may take a quarter of the context window, and at most this many tokens. A small model reads slowly, and loses
# its task in a long output.
OUTPUT_SHARE = 4
MAX_OUTPUT_TOKENS = 10_000
MAX_LEAN_OUTPUT_TOKENS = 2_000

BASE_INSTRUCTIONS = """\
You are a coding agent. You work in the user's terminal, in their repository, together with them, through the Codex CLI.

How to work
- Find out before you act: read the files that matter, and search with `rg` where it is there.
- Do what was asked, all of it, and nothing else. Keep changes small and in the style of the code around them.
- When a task takes several steps, go on until it is done or until you need an answer that only the user can give.
- Use the tools that you are offered, by their exact names, and with arguments that fit their schema. Wait for a tool's result
  before you rely on it. If a call fails, read the error and fix the call; do not repeat it unchanged.
- Edit files with the `apply_patch` tool. Its input is a patch in this form, and nothing around it:
*** Begin Patch
*** Update File: path/to/file.py
@@ def example():
-    old line
+    new line
*** End Patch
  `*** Add File: path` is followed by lines that each begin with `+`; `*** Delete File: path` stands alone.
- Check what you did: run the tests or the program where that is possible, and say so if it is not.
- Never undo changes that you did not make, and run nothing destructive that was not asked for.

How to answer
- Be brief and plain. Say what you did and what you found, with file names; do not paste files that the user can open.
- Say openly what you could not do, and why."""

# For a model that is offered easier tools. Their descriptions say what each is for. No example: small models copy it.
LEAN_INSTRUCTIONS = """\
You are a coding agent in the user's folder. You do the work yourself, by calling tools. Call one
tool at a time and wait for its result.
Read a file before you change it. Never guess what a file has: look, or let a command find out.
When the work is done, say so in one short sentence."""


def catalog_entry(model: str, *, window: int, vision: bool, help: Help = NO_HELP) -> dict[str, Any]:
    most_output = MAX_LEAN_OUTPUT_TOKENS if help.lean_codex else MAX_OUTPUT_TOKENS
    return {
        "slug": model,
        "display_name": model.rpartition("/")[2] or model,
        "description": "Served through Antiphon",
        "default_reasoning_level": "medium",
        "supported_reasoning_levels": [
            {"effort": "low", "description": "Answers soon"},
            {"effort": "medium", "description": "Thinks before it answers"},
            {"effort": "high", "description": "Takes its time"},
        ],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "base_instructions": LEAN_INSTRUCTIONS if help.easier_tools else BASE_INSTRUCTIONS,
        "supports_reasoning_summaries": True,
        "support_verbosity": True,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": min(most_output, max(1000, window // OUTPUT_SHARE))},
        "supports_parallel_tool_calls": True,
        "context_window": window,
        "max_context_window": window,
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if vision else ["text"],
    }


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
        shown = [_to_anthropic(known) for known in found.values()]
        first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
        return to_json({"data": shown, "has_more": False, "first_id": first, "last_id": last})
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
    return {"type": "model", "id": known.id, "display_name": known.id, "created_at": to_timestamp(known.created)}


def _to_openai(known: Model) -> dict[str, Any]:
    return {"id": known.id, "object": "model", "created": known.created, "owned_by": known.owned_by}
