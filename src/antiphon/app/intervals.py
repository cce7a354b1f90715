"""Seconds between two attempts, looks or signs of life, and until somebody is given up."""

from msgspec import Struct

from antiphon.engines.pool import ENGINE_RETRY_INTERVAL
from antiphon.engines.probes.examiner import DEFAULT_TIMES, ProbeTimes
from antiphon.files.vector_stores.attempts import DEFAULT_INDEXING, IndexerOptions
from antiphon.gateway.background.attempts import RETRY_INTERVAL
from antiphon.server.routes.readiness import LIFETIME
from antiphon.server.routes.websocket import CLOSE_TIMEOUT, PING_INTERVAL
from antiphon.transport import LINGER


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


DEFAULT_INTERVALS = Intervals()
