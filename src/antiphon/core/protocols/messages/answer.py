"""A response → a message: its blocks, why it stopped, and what it used. And an error → what its client gets."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.protocols.client_protocol import EVENT_TYPES, thought_of
from antiphon.core.protocols.messages.facts import MessageFacts
from antiphon.core.protocols.messages.read import NO_EFFORT, NO_THREAD
from antiphon.core.protocols.messages.server_tools import ServerCalls, item_to_listing
from antiphon.errors import ApiError, ContextLengthExceeded, token_counts
from antiphon.partial_json import object_arguments
from antiphon.patterns import late_pattern
from antiphon.wire.events import DOCUMENT_CITATION
from antiphon.wire.hosted_items import McpListTools, WebSearchCall
from antiphon.wire.messages import (
    AnswerBlock,
    Block,
    CompactionBlock,
    ContextManagementApplied,
    Ending,
    ErrorDetails,
    Message,
    MessageUsage,
    ServerUses,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ThinkingTokens,
    ToolUseBlock,
)
from antiphon.wire.responses import (
    Compaction,
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

# The end of a sentence that cites.
_CLOSING = late_pattern(r"[.,;:!?…)\]»”’\"']*")

# ---- messages --------------------------------------------------------------------------------------------------------


def shows_thinking(request: CreateResponse) -> bool:
    """A client that has not asked for thoughts expects text in the first block. What a model thinks anyway is not shown."""
    return request.reasoning is not None and request.reasoning.effort not in (None, NO_EFFORT)


def response_to_message(response: Response, request: CreateResponse, facts: MessageFacts) -> Message:
    thinking, output = shows_thinking(request), [] if facts.only_reads else response.output
    calls = ServerCalls(facts.search)
    blocks = (item_to_blocks(item, facts, calls, thinking=thinking) for item in output)
    ending = message_ending(response, facts)
    return Message(
        model=response.model,
        id=message_id(response),
        content=list(chain.from_iterable(blocks)),
        container=ending.container,
        stop_reason=ending.stop_reason,
        stop_sequence=ending.stop_sequence,
        stop_details=ending.stop_details,
        usage=message_usage(response),
        context_management=applied_edits(facts),
    )


def message_id(response: Response) -> str:
    return f"msg_{response.id.removeprefix('resp_')}"


def item_to_blocks(
    item: OutputItem, facts: MessageFacts, calls: ServerCalls, *, thinking: bool
) -> Iterator[AnswerBlock | Block]:
    match item:
        case OutputMessage(content=parts):
            for part in parts:
                yield from [TextBlock(part.refusal)] if isinstance(part, OutputRefusal) else part_to_blocks(part)
        case ReasoningItem():
            if thinking:
                yield ThinkingBlock(thinking="" if facts.hides_thoughts else thought_of(item), signature=signature_of(item))
        case FunctionCall(arguments=arguments):
            yield call_to_block(item, facts, msgspec.json.decode(object_arguments(arguments)))
        case Compaction():
            yield CompactionBlock(summary_of(item), item.encrypted_content)
        case McpListTools():
            if facts.shows_listings:
                yield item_to_listing(item)
        case _:
            yield from filter(None, calls.show(item) or ())


def call_to_block(call: FunctionCall, facts: MessageFacts, input: dict[str, Any]) -> ToolUseBlock:
    toolset = UNSET if call.namespace is UNSET or call.namespace not in facts.toolsets else call.namespace
    return ToolUseBlock(call.call_id, call.name, input, toolset)


def summary_of(item: Compaction) -> str | None:
    return None if item.summary is UNSET else item.summary


class BlockCutter:
    """Where a text is cut into blocks: behind the words that cite a document, so that it is clear what they say of it."""

    __slots__ = ("is_cited",)

    def __init__(self) -> None:
        # The open block cites a document. Nothing but the end of its sentence follows.
        self.is_cited = False

    def split(self, text: str) -> tuple[str, str | None]:
        """What belongs to the open block; and what begins another one, None if nothing does."""
        if not self.is_cited or (found := _CLOSING.match(text)) is None or found.end() == len(text):
            return text, None
        self.is_cited = False
        return found[0], text[found.end() :]


def part_to_blocks(part: OutputText) -> list[TextBlock]:
    """The same blocks that a stream has."""
    cutter, blocks, start = BlockCutter(), [TextBlock("")], 0
    for annotation in part.annotations:
        if (citation := annotation_to_citation(annotation)) is None:
            continue
        cites_document = annotation["type"] == DOCUMENT_CITATION
        end = annotation["index"] if cites_document else annotation.get("end_index")
        # An engine's own annotation may say nothing of its place.
        end = end if isinstance(end, int) and end >= start else start
        _add_text(blocks, *cutter.split(part.text[start:end]))
        start, cutter.is_cited = end, cutter.is_cited or cites_document
        blocks[-1].citations = [*(blocks[-1].citations or ()), citation]
    _add_text(blocks, *cutter.split(part.text[start:]))
    return blocks


def _add_text(blocks: list[TextBlock], text: str, following: str | None) -> None:
    blocks[-1].text += text
    if following is not None:
        blocks.append(TextBlock(following))


def annotation_to_citation(annotation: Mapping[str, Any]) -> dict[str, Any] | None:
    """None: it is none of this protocol."""
    if annotation.get("type") == DOCUMENT_CITATION:
        return dict(annotation["location"])
    if annotation.get("type") != "url_citation":
        return None
    title, url = annotation.get("title"), annotation.get("url")
    return {"type": "web_search_result_location", "cited_text": "", "url": url, "title": title, "encrypted_index": ""}


def signature_of(item: ReasoningItem) -> str:
    """The seal of the thought, by which it is restored when the client sends it back."""
    return "" if item.encrypted_content is UNSET else item.encrypted_content


def applied_edits(facts: MessageFacts) -> ContextManagementApplied | UnsetType:
    return UNSET if facts.edits is None else ContextManagementApplied(facts.edits)


# ---- how they end ----------------------------------------------------------------------------------------------------

# Why a response is incomplete → why the message has stopped.
INCOMPLETE: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def message_ending(response: Response, facts: MessageFacts) -> Ending:
    reason = "max_tokens" if facts.only_reads else stop_reason(response)
    return Ending(
        reason,
        None if response.stop_sequence is UNSET else response.stop_sequence,
        None if reason == "refusal" else UNSET,
        response.container,
    )


def stop_reason(response: Response) -> StopReason:
    if response.was_paused is True:
        return "pause_turn"
    if response.filled_window is True:
        return "model_context_window_exceeded"
    if response.incomplete_details is not None:
        return INCOMPLETE.get(response.incomplete_details.reason, "max_tokens")
    if response.output and isinstance(response.output[-1], Compaction):
        return "compaction"
    if any(isinstance(item, FunctionCall) for item in response.output):
        return "tool_use"
    messages = (item for item in response.output if isinstance(item, OutputMessage))
    if any(isinstance(part, OutputRefusal) for item in messages for part in item.content):
        return "refusal"
    return "end_turn" if response.stop_sequence is UNSET else "stop_sequence"


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
        output_tokens_details=ThinkingTokens(usage.output_tokens_details.reasoning_tokens),
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
