"""A response → a message: its blocks, why it stopped, and what it used. And an error → what its client gets."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.protocols.client_protocol import EVENT_TYPES, thought_of
from antiphon.core.protocols.messages.facts import MessageFacts
from antiphon.core.protocols.messages.read import NO_EFFORT, NO_THREAD
from antiphon.core.protocols.messages.server_tools import item_to_call
from antiphon.errors import ApiError, ContextLengthExceeded, token_counts
from antiphon.partial_json import object_arguments
from antiphon.wire.hosted_items import WebSearchCall
from antiphon.wire.messages import (
    AnswerBlock,
    Block,
    ErrorDetails,
    Message,
    MessageUsage,
    ServerUses,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from antiphon.wire.responses import (
    CreateResponse,
    FunctionCall,
    OutputItem,
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    Response,
    ResponseError,
)

# ---- messages --------------------------------------------------------------------------------------------------------


def shows_thinking(request: CreateResponse) -> bool:
    """A client that has not asked for thoughts expects text in the first block. What a model thinks anyway is not shown."""
    return request.reasoning is not None and request.reasoning.effort not in (None, NO_EFFORT)


def response_to_message(response: Response, request: CreateResponse, facts: MessageFacts) -> Message:
    thinking, thoughts = shows_thinking(request), not facts.hides_thoughts
    blocks = (item_to_blocks(item, thinking=thinking, thoughts=thoughts) for item in response.output)
    return Message(
        model=response.model,
        id=message_id(response),
        content=list(chain.from_iterable(blocks)),
        stop_reason=stop_reason(response),
        stop_sequence=stop_sequence(response),
        usage=message_usage(response),
    )


def message_id(response: Response) -> str:
    return f"msg_{response.id.removeprefix('resp_')}"


def item_to_blocks(item: OutputItem, *, thinking: bool, thoughts: bool) -> Iterator[AnswerBlock | Block]:
    match item:
        case OutputMessage(content=parts):
            for part in parts:
                yield part_to_block(part)
        case ReasoningItem():
            if thinking:
                yield ThinkingBlock(thinking=thought_of(item) if thoughts else "", signature=signature_of(item))
        case FunctionCall(call_id=id, name=name, arguments=arguments):
            yield ToolUseBlock(id=id, name=name, input=msgspec.json.decode(object_arguments(arguments)))
        case _:
            yield from item_to_call(item) or ()


def part_to_block(part: OutputText | OutputRefusal) -> TextBlock:
    if isinstance(part, OutputRefusal):
        return TextBlock(part.refusal)
    citations = [cited for each in part.annotations if (cited := annotation_to_citation(each)) is not None]
    return TextBlock(part.text, citations or UNSET)


def annotation_to_citation(annotation: Mapping[str, Any]) -> dict[str, Any] | None:
    if annotation.get("type") != "url_citation":
        return None
    title, url = annotation.get("title"), annotation.get("url")
    return {"type": "web_search_result_location", "cited_text": "", "url": url, "title": title, "encrypted_index": ""}


def signature_of(item: ReasoningItem) -> str:
    """The seal of the thought, by which it is restored when the client sends it back."""
    return "" if item.encrypted_content is UNSET else item.encrypted_content


# Why a response is incomplete → why the message has stopped.
INCOMPLETE: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def stop_reason(response: Response) -> StopReason:
    if response.incomplete_details is not None:
        return INCOMPLETE.get(response.incomplete_details.reason, "max_tokens")
    if any(isinstance(item, FunctionCall) for item in response.output):
        return "tool_use"
    messages = (item for item in response.output if isinstance(item, OutputMessage))
    if any(isinstance(part, OutputRefusal) for item in messages for part in item.content):
        return "refusal"
    return "end_turn" if response.stop_sequence is UNSET else "stop_sequence"


def stop_sequence(response: Response) -> str | None:
    """That ended the message."""
    return None if response.stop_sequence is UNSET else response.stop_sequence


def message_usage(response: Response) -> MessageUsage:
    usage = response.usage
    if usage is None:
        return MessageUsage()
    cached, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    return MessageUsage(
        input_tokens=max(0, usage.input_tokens - cached - written),
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
        output_tokens=usage.output_tokens,
        server_tool_use=server_uses(response),
    )


def server_uses(response: Response) -> ServerUses | UnsetType:
    """Only of a response that was offered tools that the gateway runs."""
    if response.tool_usage is UNSET:
        return UNSET
    searched = [item for item in response.output if isinstance(item, WebSearchCall)]
    fetched = sum(item.action["type"] != "search" for item in searched)
    return ServerUses(response.tool_usage.web_search.num_requests, fetched)


# ---- errors ----------------------------------------------------------------------------------------------------------

# Status → the type of the error. What is not listed is `api_error` from 500 on, and `invalid_request_error` below.
TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
# Anthropic's own status for a server that is overloaded: their clients know it, and try again.
OVERLOADED = 529
# The codes that Anthropic's own errors have, too.
ERROR_CODES = frozenset({NO_THREAD})
# Claude Code compacts a conversation if an error has these words.
TOO_LONG = "prompt is too long"


def status_of(error: ApiError) -> int:
    return OVERLOADED if error.status == 503 else error.status


def error_to_details(error: ApiError) -> ErrorDetails:
    kind = TYPES.get(error.status) or ("api_error" if error.status >= 500 else "invalid_request_error")
    message = error.message
    if error.param is not None and "[" in error.param and error.param not in message:
        # The form has no member for it.
        message = f"`{error.param}`: {message}"
    if isinstance(error, ContextLengthExceeded):
        message = too_long(error.failure.message if error.failure is not None else message, message)
    return ErrorDetails(kind, message, {"error_code": error.code} if error.code in ERROR_CODES else UNSET)


def failed_to_details(error: ResponseError, facts: MessageFacts) -> ErrorDetails:
    """Of a response that fails after its stream has begun."""
    message = facts.places.in_own_words(error.message)
    if error.code == "context_length_exceeded":
        message = too_long(message, message)
    return ErrorDetails(EVENT_TYPES.get(error.code, "api_error"), message)


def too_long(words: str, otherwise: str) -> str:
    """`words`: the engine's."""
    counts = token_counts(words)
    if len(counts) >= 2 and min(counts) < max(counts):
        return f"{TOO_LONG}: {max(counts)} tokens > {min(counts)} maximum"
    return f"{TOO_LONG}: {otherwise}"
