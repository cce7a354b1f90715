"""The application: routes, middlewares, engines, and how it is started and stopped."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from antiphon import __version__
from antiphon.background.attempts import RETRY_INTERVAL, BackgroundOptions
from antiphon.background.workers import Workers
from antiphon.client_keys import earlier_owners, is_loopback, key_owners, needs_key
from antiphon.containers.kernels import Kernels
from antiphon.core.environment import Environment
from antiphon.core.event_style import PADDED_TO, REASONING_EVENTS
from antiphon.core.knowledge import Model
from antiphon.core.limits import RequestLimits
from antiphon.core.model_names import ModelNames
from antiphon.embedding_models import EmbeddingModels
from antiphon.engines.discovery import Discovery, is_name
from antiphon.engines.examiner import DEFAULT_TIMES, Examiner, ProbeTimes
from antiphon.engines.health import HealthChecks
from antiphon.engines.placement import PlacementOptions
from antiphon.engines.pool import ENGINE_RETRY_INTERVAL, Pool
from antiphon.engines.upstream import Engine, EngineOptions
from antiphon.files.file_inputs import FileInputs
from antiphon.files.library import FileLibrary
from antiphon.files.limits import FileLimits
from antiphon.files.texts import MOST_PROCESSES, OWN_PROCESSES, FileTexts
from antiphon.gateway.admission import Admission, AdmissionLimits
from antiphon.gateway.checker import Checker
from antiphon.gateway.conversations import Conversations
from antiphon.gateway.equipment import Equipment
from antiphon.gateway.gateway import Gateway
from antiphon.gateway.housekeeping import sweep_files, sweep_store
from antiphon.gateway.ids import new_id
from antiphon.gateway.observers import MakeObserver
from antiphon.gateway.owners import Owners
from antiphon.gateway.seal import load_key, make_sealer
from antiphon.gateway.sinks import WriteBatch
from antiphon.gateway.view_turns import ViewTurns
from antiphon.gateway.watch import Timeouts
from antiphon.gateway_containers import make_containers
from antiphon.hosted_tools import HostedTools
from antiphon.http import (
    containers,
    conversations,
    engine_routes,
    files,
    inspector,
    inspector_engines,
    inspector_files,
    inspector_stored,
    responses,
    stored,
    vector_stores,
    websocket,
)
from antiphon.http.app_keys import (
    CONTAINERS,
    CONVERSATIONS,
    FILES,
    GATEWAY,
    KEYRING,
    LIMITS,
    STORE_FILES,
    TRANSPORT,
    VECTOR_STORES,
    HttpLimits,
)
from antiphon.http.cors import CROSS_ORIGIN, CrossOrigin
from antiphon.http.every_request import add_headers, served
from antiphon.http.inspector import INSPECTOR, NEEDS_KEY, OPENING
from antiphon.http.inspector_engines import DESCRIPTION, GatewayDescription
from antiphon.http.inspector_stored import LISTING
from antiphon.http.keyring import Keyring
from antiphon.http.metrics import metrics
from antiphon.http.middlewares import TOO_SLOW, answer_unrouted
from antiphon.http.passed_through import OPEN_ANSWERS, OpenAnswers, passed_through
from antiphon.http.paths import RESPONSE_PATHS, is_uploaded_form, under_all_paths
from antiphon.http.readiness import LIFETIME, READINESS, Readiness
from antiphon.http.request_headers import ALLOWED_HOSTS, AllowedHosts
from antiphon.http.siblings import SIBLINGS, Siblings
from antiphon.http.websocket import CLOSE_TIMEOUT, CONNECTIONS, GOING_AWAY, PING_INTERVAL
from antiphon.inspector.files import read_page
from antiphon.inspector.inspector import Inspector
from antiphon.inspector.recordings import Recordings
from antiphon.logs import log
from antiphon.mcp_servers import address_policy, mcp_limits, operator_servers
from antiphon.observability import Observability
from antiphon.retrieval import Retrieval
from antiphon.settings import Settings, data_directory, read_chat_template
from antiphon.store.protocol import Store
from antiphon.tools.mcp.runner import McpRunner, NoMcp
from antiphon.tools.mcp.session import is_installed
from antiphon.tools.runner import ToolRunner
from antiphon.transport import LINGER, ConnectionOptions, Runner, transport_of
from antiphon.vector_stores.attempts import DEFAULT_INDEXING, IndexerOptions

if TYPE_CHECKING:
    from antiphon.embedded.process import EngineProcess
    from antiphon.embedded.shared import SharedEngineProcess

DAY = 24 * 60 * 60
EXAMINER = web.AppKey("examiner", Examiner)
DISCOVERY = web.AppKey("discovery", Discovery)
WORKERS = web.AppKey("workers", Workers)
RETRIEVAL = web.AppKey("retrieval", Retrieval)
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
# It is an McpRunner, unless the SDK is not installed.
MCP: web.AppKey[McpRunner | NoMcp] = web.AppKey("mcp")

# After the runs have been drained, handlers have this long to write what is left, in seconds.
CLOSING_TIME = 2.0


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds that parts of the gateway wait before they act again. Tests make them shorter or longer."""

    engine_retry: float = ENGINE_RETRY_INTERVAL
    background_retry: float = RETRY_INTERVAL
    websocket_ping: float = PING_INTERVAL
    websocket_farewell: float = CLOSE_TIMEOUT
    linger: float = LINGER
    probes: ProbeTimes = DEFAULT_TIMES
    readiness: float = LIFETIME
    indexing: IndexerOptions = DEFAULT_INDEXING


DEFAULT_INTERVALS = Intervals()


@dataclass(frozen=True, slots=True)
class Extensions:
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


@dataclass(frozen=True, slots=True)
class WorkerPart:
    """What is different where this is one of several worker processes of a gateway."""

    siblings: Siblings
    make_admission: Callable[[AdmissionLimits], Admission] = Admission
    # For the rows of the inspector. None: they are counted here.
    next_row_number: Callable[[], int] | None = None
    # Its place among them; None: it is the only one.
    slot: int | None = None
    # Keeps the store within its limits; one process does that for all.
    sweeps: bool = True


@dataclass(slots=True)
class Drain:
    """Seconds that running responses may take to finish when the gateway stops."""

    within: float


DRAIN = web.AppKey("drain", Drain)


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
    extensions = replace(
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
    app[CONNECTION_OPTIONS] = observability.counted(_connection_options(settings, intervals))
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
    app[OPENING] = ViewTurns(None, own_places=2, now=gateway.admission.now)
    app[LISTING] = ViewTurns(2, own_places=1, now=gateway.admission.now)
    app[CONVERSATIONS] = Conversations(store, retention=gateway.retention, files=library)
    app[CONTAINERS] = code
    app[FILES], app[RETRIEVAL] = library, retrieval
    app[VECTOR_STORES], app[STORE_FILES] = retrieval.stores, retrieval.store_files
    gateway.owners.moving_too += [library.move_owner, retrieval.stores.move_owner]
    app[TRANSPORT] = transport_of(session)
    app[LIMITS] = _http_limits(settings, intervals)
    app[CONNECTIONS] = set()
    app[OPEN_ANSWERS] = OpenAnswers()
    app[DESCRIPTION] = GatewayDescription(__version__, time.time(), _store_kind(settings))
    app[EXAMINER] = Examiner(gateway.is_busy, generates=settings.probe, named_models=names.models, times=intervals.probes)
    app[WORKERS] = Workers(gateway, background_options(settings, intervals.background_retry))
    app.add_routes(ROUTES)
    app.cleanup_ctx.append(_watch)
    if part.sweeps:
        app.cleanup_ctx.append(partial(_sweep, store_max_bytes=settings.store_max_bytes))
    app.cleanup_ctx.append(_close_mcp)
    app.cleanup_ctx.append(partial(_close_tools, hosted=hosted))
    app.cleanup_ctx.append(_watch_containers)
    if extensions.checker is None:
        app.cleanup_ctx.append(partial(_close_checker, checker=checker))
        app.cleanup_ctx.append(partial(_close_checker, checker=file_reader))
    observability.join(app, {route.path for route in API_ROUTES})
    app.on_startup.append(_start_workers)
    app.on_shutdown.append(_drain)
    return app


API_ROUTES = [
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
    *containers.routes(),
    web.post("/v1/files", files.create),
    web.get("/v1/files", files.list_files),
    web.get("/v1/files/{id}", files.retrieve),
    web.delete("/v1/files/{id}", files.delete),
    web.get("/v1/files/{id}/content", files.content),
    web.post("/v1/vector_stores", vector_stores.create),
    web.get("/v1/vector_stores", vector_stores.list_stores),
    web.get("/v1/vector_stores/{id}", vector_stores.retrieve),
    web.post("/v1/vector_stores/{id}", vector_stores.update),
    web.delete("/v1/vector_stores/{id}", vector_stores.delete),
    web.post("/v1/vector_stores/{id}/search", vector_stores.search),
    web.post("/v1/vector_stores/{id}/files", vector_stores.create_file),
    web.get("/v1/vector_stores/{id}/files", vector_stores.list_files),
    web.get("/v1/vector_stores/{id}/files/{file_id}", vector_stores.retrieve_file),
    web.post("/v1/vector_stores/{id}/files/{file_id}", vector_stores.update_file),
    web.delete("/v1/vector_stores/{id}/files/{file_id}", vector_stores.delete_file),
    web.get("/v1/vector_stores/{id}/files/{file_id}/content", vector_stores.file_content),
    web.post("/v1/vector_stores/{id}/file_batches", vector_stores.create_batch),
    web.get("/v1/vector_stores/{id}/file_batches/{batch_id}", vector_stores.retrieve_batch),
    web.post("/v1/vector_stores/{id}/file_batches/{batch_id}/cancel", vector_stores.cancel_batch),
    web.get("/v1/vector_stores/{id}/file_batches/{batch_id}/files", vector_stores.list_batch),
    web.get("/v1/models", engine_routes.models),
    web.get("/v1/models/{id:.+}", engine_routes.model),
    web.post("/v1/chat/completions", passed_through),
    web.post("/v1/completions", passed_through),
    web.post("/v1/embeddings", passed_through),
]
ROUTES = [
    *under_all_paths(API_ROUTES),
    web.get("/health", engine_routes.health),
    web.get("/ready", engine_routes.ready),
    web.get("/", inspector.index),
    web.get("/inspector/page/{name:.+}", inspector.page_file),
    web.get("/inspector/status", inspector.status),
    web.get("/inspector/requests", inspector.requests),
    web.delete("/inspector/requests", inspector.forget),
    web.get("/inspector/requests/{number}", inspector.one),
    web.get("/inspector/requests/{number}/recording", inspector.recording),
    web.get("/inspector/live", inspector.live, allow_head=False),
    web.get("/metrics", metrics),
    web.get("/inspector/engines", inspector_engines.engines),
    web.get("/inspector/stored/responses", inspector_stored.responses),
    web.get("/inspector/stored/conversations", inspector_stored.conversations),
    web.get("/inspector/stored/files", inspector_files.files),
    web.get("/inspector/stored/vector_stores", inspector_files.vector_stores),
    web.get("/inspector/stored/containers", inspector_files.containers),
]


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
        owners=Owners(store, earlier_owners(settings)),
        make_sealer=partial(make_sealer, load_key(settings.seal_key, data_directory(settings))),
        observers=[*([recordings.observe] if recordings is not None else ()), *extensions.observers],
        may_record=recordings.may_record if recordings is not None else None,
    )


def _http_limits(settings: Settings, intervals: Intervals) -> HttpLimits:
    return HttpLimits(
        settings.context_window,
        settings.max_body_bytes,
        settings.websocket_lifetime,
        intervals.websocket_ping,
        intervals.websocket_farewell,
        settings.websocket_queue,
    )


def _connection_options(settings: Settings, intervals: Intervals) -> ConnectionOptions:
    timeouts = settings.header_timeout, settings.body_timeout, settings.send_timeout
    return ConnectionOptions(*timeouts, answer_unrouted, TOO_SLOW, intervals.linger, is_uploaded_form, RESPONSE_PATHS)


def _store_kind(settings: Settings) -> str:
    scheme = (settings.store or "sqlite:").partition(":")[0]
    return "postgres" if scheme == "postgresql" else scheme


def request_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(**{name: getattr(settings, f"max_{name}") for name in RequestLimits.__struct_fields__})


def file_limits(settings: Settings) -> FileLimits:
    return FileLimits(settings.files.max_file_bytes, settings.files.key_bytes, settings.files.max_bytes)


def admission_limits(settings: Settings) -> AdmissionLimits:
    return AdmissionLimits(
        responses=settings.key_responses,
        requests_per_minute=settings.key_requests_per_minute,
        engine_requests=settings.engine_requests,
        engine_queue=settings.engine_queue,
        queue_timeout=settings.queue_timeout,
    )


def background_options(settings: Settings, retry_interval: float) -> BackgroundOptions:
    return BackgroundOptions(
        workers=settings.background_workers,
        lease=settings.background_lease,
        attempts=settings.background_attempts,
        patience=settings.background_patience,
        retry_interval=retry_interval,
    )


def engine_options(settings: Settings) -> EngineOptions:
    return EngineOptions(
        key=settings.upstream_key,
        dialect=settings.dialect,
        connect_timeout=settings.connect_timeout,
        first_byte_timeout=settings.first_byte_timeout,
        idle_timeout=settings.idle_timeout,
        retries=settings.retries,
        chat_template=read_chat_template(settings),
    )


def placement_options(settings: Settings) -> PlacementOptions:
    return PlacementOptions(settings.affinity, settings.engine_load_bound, settings.routing_headers)


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
    engine = Engine(process.url, session, replace(engine_options(settings), key=process.key, dialect=None))
    engine.is_embedded = True
    # Known before it runs, so that requests for it wait for it.
    engine.knowledge.models = (Model(id=process.alias, created=0, owned_by="antiphon"),)
    # Of this model on this engine: another engine's model of the same name is left alone.
    engine.knowledge.sampling = {process.alias: process.sampling}
    engine.knowledge.learn(process.alias, process.facts, "setting")
    process.lost, process.moved = engine.lost, engine.moved
    return engine


# ---- how it starts and stops -----------------------------------------------------------------------------------------


async def _watch(app: web.Application) -> AsyncIterator[None]:
    gateway, examiner, discovery = app[GATEWAY], app[EXAMINER], app[DISCOVERY]
    discovery.when_made = examiner.examine
    for engine in gateway.pool.engines:
        examiner.examine(engine)
    async with _tasks(gateway.pool.watch(), discovery.watch(), gateway.owners.watch()):
        yield
    await app[READINESS].close()
    # A detection may be waiting for the examiner.
    await gateway.pool.close()
    await examiner.close()


async def _sweep(app: web.Application, store_max_bytes: int) -> AsyncIterator[None]:
    store, files, vector_stores = app[GATEWAY].store, app[FILES], app[VECTOR_STORES]
    stored = sweep_store(store, store_max_bytes)
    async with _tasks(stored, sweep_files(files), sweep_files(vector_stores, kind="vector_stores")):
        yield


@contextlib.asynccontextmanager
async def _tasks(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """They run until the end of the block."""
    tasks = [asyncio.create_task(each) for each in work]
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _close_tools(app: web.Application, hosted: HostedTools) -> AsyncIterator[None]:
    yield
    await hosted.close()


async def _watch_containers(app: web.Application) -> AsyncIterator[None]:
    code = app[CONTAINERS]
    if code is None:
        yield
        return
    code.current_owner = app[GATEWAY].owners.current
    watching = asyncio.create_task(code.watch())
    yield
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    await code.close()


async def _close_checker(app: web.Application, checker: Checker) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(checker.close)


async def _close_mcp(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[MCP].close()


async def _start_workers(app: web.Application) -> None:
    app[WORKERS].start()
    app[RETRIEVAL].indexer.start()


async def _drain(app: web.Application) -> None:
    within = app[DRAIN].within
    app[READINESS].stop()
    for connection in app[CONNECTIONS]:
        connection.leave(GOING_AWAY)
    app[WORKERS].stop()
    app[RETRIEVAL].indexer.stop()
    app[INSPECTOR].close()
    await asyncio.gather(app[GATEWAY].drain(within), app[OPEN_ANSWERS].drain(within))
    await app[WORKERS].close()
    await app[RETRIEVAL].close()


def make_runner(app: web.Application) -> web.AppRunner:
    """A client that goes away cancels its handler, and with it the engine's work."""
    options = {"access_log": None, "handler_cancellation": True, "shutdown_timeout": CLOSING_TIME}
    runner = Runner(app, app[CONNECTION_OPTIONS], app[TRANSPORT].wrap_server, **options)
    app[OWN_ADDRESSES].runner = runner
    return runner
