"""The application: its parts, its routes, and how it is started and stopped."""

from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from antiphon.app import lifetime
from antiphon.app.lifetime import BESIDE, OwnAddresses
from antiphon.app.observability import Observability
from antiphon.app.options import connection_options, store_limits
from antiphon.app.parts import (
    NO_EXTENSIONS,
    Given,
    Made,
    make_batch_runner,
    make_beside,
    make_checkers,
    make_equipment,
    make_gateway,
    make_inspection,
    make_parts,
    make_pool,
    make_protocols,
    make_resources,
    make_rules,
    make_storage,
    make_tools,
    use_prompts,
)
from antiphon.app.parts import Extensions as Extensions
from antiphon.app.parts import WorkerPart as WorkerPart
from antiphon.server.every_request import add_headers, served
from antiphon.server.nearest_route import NearestRoute
from antiphon.server.parts import APP, Routing
from antiphon.server.paths import ProtocolPaths
from antiphon.server.routes.table import route_table
from antiphon.server.siblings import Siblings
from antiphon.settings.settings import Settings
from antiphon.store.protocol import Store
from antiphon.transport import Runner

if TYPE_CHECKING:
    from antiphon.engines.embedded.process import EngineProcess, SharedEngineProcess

# After the runs have been drained, handlers have this long to write what is left, in seconds.
CLOSING_TIME = 2.0


def make_app(
    settings: Settings,
    session: aiohttp.ClientSession,
    store: Store,
    embedded: "EngineProcess | SharedEngineProcess | None" = None,
    extensions: Extensions = NO_EXTENSIONS,
    part: WorkerPart | None = None,
) -> web.Application:
    """`part`: None for a gateway that is a single process."""
    observability, checkers = Observability(settings), make_checkers(settings, extensions.checker)
    store, checker = observability.measured(store, checkers.checks)
    given = Given(settings, session, store, embedded, extensions, part or WorkerPart(Siblings()))
    pool, own = make_pool(given), OwnAddresses()
    storage = make_storage(given, checkers.files, pool, own)
    tools = make_tools(given, checker, storage, own)
    inspection = make_inspection(given)
    equipment = make_equipment(settings, checker, tools.hosted.runners, storage)
    observers = [*extensions.observers, *observability.observers(pool)]
    gateway = make_gateway(given, pool, equipment, observers, inspection.inspector.recordings)
    gateway.attached = tools.mcp.attached
    use_prompts(settings, gateway)
    gateway.ledger.watchers += observability.usage_watchers(pool)
    gateway.budgets.when_exceeded = observability.when_exceeded
    spoken = make_protocols(settings, extensions.protocols, make_rules(settings, tools))
    protocols = ProtocolPaths(spoken)
    routes = route_table(protocols.others)
    routing = Routing(protocols, NearestRoute(routes.api, routes.others))
    resources, options = make_resources(storage, gateway), connection_options(settings, extensions.intervals, protocols)
    app = web.Application(middlewares=[served], client_max_size=settings.max_body_bytes)
    app[APP] = make_parts(given, gateway, resources, routing, inspection, observability.exposed(routes.api))
    made = Made(gateway, storage, tools, make_batch_runner(given, gateway, storage, checkers.files, spoken))
    app[BESIDE] = make_beside(given, made, own, observability.counted(options))
    routes.add_to(app)
    app.on_response_prepare.append(add_headers)
    lifetime.join(app, limits=store_limits(settings) if given.part.sweeps else None, checkers=checkers.own)
    app.cleanup_ctx.append(observability.close)
    return app


def make_runner(app: web.Application) -> web.AppRunner:
    """A client that goes away cancels its handler, and with it the engine's work."""
    options = {"access_log": None, "handler_cancellation": True, "shutdown_timeout": CLOSING_TIME}
    runner = Runner(app, app[BESIDE].connection_options, app[APP].transport.wrap_server, **options)
    app[BESIDE].own_addresses.runner = runner
    return runner
