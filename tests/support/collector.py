"""A collector of traces, as OpenTelemetry has them: OTLP over HTTP, on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


class Span:
    def __init__(self, span: Any, service: dict[str, Any]) -> None:
        self.name: str = span.name
        self.kind: int = span.kind
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.attributes = _to_dict(span.attributes)
        self.failed: bool = span.status.code == 2
        self.began, self.ended = span.start_time_unix_nano, span.end_time_unix_nano
        self.service = service


def _to_dict(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


class Collector:
    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.bodies: list[bytes] = []

    async def export(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        sent = ExportTraceServiceRequest.FromString(self.bodies[-1])
        for resource in sent.resource_spans:
            service = _to_dict(resource.resource.attributes)
            self.spans += [Span(span, service) for scope in resource.scope_spans for span in scope.spans]
        return web.Response(body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf")

    def children(self, of: Span) -> list[Span]:
        return [span for span in self.spans if span.parent == of.id]

    @property
    def responses(self) -> list[Span]:
        """The spans of responses, without those of questions to engines."""
        return [span for span in self.spans if span.kind == 2]


@asynccontextmanager
async def running_collector() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.export)
    async with TestServer(app) as server:
        collector.url = str(server.make_url("")).rstrip("/")
        yield collector
