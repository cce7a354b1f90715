"""The application: routes, middlewares, engines, and how it is started and stopped."""

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from msgspec import Struct, field, structs

from antiphon import __version__
from antiphon.app import lifetime
from antiphon.app.hosted_tools import HostedTools, make_containers
from antiphon.app.lifetime import (
    DISCOVERY,
    DRAIN,
    EXAMINER,
    MCP,
    RETRIEVAL,
    WORKERS,
    Drain,
)
from antiphon.app.mcp_servers import address_policy, mcp_limits, operator_servers
from antiphon.app.observability import Observability
from antiphon.app.options import (
    DEFAULT_INTERVALS,
    Intervals,
    admission_limits,
    background_options,
    connection_options,
    engine_options,
    file_limits,
    http_limits,
    placement_options,
    request_limits,
    store_kind,
)
from antiphon.app.retrieval import EmbeddingModels, Retrieval
from antiphon.core.events.event_style import PADDED_TO, REASONING_EVENTS
from antiphon.core.exchange.environment import Environment
from antiphon.core.knowledge.knowledge import Model
from antiphon.core.knowledge.model_names import ModelNames
from antiphon.engines.discovery import Discovery, is_name
from antiphon.engines.health import HealthChecks
from antiphon.engines.pool import Pool
from antiphon.engines.probes.examiner import Examiner
from antiphon.engines.upstream import Engine
from antiphon.files.file_inputs import FileInputs
from antiphon.files.library import FileLibrary
from antiphon.files.texts import MOST_PROCESSES, OWN_PROCESSES, FileTexts
from antiphon.gateway.background.workers import Workers
from antiphon.gateway.limits.admission import Admission
from antiphon.gateway.limits.places import AdmissionLimits
from antiphon.gateway.limits.view_places import ViewPlaces
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.runs.observers import MakeObserver
from antiphon.gateway.runs.steps import Equipment
from antiphon.gateway.runs.timers import Timeouts
from antiphon.gateway.state.conversations import Conversations
from antiphon.gateway.state.owners import Keyring, Owners
from antiphon.gateway.state.seal import load_key, make_sealer
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.sandbox.containers.kernels import Kernels
from antiphon.server.app_keys import (
    CONTAINERS,
    CONVERSATIONS,
    FILES,
    GATEWAY,
    KEYRING,
    LIMITS,
    STORE_FILES,
    TRANSPORT,
    VECTOR_STORES,
)
from antiphon.server.cors import CROSS_ORIGIN, CrossOrigin
from antiphon.server.every_request import add_headers, served
from antiphon.server.inspector.files import read_page
from antiphon.server.inspector.inspector import Inspector
from antiphon.server.inspector.recordings import Recordings
from antiphon.server.nearest_route import NEAREST_ROUTE, NearestRoute
from antiphon.server.request_headers import ALLOWED_HOSTS, AllowedHosts
from antiphon.server.routes.inspector import INSPECTOR, NEEDS_KEY, OPENING
from antiphon.server.routes.inspector_lists import DESCRIPTION, LISTING, PROCESS_STARTED, GatewayDescription
from antiphon.server.routes.models import READINESS, Readiness
from antiphon.server.routes.passed_through import OPEN_ANSWERS, OpenAnswers
from antiphon.server.routes.table import API_ROUTES, OTHER_ROUTES, ROUTES
from antiphon.server.routes.websocket import CONNECTIONS
from antiphon.server.siblings import SIBLINGS, Siblings
from antiphon.settings.keys import (
    earlier_owners,
    is_loopback,
    key_owners,
    needs_key,
)
from antiphon.settings.settings import Settings, data_directory
from antiphon.store.protocol import Store
from antiphon.tools.mcp.runner import McpRunner, NoMcp
from antiphon.tools.mcp.session import is_installed
from antiphon.tools.runner import ToolRunner
from antiphon.transport import ConnectionOptions, Runner, transport_of
from antiphon.transport.write_batch import WriteBatch

if TYPE_CHECKING:
    from antiphon.engines.embedded.process import EngineProcess, SharedEngineProcess

DAY = 24 * 60 * 60
CONNECTION_OPTIONS = web.AppKey("connection_options", ConnectionOptions)


class OwnAddresses(Collection[tuple[str, int]]):
    """Where the gateway listens, as soon as it does."""

    runner: web.AppRunner | None = None

    def __iter__(self) -> Iterator[tuple[str, int]]:
        addresses = self.runner.addresses if self.runner is not None else []
        return iter([(str(each[0]), int(each[1])) for each in addresses if isinstance(each, tuple)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, address: object) -> bool:
        return address in list(iter(self))


OWN_ADDRESSES = web.AppKey("own_addresses", OwnAddresses)

# After the runs have been drained, handlers have this long to write what is left, in seconds.
CLOSING_TIME = 2.0


class Extensions(Struct, frozen=True):
    """What a program that embeds the gateway may add to it."""

    # Tools that the gateway runs, by the `type` of their definition.
    tools: Mapping[str, ToolRunner] = field(default_factory=dict)
    observers: Sequence[MakeObserver] = ()
    # A checker that others use too; it is not closed with the application.
    checker: Checker | None = None
    intervals: Intervals = DEFAULT_INTERVALS
    # What runs code, in place of the sandbox.
    kernels: Kernels | None = None


NO_EXTENSIONS = Extensions()


class WorkerPart(Struct, frozen=True):
    """What is different where this is one of several worker processes of a gateway."""

    siblings: Siblings
    make_admission: Callable[[AdmissionLimits], Admission] = Admission
    # For the rows of the inspector. None: they are counted here.
    next_row_number: Callable[[], int] | None = None
    # Its place among them; None: it is the only one.
    slot: int | None = None
    # Keeps the store within its limits; one process does that for all.
    sweeps: bool = True
    # When the gateway was started, in seconds since 1970. None: now.
    gateway_started: float | None = None


def make_app(
    settings: Settings,
    session: aiohttp.ClientSession,
    store: Store,
    embedded: "EngineProcess | SharedEngineProcess | None" = None,
    extensions: Extensions = NO_EXTENSIONS,
    part: WorkerPart | None = None,
) -> web.Application:
    """`part`: None for a gateway that is a single process."""
    part = part or WorkerPart(Siblings())
    checker, intervals = extensions.checker or Checker(settings.check_timeout), extensions.intervals
    observability = Observability(settings)
    store, checker = observability.measured(store, checker)
    names = ModelNames(settings.model_names, settings.default_model)
    engines, health = _make_engines(settings, session, embedded), HealthChecks(settings.health_interval)
    pool = Pool(engines, intervals.engine_retry, names, placement_options(settings), health)
    own = OwnAddresses()
    mcp = _make_mcp(settings, own)
    library = FileLibrary(store.files, file_limits(settings), new_id)
    models = EmbeddingModels(settings.vector_stores, pool, session)
    # Files take longer to read than what is checked while a client waits: they have processes of their own.
    file_reader = extensions.checker or Checker(settings.files.text_timeout, MOST_PROCESSES, OWN_PROCESSES)
    texts = FileTexts(file_reader.run)
    retrieval = Retrieval(settings.vector_stores, store.files, library, texts, models, intervals.indexing)
    code = make_containers(settings, library, extensions.kernels, part.slot)
    given = {"mcp": mcp, **extensions.tools}
    hosted = HostedTools(settings, checker, given, own, stores=retrieval.stores, containers=code)
    extensions = structs.replace(
        extensions,
        tools=hosted.runners,
        observers=[*extensions.observers, *observability.observers(pool)],
    )
    app_inspector = _make_inspector(settings, part.next_row_number)
    files = FileInputs(library, texts.read_for_model)
    admission = part.make_admission(admission_limits(settings))
    gateway = _make_gateway(settings, pool, store, checker, extensions, app_inspector, files, admission)
    gateway.attached = mcp.attached
    app = web.Application(
        middlewares=[served],
        client_max_size=settings.max_body_bytes,
    )
    app[CROSS_ORIGIN] = CrossOrigin(settings.cors_origins)
    app[KEYRING] = keyring = Keyring(key_owners(settings))
    app[ALLOWED_HOSTS] = AllowedHosts((settings.host, *settings.allowed_hosts), needed=lambda: not keyring)
    app[CONNECTION_OPTIONS] = observability.counted(connection_options(settings, intervals))
    app.on_response_prepare.append(add_headers)
    app[READINESS] = Readiness(store, lifetime=intervals.readiness)
    app[GATEWAY] = gateway
    app[DISCOVERY] = Discovery(pool, session, settings.upstream, engine_options(settings))
    app[SIBLINGS] = part.siblings
    app[DRAIN] = Drain(settings.shutdown_timeout)
    app[OWN_ADDRESSES] = own
    app[MCP] = mcp
    app[INSPECTOR] = app_inspector
    # Also if the last key is removed while it runs.
    app[NEEDS_KEY] = settings.inspector is None and not is_loopback(settings.host)
    app[OPENING] = ViewPlaces(None, own_places=2, now=gateway.admission.now)
    app[LISTING] = ViewPlaces(2, own_places=1, now=gateway.admission.now)
    app[CONVERSATIONS] = Conversations(store, retention=gateway.retention, files=library)
    app[CONTAINERS] = code
    app[FILES], app[RETRIEVAL] = library, retrieval
    app[VECTOR_STORES], app[STORE_FILES] = retrieval.stores, retrieval.store_files
    gateway.owners.moving_too += [library.move_owner, retrieval.stores.move_owner]
    app[TRANSPORT] = transport_of(session)
    app[LIMITS] = http_limits(settings, intervals)
    app[CONNECTIONS] = set()
    app[OPEN_ANSWERS] = OpenAnswers()
    app[DESCRIPTION] = GatewayDescription(__version__, part.gateway_started or time.time(), store_kind(settings))
    app[PROCESS_STARTED] = time.time()
    app[EXAMINER] = Examiner(
        gateway.in_flight.is_busy, generates=settings.probe, named_models=names.models, times=intervals.probes
    )
    app[WORKERS] = Workers(gateway, background_options(settings, intervals.background_retry))
    app.add_routes(ROUTES)
    app[NEAREST_ROUTE] = NearestRoute(API_ROUTES, OTHER_ROUTES)
    own_checkers = [checker, file_reader] if extensions.checker is None else []
    _add_lifetime(app, settings, hosted, sweeps=part.sweeps, checkers=own_checkers)
    observability.join(app, {route.path for route in API_ROUTES})
    return app


def _add_lifetime(
    app: web.Application, settings: Settings, hosted: HostedTools, *, sweeps: bool, checkers: Sequence[Checker]
) -> None:
    """`sweeps`: it keeps the store within its limits. `checkers`: those that end with it."""
    app.cleanup_ctx.append(lifetime.watch)
    if sweeps:
        app.cleanup_ctx.append(partial(lifetime.sweep, store_max_bytes=settings.store_max_bytes))
    app.cleanup_ctx.append(lifetime.close_mcp)
    app.cleanup_ctx.append(partial(lifetime.close_tools, hosted=hosted))
    app.cleanup_ctx.append(lifetime.watch_containers)
    app.cleanup_ctx.extend(partial(lifetime.close_checker, checker=checker) for checker in checkers)
    app.on_startup.append(lifetime.start_workers)
    app.on_shutdown.append(lifetime.drain)


# ---- its parts, each with the few settings that it needs -------------------------------------------------------------


def _make_engines(
    settings: Settings, session: aiohttp.ClientSession, embedded: "EngineProcess | SharedEngineProcess | None"
) -> list[Engine]:
    engines = [Engine(url, session, engine_options(settings)) for url in settings.upstream if not is_name(url)]
    if embedded is not None:
        engines.append(_embedded_engine(embedded, session, settings))
    return engines


def _make_mcp(settings: Settings, own: OwnAddresses) -> McpRunner | NoMcp:
    if not is_installed():
        return NoMcp()
    return McpRunner(operator_servers(settings), address_policy(settings, own), mcp_limits(settings))


def _make_inspector(settings: Settings, next_number: Callable[[], int] | None) -> Inspector:
    is_on = settings.inspector if settings.inspector is not None else needs_key(settings) or is_loopback(settings.host)
    now = asyncio.get_running_loop().time
    rate = settings.inspector_rate
    recordings = Recordings(settings.inspector_bytes, now, rate=rate, next_number=next_number) if is_on else None
    return Inspector(__version__, recordings, settings.inspector_bodies, read_page())


def _make_gateway(
    settings: Settings,
    pool: Pool,
    store: Store,
    checker: Checker,
    extensions: Extensions,
    inspector: Inspector,
    files: FileInputs,
    admission: Admission,
) -> Gateway:
    recordings = inspector.recordings
    timeouts = Timeouts(settings.heartbeat, settings.first_byte_timeout, settings.idle_timeout, settings.response_timeout)
    return Gateway(
        pool,
        store,
        make_environment(settings, extensions.tools),
        Equipment(timeouts, WriteBatch(), checker, extensions.tools, settings.tool_timeout, files),
        admission,
        retention=int(settings.retention_days * DAY),
        unstored_retention=math.ceil(settings.unstored_retention),
        owners=Owners(store, earlier_owners(settings)),
        make_sealer=partial(make_sealer, load_key(settings.seal_key, data_directory(settings))),
        observers=[*([recordings.observe] if recordings is not None else ()), *extensions.observers],
        may_record=recordings.may_record if recordings is not None else None,
    )


def make_environment(settings: Settings, tools: Mapping[str, ToolRunner]) -> Environment:
    return Environment(
        new_id=new_id,
        now=time.time,
        padding=lambda: secrets.token_urlsafe(PADDED_TO),
        report=log,
        check_grammars=settings.check_grammars,
        help=settings.help,
        reasoning_events=REASONING_EVENTS[settings.reasoning_events],
        always_summary=settings.reasoning_summary == "always",
        tools=tools,
        most_rounds=settings.tool_rounds,
        limits=request_limits(settings),
    )


def _embedded_engine(
    process: "EngineProcess | SharedEngineProcess", session: aiohttp.ClientSession, settings: Settings
) -> Engine:
    """An engine like any other, whose process reports when it is gone."""
    engine = Engine(process.url, session, structs.replace(engine_options(settings), key=process.key, dialect=None))
    engine.is_embedded = True
    # Known before it runs, so that requests for it wait for it.
    engine.knowledge.models = (Model(id=process.alias, created=0, owned_by="antiphon"),)
    # Of this model on this engine: another engine's model of the same name is left alone.
    engine.knowledge.sampling = {process.alias: process.sampling}
    engine.knowledge.learn(process.alias, process.facts, "setting")
    engine.loading = process.loading
    process.lost, process.moved, process.progressed = engine.lost, engine.moved, engine.progressed
    return engine


def make_runner(app: web.Application) -> web.AppRunner:
    """A client that goes away cancels its handler, and with it the engine's work."""
    options = {"access_log": None, "handler_cancellation": True, "shutdown_timeout": CLOSING_TIME}
    runner = Runner(app, app[CONNECTION_OPTIONS], app[TRANSPORT].wrap_server, **options)
    app[OWN_ADDRESSES].runner = runner
    return runner
