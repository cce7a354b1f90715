"""Where the spans go: to a collector, by OTLP over HTTP, as the variables OTEL_… of the environment say."""

import asyncio
import logging
import threading
from functools import partial

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from antiphon.gateway.runs.observers import MakeObserver
from antiphon.logs import log
from antiphon.server.traces.spans import DialectOf, TracedResponse

NAME = "antiphon"
# What OpenTelemetry calls a service without a name.
UNKNOWN = "unknown_service"
# Seconds that the last spans may take to be sent when the gateway stops.
CLOSING_TIME = 5.0


class Traces:
    """`close()` it, so that the last spans are sent."""

    def __init__(self, version: str, closing_time: float = CLOSING_TIME) -> None:
        _share_log()
        self._closing_time = closing_time
        self._provider = TracerProvider(resource=_resource(version))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(NAME, version)

    def observer(self, dialect_of: DialectOf) -> MakeObserver:
        return partial(TracedResponse, self._tracer, dialect_of)

    async def close(self) -> None:
        """A collector that is away does not keep the process: the thread is left alone then."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, self._closing_time)


class OurLog(logging.Handler):
    """What OpenTelemetry logs, such as a collector that is away, as lines of our own log."""

    def emit(self, record: logging.LogRecord) -> None:
        log("traces", level=record.levelno, reason=record.getMessage())


def _share_log() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers[:] = [OurLog()]
    logger.propagate = False


def _resource(version: str) -> Resource:
    """A name in the environment counts."""
    named = Resource.create({SERVICE_VERSION: version})
    if str(named.attributes.get(SERVICE_NAME, UNKNOWN)).startswith(UNKNOWN):
        return named.merge(Resource({SERVICE_NAME: NAME}))
    return named
