"""What the spans say, in the words of OpenTelemetry's conventions for generative AI. Neither prompts nor answers are said."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from antiphon.core.exchange.steps import ToolCall
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
