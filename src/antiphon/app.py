"""The application: routes, middlewares, engines, and how it is started and stopped."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from msgspec import structs

from antiphon.background.workers import Workers
from antiphon.embedded.process import EngineProcess
from antiphon.engines.detection import Model
from antiphon.engines.pool import Pool
from antiphon.engines.prober import Background
from antiphon.engines.upstream import Engine
from antiphon.gateway.gateway import Gateway
from antiphon.gateway.seal import load_key, make_sealer
from antiphon.http import conversations, engine_routes, responses, stored, websocket
from antiphon.http.middlewares import authenticated, enveloped, identified
from antiphon.http.responses import GATEWAY, TRANSPORT
from antiphon.http.websocket import CONNECTIONS, GOING_AWAY
from antiphon.settings import Settings
from antiphon.store.protocol import Store
from antiphon.transport import transport_of

BACKGROUND = web.AppKey("background", Background)
WORKERS = web.AppKey("workers", Workers)

# After turns have been drained, handlers have this long to write what is left.
LAST_WORDS = 2.0


def make_app(
    settings: Settings, session: aiohttp.ClientSession, store: Store, embedded: EngineProcess | None = None
) -> web.Application:
    engines = [Engine(url, session, settings) for url in settings.upstream]
    if embedded is not None:
        engines.append(_embedded_engine(embedded, session, settings))
    pool = Pool(engines)
    app = web.Application(
        middlewares=[identified, enveloped, authenticated(settings.api_key)], client_max_size=settings.max_body_bytes
    )
    app[GATEWAY] = Gateway(pool, settings, make_sealer(load_key(settings)), store)
    app[TRANSPORT] = transport_of(session)
    app[CONNECTIONS] = set()
    app[BACKGROUND] = Background(app[GATEWAY].is_busy)
    app[WORKERS] = Workers(app[GATEWAY])
    app.add_routes(
        [
            web.post("/v1/responses", responses.create),
            web.get("/v1/responses", websocket.converse, allow_head=False),
            web.post("/v1/responses/compact", responses.compact),
            web.post("/v1/responses/input_tokens", responses.input_tokens),
            web.get("/v1/responses/{id}", stored.retrieve),
            web.delete("/v1/responses/{id}", stored.delete),
            web.post("/v1/responses/{id}/cancel", stored.cancel),
            web.get("/v1/responses/{id}/input_items", stored.input_items),
            web.post("/v1/conversations", conversations.create),
            web.get("/v1/conversations/{id}", conversations.retrieve),
            web.post("/v1/conversations/{id}", conversations.update),
            web.delete("/v1/conversations/{id}", conversations.delete),
            web.post("/v1/conversations/{id}/items", conversations.create_items),
            web.get("/v1/conversations/{id}/items", conversations.list_items),
            web.get("/v1/conversations/{id}/items/{item_id}", conversations.retrieve_item),
            web.delete("/v1/conversations/{id}/items/{item_id}", conversations.delete_item),
            web.get("/v1/models", engine_routes.models),
            web.get("/v1/models/{id:.+}", engine_routes.model),
            web.post("/v1/chat/completions", engine_routes.passed_through),
            web.post("/v1/completions", engine_routes.passed_through),
            web.post("/v1/embeddings", engine_routes.passed_through),
            web.get("/health", engine_routes.health),
            web.get("/ready", engine_routes.ready),
        ]
    )
    app.cleanup_ctx.append(_watching)
    app.on_startup.append(_working)
    app.on_shutdown.append(_draining)
    return app


def _embedded_engine(process: EngineProcess, session: aiohttp.ClientSession, settings: Settings) -> Engine:
    """An engine like any other, whose process tells when it is gone."""
    engine = Engine(process.url, session, structs.replace(settings, upstream_key=process.key, dialect=None))
    # Known before it runs, so that requests for it wait for it.
    engine.models = (Model(id=process.alias, created=0, owned_by="antiphon"),)
    process.lost, process.moved = engine.lost, engine.moved
    return engine


async def _watching(app: web.Application) -> AsyncIterator[None]:
    gateway, background = app[GATEWAY], app[BACKGROUND]
    if gateway.settings.probe:
        for engine in gateway.pool.engines:
            engine.when_found = background.begin
    watch = asyncio.create_task(gateway.pool.watch())
    sweep = asyncio.create_task(gateway.sweep())
    yield
    await background.close()
    for task in (watch, sweep):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _working(app: web.Application) -> None:
    app[WORKERS].start()


async def _draining(app: web.Application) -> None:
    for connection in app[CONNECTIONS]:
        connection.leave(GOING_AWAY)
    app[WORKERS].stop()
    await app[GATEWAY].drain()
    await app[WORKERS].close()


def make_runner(app: web.Application) -> web.AppRunner:
    """A client that goes away cancels its handler, and with it the engine's work."""
    return web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=LAST_WORDS)
