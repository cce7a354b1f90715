"""The options of each part of a gateway, and the seconds that it waits before it acts again."""

from functools import partial

from msgspec import Struct, structs

from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.engines.load import PlacementOptions
from antiphon.engines.pool import ENGINE_RETRY_INTERVAL
from antiphon.engines.probes.examiner import DEFAULT_TIMES, ProbeTimes
from antiphon.engines.requests import EngineOptions
from antiphon.files.batches.batches import BatchLimits
from antiphon.files.batches.input import InputLimits
from antiphon.files.library import FileLimits
from antiphon.files.vector_stores.indexer import DEFAULT_INDEXING, IndexerOptions
from antiphon.gateway.background.attempts import RETRY_INTERVAL, BackgroundOptions
from antiphon.gateway.batches.runner import STEP, BatchOptions
from antiphon.gateway.limits.places import AdmissionLimits
from antiphon.gateway.state.housekeeping import StoreLimits
from antiphon.gateway.usage.budgets import Budget
from antiphon.server.answers import TOO_SLOW, answer_unrouted
from antiphon.server.parts import HttpLimits
from antiphon.server.paths import ProtocolPaths, is_uploaded_form
from antiphon.server.readiness import LIFETIME
from antiphon.server.routes.websocket import CLOSE_TIMEOUT, PING_INTERVAL
from antiphon.settings.settings import Settings, read_chat_template
from antiphon.transport import LINGER, ConnectionOptions


class Intervals(Struct, frozen=True):
    """Seconds that parts of the gateway wait before they act again. Tests make them shorter or longer."""

    engine_retry: float = ENGINE_RETRY_INTERVAL
    background_retry: float = RETRY_INTERVAL
    websocket_ping: float = PING_INTERVAL
    websocket_farewell: float = CLOSE_TIMEOUT
    linger: float = LINGER
    probes: ProbeTimes = DEFAULT_TIMES
    readiness: float = LIFETIME
    indexing: IndexerOptions = DEFAULT_INDEXING
    batch_step: float = STEP


DEFAULT_INTERVALS = Intervals()
DAY = 24 * 60 * 60


# ---- options ---------------------------------------------------------------------------------------------------------


def http_limits(settings: Settings, intervals: Intervals) -> HttpLimits:
    return HttpLimits(
        settings.context_window,
        settings.max_body_bytes,
        settings.websocket_lifetime,
        intervals.websocket_ping,
        intervals.websocket_farewell,
        settings.websocket_queue,
    )


def connection_options(settings: Settings, intervals: Intervals, protocols: ProtocolPaths) -> ConnectionOptions:
    timeouts = settings.header_timeout, settings.body_timeout, settings.send_timeout
    answer_error = partial(answer_unrouted, protocols)
    return ConnectionOptions(*timeouts, answer_error, TOO_SLOW, intervals.linger, is_uploaded_form, protocols.direct)


def store_kind(settings: Settings) -> str:
    scheme = (settings.store or "sqlite:").partition(":")[0]
    return "postgres" if scheme == "postgresql" else scheme


def request_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(**{name: getattr(settings, f"max_{name}") for name in RequestLimits.__struct_fields__})


def file_limits(settings: Settings) -> FileLimits:
    return FileLimits(settings.files.max_file_bytes, settings.files.key_bytes, settings.files.max_bytes)


def store_limits(settings: Settings) -> StoreLimits:
    return StoreLimits(settings.store_max_bytes, settings.usage.keep_days)


def budgets(settings: Settings) -> dict[str, Budget]:
    return {name: Budget(**structs.asdict(each)) for name, each in settings.usage.budgets.items()}


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


def batch_limits(settings: Settings) -> BatchLimits:
    chosen = settings.batches
    days = settings.retention_days
    return BatchLimits(chosen.max_lines, chosen.max_bytes, unfinished=chosen.per_key, retention=int(days * DAY))


def batch_options(settings: Settings, step: float) -> BatchOptions:
    return BatchOptions(
        places=settings.batches.engine_places,
        lease=settings.background_lease,
        attempts=settings.background_attempts,
        input=InputLimits(lines=settings.batches.max_lines, line=settings.max_body_bytes),
        step=step,
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
