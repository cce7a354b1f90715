"""The observer that makes the spans of a response, in the words of OpenTelemetry's conventions for generative AI. Neither
prompts nor answers are in them."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from antiphon.core.exchange.steps import AskReason, ToolCall
from antiphon.core.toolbox.tools import ToolResult
from antiphon.engines.affinity import set_trace_headers, trace_headers
from antiphon.errors import ApiError
from antiphon.gateway.runs.observers import Arrival, Observer
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import CallItem, CreateResponse, Response

Attributes = dict[str, str | int | float | bool | list[str]]

OPERATION = "chat"
TOOL_OPERATION = "execute_tool"
# Of the span of a response: who answers it.
PROVIDER = "antiphon"
ERROR_TYPE = "error.type"
LEFT = "client_disconnected"
TOOL_FAILED = "tool_failed"
TOOL_STOPPED = "tool_stopped"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"

# The reason why a response is incomplete → the finish reason that engines have for it.
FINISH_REASONS: Mapping[str, str] = {"max_output_tokens": "length"}
# Members of a request → attributes.
OF_REQUESTS: Mapping[str, str] = {
    "model": "gen_ai.request.model",
    "stream": "gen_ai.request.stream",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_output_tokens": "gen_ai.request.max_tokens",
}


def span_name(model: str | None) -> str:
    return f"{OPERATION} {model}" if model else OPERATION


def arrival_attributes(channel: str) -> Attributes:
    return {"gen_ai.operation.name": OPERATION, "gen_ai.provider.name": PROVIDER, "antiphon.channel": channel}


def request_attributes(response_id: str, request: CreateResponse) -> Attributes:
    found: Attributes = {"gen_ai.response.id": response_id}
    for member, name in OF_REQUESTS.items():
        value = getattr(request, member)
        if isinstance(value, str | int | float):
            found[name] = value
    if (conversation := _conversation_id(request.conversation)) is not None:
        found["gen_ai.conversation.id"] = conversation
    return found


def _conversation_id(conversation: str | dict[str, Any] | None) -> str | None:
    """As an id, or as an object that has one."""
    id = conversation.get("id") if isinstance(conversation, dict) else conversation
    return id if isinstance(id, str) else None


def response_attributes(response: Response) -> Attributes:
    found: Attributes = {"gen_ai.response.model": response.model, "antiphon.status": response.status}
    found["gen_ai.response.finish_reasons"] = [_finish_reason(response)]
    if (usage := response.usage) is not None:
        found |= {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.input_tokens_details.cached_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.output_tokens_details.reasoning_tokens,
        }
    if response.error is not None:
        found[ERROR_TYPE] = response.error.code
    return found


def _finish_reason(response: Response) -> str:
    if response.error is not None:
        return "error"
    if response.incomplete_details is not None:
        reason = response.incomplete_details.reason
        return FINISH_REASONS.get(reason, reason)
    # Those that the gateway ran are behind it.
    has_calls = any(isinstance(item, CallItem) and item.call_id is not None for item in response.output)
    return "tool_calls" if has_calls else "stop"


def engine_attributes(chat: ChatRequest, engine: str, provider: str, reason: str) -> Attributes:
    """`provider`: the engine's dialect."""
    address = urlsplit(engine)
    found: Attributes = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": chat.model,
        "server.address": address.hostname or engine,
        "antiphon.reason": reason,
    }
    return found | {"server.port": address.port} if address.port is not None else found


def tool_span_name(call: ToolCall) -> str:
    return f"{TOOL_OPERATION} {call.name}"


def tool_attributes(call: ToolCall) -> Attributes:
    """Its arguments are content, and are not said."""
    found: Attributes = {
        "gen_ai.operation.name": TOOL_OPERATION,
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "extension",
        "antiphon.tool.kind": call.kind,
    }
    return found | {"antiphon.tool.namespace": call.namespace} if call.namespace is not None else found


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
            OPERATION,
            # A background response runs apart from the request that asked for it: it has a trace of its own.
            context=_W3C.extract(trace_headers()),
            kind=SpanKind.SERVER,
            attributes=arrival_attributes(arrival.channel),
            start_time=time.time_ns() - int(waited * 1e9),
        )
        self._reason: AskReason = "first"
        # The question to an engine that has not been answered yet.
        self._call: Span | None = None
        # The calls of tools that run now, by their ids.
        self._tools: dict[str, Span] = {}

    def request(self, response_id: str, request: CreateResponse) -> None:
        self._span.update_name(span_name(request.model))
        self._span.set_attributes(request_attributes(response_id, request))

    def asks(self, reason: AskReason) -> None:
        self._reason = reason

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self._span.update_name(span_name(chat.model))
        self._call = self._tracer.start_span(
            span_name(chat.model),
            context=set_span_in_context(self._span),
            kind=SpanKind.CLIENT,
            attributes=engine_attributes(chat, engine, self._dialect_of(engine), self._reason),
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
            tool_span_name(call),
            context=set_span_in_context(self._span),
            attributes=tool_attributes(call),
        )

    def tool_ended(self, call: ToolCall, result: ToolResult | None) -> None:
        outcome = TOOL_FAILED if result is not None and result.failed else None
        _end(self._tools.pop(call.id), TOOL_STOPPED if result is None else outcome)

    def first_output(self) -> None:
        self._span.set_attribute(FIRST_CHUNK, time.perf_counter() - self._began_at)

    def ended(self, response: Response) -> None:
        self.answered(None)
        self._span.set_attributes(response_attributes(response))
        _end(self._span, response.error.code if response.error is not None else None)

    def dropped(self, error: ApiError | None) -> None:
        self.answered(error)
        _end(self._span, LEFT if error is None else error.code or error.kind)


def _end(span: Span, code: str | None) -> None:
    """With the code of an error only: its message may quote what was said."""
    if code is not None:
        span.set_attribute(ERROR_TYPE, code)
        span.set_status(Status(StatusCode.ERROR))
    span.end()
