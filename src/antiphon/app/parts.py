"""The parts of an application, each made of the few settings that it needs."""

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from msgspec import Struct, field, structs

from antiphon import __version__
from antiphon.app.hosted_tools import HostedTools, make_containers
from antiphon.app.lifetime import Beside, OwnAddresses
from antiphon.app.mcp_servers import address_policy, mcp_limits, operator_servers
from antiphon.app.options import (
    DAY,
    DEFAULT_INTERVALS,
    Intervals,
    admission_limits,
    background_options,
    batch_limits,
    batch_options,
    budgets,
    engine_options,
    file_limits,
    http_limits,
    placement_options,
    request_limits,
    store_kind,
)
from antiphon.app.retrieval import EmbeddingModels, Retrieval, SentenceModel
from antiphon.app.webhooks import make_sender, webhook_endpoints
from antiphon.core.events.lifecycle import PADDED_TO, REASONING_EVENTS
from antiphon.core.exchange.environment import Environment
from antiphon.core.knowledge.knowledge import Model
from antiphon.core.knowledge.model_names import ModelNames
from antiphon.core.protocols.chat.protocol import CHAT, ChatProtocol
from antiphon.core.protocols.chat.ways import NO_RULES, Rules
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.table import PROTOCOLS
from antiphon.core.toolbox.mcp_servers import MCP as MCP_TOOL
from antiphon.engines.discovery import Discovery, is_name
from antiphon.engines.health import HealthChecks
from antiphon.engines.pool import Pool
from antiphon.engines.probes.examiner import Examiner
from antiphon.engines.upstream import Engine
from antiphon.files.batches.batches import Batches
from antiphon.files.file_inputs import MOST_PROCESSES, OWN_PROCESSES, FileInputs, FileTexts
from antiphon.files.library import FileLibrary
from antiphon.files.uploads import Uploads
from antiphon.gateway.background.workers import Workers
from antiphon.gateway.batches.line_run import LineParts
from antiphon.gateway.batches.runner import BatchRunner
from antiphon.gateway.limits.owner_limits import Admission
from antiphon.gateway.limits.places import AdmissionLimits
from antiphon.gateway.limits.threads import ViewPlaces
from antiphon.gateway.passed_through.own_embeddings import OwnEmbeddings
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.gateway import Gateway, asks_for_approval
from antiphon.gateway.runs.observers import MakeObserver
from antiphon.gateway.runs.short_answers import ModelJudge, QueryRewriter
from antiphon.gateway.runs.steps import Equipment
from antiphon.gateway.runs.timers import Timeouts
from antiphon.gateway.state.conversations import Conversations
from antiphon.gateway.state.owners import Keyring, Owners
from antiphon.gateway.state.seal import load_key, make_sealer
from antiphon.gateway.stored_prompts.folder import read_folder
from antiphon.gateway.usage.budgets import Budgets
from antiphon.gateway.usage.ledger import Ledger
from antiphon.gateway.usage.prices import configured_prices
from antiphon.gateway.webhooks.messages import Webhooks
from antiphon.ids import new_id
from antiphon.logs import log
from antiphon.sandbox.containers.containers import Containers
from antiphon.sandbox.containers.kernels import Kernels
from antiphon.server.inspector.inspector import GatewayDescription, Inspection, Inspector, read_page
from antiphon.server.inspector.recordings import Recordings
from antiphon.server.parts import Access, Parts, Resources, Routing
from antiphon.server.readiness import OpenWork, Readiness
from antiphon.server.request_headers import AllowedHosts, CrossOrigin
from antiphon.server.request_state import Exposed
from antiphon.server.siblings import Siblings
from antiphon.settings.keys import earlier_owners, is_loopback, key_owners, metrics_readers, needs_key
from antiphon.settings.settings import Settings, data_directory, models_directory
from antiphon.store.protocol import Store
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.fetcher import Fetcher
from antiphon.tools.mcp.runner import McpRunner, NoMcp
from antiphon.tools.mcp.session import is_installed
from antiphon.tools.runner import ToolRunner
from antiphon.tools.url_files import UrlFiles
from antiphon.transport import ConnectionOptions, transport_of
from antiphon.transport.interfaces import WriteBatch

if TYPE_CHECKING:
    from antiphon.engines.embedded.process import EngineProcess, SharedEngineProcess


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
    # Protocols that clients may speak beside those of `PROTOCOLS`.
    protocols: Sequence[ClientProtocol] = ()
    # It may download the model that file search embeds with, when the first file is indexed. Else one that is there is used.
    downloads: bool = False


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


class Given(Struct, frozen=True):
    """What an application is made of."""

    settings: Settings
    # To the engines.
    session: aiohttp.ClientSession
    store: Store
    embedded: "EngineProcess | SharedEngineProcess | None"
    extensions: Extensions
    part: WorkerPart


# ---- engines ---------------------------------------------------------------------------------------------------------


def make_pool(given: Given) -> Pool:
    settings = given.settings
    names = ModelNames(settings.model_names, settings.default_model)
    engines, health = _make_engines(settings, given.session, given.embedded), HealthChecks(settings.health_interval)
    return Pool(engines, given.extensions.intervals.engine_retry, names, placement_options(settings), health)


def _make_engines(
    settings: Settings, session: aiohttp.ClientSession, embedded: "EngineProcess | SharedEngineProcess | None"
) -> list[Engine]:
    engines = [Engine(url, session, engine_options(settings)) for url in settings.upstream if not is_name(url)]
    if embedded is not None:
        engines.append(_embedded_engine(embedded, session, settings))
    return engines


def _embedded_engine(
    process: "EngineProcess | SharedEngineProcess", session: aiohttp.ClientSession, settings: Settings
) -> Engine:
    """An engine like any other, whose process reports when it is gone."""
    engine = Engine(process.url, session, structs.replace(engine_options(settings), key=process.key, dialect=None))
    engine.is_embedded = True
    # Known before it runs, so that requests for it wait for it.
    engine.knowledge.models = (Model(id=process.alias, created=0, owned_by="antiphon"),)
    # Of this model on this engine: another engine's model of the same name is left alone.
    if process.weights is not None:
        engine.knowledge.recognise(process.alias, process.weights)
    engine.loading = process.loading
    process.lost, process.moved, process.progressed = engine.lost, engine.moved, engine.progressed
    return engine


# ---- what is checked, stored and run ---------------------------------------------------------------------------------


class Checkers(Struct):
    """The processes that check what a client or an engine sends, and those that read files, which takes longer."""

    checks: Checker
    files: Checker
    # Those that end with the application.
    own: Sequence[Checker] = ()


def make_checkers(settings: Settings, shared: Checker | None) -> Checkers:
    """`shared`: in place of both, and not closed here."""
    if shared is not None:
        return Checkers(shared, shared)
    checks = Checker(settings.check_timeout)
    files = Checker(settings.files.text_timeout, MOST_PROCESSES, OWN_PROCESSES)
    return Checkers(checks, files, [checks, files])


class Storage(Struct, frozen=True):
    """Uploaded files, what is found in them, and where code is run on them."""

    files: FileLibrary
    batches: Batches
    uploads: Uploads
    texts: FileTexts
    # None: nothing is fetched.
    urls: UrlFiles | None
    retrieval: Retrieval
    embeddings: OwnEmbeddings
    # None: the settings switch them off.
    containers: Containers | None


def make_storage(given: Given, reader: Checker, pool: Pool, own: OwnAddresses) -> Storage:
    """`reader`: of files. `pool`: an engine of it may make the embeddings. `own`: where the gateway listens."""
    settings, stored, extensions = given.settings, given.store.files, given.extensions
    files, texts = FileLibrary(stored, file_limits(settings), new_id), FileTexts(reader.run)
    sentences = SentenceModel(models_directory(settings), downloads=extensions.downloads)
    models = EmbeddingModels(settings.vector_stores, pool, given.session, sentences=sentences)
    retrieval = Retrieval(settings.vector_stores, stored, files, texts, models, extensions.intervals.indexing)
    batches = Batches(stored, files, batch_limits(settings), new_id)
    containers = make_containers(settings, files, extensions.kernels, given.part.slot)
    uploads, urls = Uploads(stored, files, new_id), _make_url_files(settings, reader, own)
    return Storage(files, batches, uploads, texts, urls, retrieval, OwnEmbeddings(models.own), containers)


def _make_url_files(settings: Settings, reader: Checker, own: OwnAddresses) -> UrlFiles | None:
    if settings.fetch_urls == "off":
        return None
    policy = AddressPolicy(settings.fetch_urls, settings.fetch_hosts, own=own)
    return UrlFiles(Fetcher(policy, timeout=settings.fetch_timeout), reader.run)


def make_resources(storage: Storage, gateway: Gateway) -> Resources:
    stores = storage.retrieval.stores
    owned = (storage.files, stores, storage.batches, storage.uploads)
    gateway.owners.moving_too += [each.move_owner for each in owned]
    conversations = Conversations(
        gateway.store,
        retention=gateway.retention,
        files=storage.files,
        fetches=gateway.environment.fetched_bytes > 0,
    )
    retrieval = storage.retrieval
    stores.judge = ModelJudge(gateway)
    return Resources(
        conversations,
        storage.files,
        stores,
        retrieval.store_files,
        storage.batches,
        storage.uploads,
        storage.embeddings,
        QueryRewriter(gateway),
        storage.containers,
    )


class Tools(Struct, frozen=True):
    mcp: McpRunner | NoMcp
    hosted: HostedTools


def make_tools(given: Given, checker: Checker, storage: Storage, own: OwnAddresses) -> Tools:
    """`own`: where the gateway listens."""
    mcp = _make_mcp(given.settings, own)
    tools, stores = {MCP_TOOL: mcp, **given.extensions.tools}, storage.retrieval.stores
    hosted = HostedTools(given.settings, checker, tools, own, stores=stores, containers=storage.containers)
    return Tools(mcp, hosted)


def _make_mcp(settings: Settings, own: OwnAddresses) -> McpRunner | NoMcp:
    if not is_installed():
        return NoMcp()
    return McpRunner(operator_servers(settings), address_policy(settings, own), mcp_limits(settings))


# ---- the gateway -----------------------------------------------------------------------------------------------------


def make_gateway(
    given: Given, pool: Pool, equipment: Equipment, observers: Sequence[MakeObserver], recordings: Recordings | None
) -> Gateway:
    settings, store = given.settings, given.store
    ledger = Ledger(store.accounts, pool.is_listed, is_kept=settings.usage.enabled)
    prices = configured_prices(settings.usage.currency, settings.usage.prices)
    return Gateway(
        pool,
        store,
        make_environment(settings, equipment.tools),
        equipment,
        given.part.make_admission(admission_limits(settings)),
        retention=int(settings.retention_days * DAY),
        unstored_retention=math.ceil(settings.unstored_retention),
        stores_messages=settings.store_messages,
        owners=Owners(store, earlier_owners(settings)),
        ledger=ledger,
        budgets=Budgets(store.accounts, ledger, prices, budgets(settings)),
        webhooks=Webhooks(webhook_endpoints(settings.webhooks)),
        make_sealer=partial(make_sealer, load_key(settings.seal_key, data_directory(settings))),
        observers=[*([recordings.observe] if recordings is not None else ()), *observers],
        may_record=recordings.may_record if recordings is not None else None,
    )


def use_prompts(settings: Settings, gateway: Gateway) -> None:
    if settings.prompts is not None:
        gateway.prompts = read_folder(Path(settings.prompts))


def make_equipment(settings: Settings, checker: Checker, tools: Mapping[str, ToolRunner], storage: Storage) -> Equipment:
    timeouts = Timeouts(settings.heartbeat, settings.first_byte_timeout, settings.idle_timeout, settings.response_timeout)
    files = FileInputs(storage.files, storage.texts.read_for_model)
    return Equipment(timeouts, WriteBatch(), checker, tools, settings.tool_timeout, files, storage.urls)


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
        polling_tools=settings.polling_tools,
        asks_for_announced=settings.announced_calls == "ask",
        fetched_bytes=0 if settings.fetch_urls == "off" else settings.fetch_bytes,
        limits=request_limits(settings),
    )


def make_protocols(settings: Settings, more: Sequence[ClientProtocol], rules: Rules = NO_RULES) -> list[ClientProtocol]:
    """Chat Completions is none of them if all of its requests are passed through, for which there is a route, or if another
    protocol has its path."""
    others = [each for each in PROTOCOLS if each is not CHAT]
    is_read = settings.chat == "reliable" and not any(CHAT.path in each.paths for each in more)
    return [*others, *([ChatProtocol(rules)] if is_read else ()), *more]


def make_rules(settings: Settings, tools: Tools) -> Rules:
    """How chat requests are answered."""

    def attaches(owner: str, model: str | None) -> bool:
        named = model or settings.default_model
        models = (named, settings.model_names.get(named, named)) if named is not None else (None,)
        return not all(asks_for_approval(tool) for tool in tools.mcp.attached(owner, models))

    return Rules(
        frozenset(settings.chat_pass_models),
        frozenset(settings.chat_pass_keys),
        tools.hosted.runners.keys(),
        attaches=attaches,
        helps=settings.chat_help,
        fetches=settings.fetch_urls != "off",
    )


# ---- around the requests ---------------------------------------------------------------------------------------------


def make_access(settings: Settings) -> Access:
    keyring = Keyring(key_owners(settings))
    hosts = AllowedHosts((settings.host, *settings.allowed_hosts), needed=lambda: not keyring)
    return Access(keyring, Keyring(metrics_readers(settings)), CrossOrigin(settings.cors_origins), hosts)


def make_inspection(given: Given) -> Inspection:
    settings, part = given.settings, given.part
    is_on = settings.inspector if settings.inspector is not None else needs_key(settings) or is_loopback(settings.host)
    now = asyncio.get_running_loop().time
    rate, next_number = settings.inspector_rate, part.next_row_number
    recordings = Recordings(settings.inspector_bytes, now, rate=rate, next_number=next_number) if is_on else None
    return Inspection(
        Inspector(__version__, recordings, settings.inspector_bodies, read_page()),
        # Also if the last key is removed while it runs.
        needs_key=settings.inspector is None and not is_loopback(settings.host),
        opening=ViewPlaces(None, own_places=2, now=now),
        listing=ViewPlaces(2, own_places=1, now=now),
        description=GatewayDescription(__version__, part.gateway_started or time.time(), store_kind(settings)),
        process_started=time.time(),
    )


def make_parts(
    given: Given,
    gateway: Gateway,
    resources: Resources,
    routing: Routing,
    inspection: Inspection,
    metrics: Exposed | None,
) -> Parts:
    """What its requests use."""
    settings, intervals = given.settings, given.extensions.intervals
    return Parts(
        gateway=gateway,
        access=make_access(settings),
        resources=resources,
        routing=routing,
        transport=transport_of(given.session),
        limits=http_limits(settings, intervals),
        siblings=given.part.siblings,
        inspection=inspection,
        open=OpenWork(Readiness(given.store, lifetime=intervals.readiness)),
        metrics=metrics,
    )


# ---- beside the requests ---------------------------------------------------------------------------------------------


def make_batch_runner(
    given: Given, gateway: Gateway, storage: Storage, reader: Checker, protocols: Sequence[ClientProtocol]
) -> BatchRunner:
    """`reader`: of files."""
    settings, stored = given.settings, given.store.files
    by_path = {path: each for each in protocols for path in each.paths}
    options = batch_options(settings, given.extensions.intervals.batch_step)
    parts = LineParts(new_id("gateway"), gateway, stored.database, storage.files, by_path, storage.embeddings, options.attempts)
    return BatchRunner(stored, storage.files, reader.run, parts, options)


class Made(NamedTuple):
    """Parts that were made before what runs beside the requests."""

    gateway: Gateway
    storage: Storage
    tools: Tools
    batches: BatchRunner


def make_beside(given: Given, made: Made, own: OwnAddresses, options: ConnectionOptions) -> Beside:
    gateway, storage, tools, batches = made
    settings, pool, intervals = given.settings, gateway.pool, given.extensions.intervals
    return Beside(
        examiner=Examiner(
            gateway.in_flight.is_busy, generates=settings.probe, named_models=pool.names.models, times=intervals.probes
        ),
        discovery=Discovery(pool, given.session, settings.upstream, engine_options(settings)),
        workers=Workers(gateway, background_options(settings, intervals.background_retry)),
        retrieval=storage.retrieval,
        batches=batches,
        hosted=tools.hosted,
        mcp=tools.mcp,
        own_addresses=own,
        connection_options=options,
        drain_within=settings.shutdown_timeout,
        webhooks=make_sender(settings, gateway, own),
        prompts=None if settings.prompts is None else Path(settings.prompts),
        urls=storage.urls,
    )
