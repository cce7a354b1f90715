"""The observer that makes the spans of a response."""

import asyncio
import time
from collections.abc import Callable

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from antiphon.core.exchange.steps import AskReason, ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.engines.trace_context import set_trace_headers, trace_headers
from antiphon.errors import ApiError
from antiphon.gateway.runs.observers import Arrival, Observer
from antiphon.server.traces import attributes
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CreateResponse, Response

_W3C = TraceContextTextMapPropagator()
# The dialect of the engine at this URL.
DialectOf = Callable[[str], str]


class TracedResponse(Observer):
    """It overrides nothing that is called for each delta."""

    def __init__(self, tracer: Tracer, dialect_of: DialectOf, arrival: Arrival) -> None:
        self._tracer = tracer
        self._dialect_of = dialect_of
        # The loop's own clock may know no more than milliseconds.
        waited = asyncio.get_running_loop().time() - arrival.at
        self._began_at = time.perf_counter() - waited
        self._span = tracer.start_span(
            attributes.OPERATION,
            # A background response runs apart from the request that asked for it: it has a trace of its own.
            context=_W3C.extract(trace_headers()),
            kind=SpanKind.SERVER,
            attributes=attributes.arrival_attributes(arrival.channel),
            start_time=time.time_ns() - int(waited * 1e9),
        )
        self._reason: AskReason = "first"
        # The question to an engine that has not been answered yet.
        self._call: Span | None = None
        # The calls of tools that run now, by their ids.
        self._tools: dict[str, Span] = {}

    def request(self, response_id: str, request: CreateResponse) -> None:
        self._span.update_name(attributes.span_name(request.model))
        self._span.set_attributes(attributes.request_attributes(response_id, request))

    def asks(self, reason: AskReason) -> None:
        self._reason = reason

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._span.update_name(attributes.span_name(chat.model))
        self._call = self._tracer.start_span(
            attributes.span_name(chat.model),
            context=set_span_in_context(self._span),
            kind=SpanKind.CLIENT,
            attributes=attributes.engine_attributes(chat, engine, self._dialect_of(engine), self._reason),
        )
        # For the request that follows: the engine's own spans belong to this one.
        headers: dict[str, str] = {}
        _W3C.inject(headers, set_span_in_context(self._call))
        set_trace_headers(headers)

    def answered(self, error: ApiError | None) -> None:
        call, self._call = self._call, None
        if call is not None:
            _end(call, None if error is None else error.code or error.kind)

    def tool_started(self, call: ToolCall) -> None:
        self._tools[call.id] = self._tracer.start_span(
            attributes.tool_span_name(call),
            context=set_span_in_context(self._span),
            attributes=attributes.tool_attributes(call),
        )

    def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
        outcome = attributes.TOOL_FAILED if result is not None and result.failed else None
        _end(self._tools.pop(call.id), attributes.TOOL_STOPPED if result is None else outcome)

    def first_output(self) -> None:
        self._span.set_attribute(attributes.FIRST_CHUNK, time.perf_counter() - self._began_at)

    def ended(self, response: Response) -> None:
        self.answered(None)
        self._span.set_attributes(attributes.response_attributes(response))
        _end(self._span, response.error.code if response.error is not None else None)

    def dropped(self, error: ApiError | None) -> None:
        self.answered(error)
        _end(self._span, attributes.LEFT if error is None else error.code or error.kind)


def _end(span: Span, code: str | None) -> None:
    """With the code of an error only: its message may quote what was said."""
    if code is not None:
        span.set_attribute(attributes.ERROR_TYPE, code)
        span.set_status(Status(StatusCode.ERROR))
    span.end()
