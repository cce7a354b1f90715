"""A response → a chat completion: its message, why it ended, and what it used. And a failure → what its client gets."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.protocols.chat.places import Places
from antiphon.core.protocols.client_protocol import EVENT_TYPES, thought_of
from antiphon.wire.chat_completions import (
    Annotation,
    AnswerChoice,
    AnswerMessage,
    ChatCompletion,
    ChatLogprobs,
    CompletionDetails,
    CompletionUsage,
    CustomText,
    CustomToolCall,
    FinishReason,
    FunctionText,
    FunctionToolCall,
    PromptDetails,
    ToolCall,
    UrlCitation,
)
from antiphon.wire.responses import (
    CreateResponse,
    EngineExtras,
    FunctionCall,
    Logprob,
    OutputItem,
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    Response,
    ResponseError,
)
from antiphon.wire.responses import CustomToolCall as CustomItem

# ---- completions -----------------------------------------------------------------------------------------------------


def response_to_completion(response: Response, request: CreateResponse) -> ChatCompletion:
    message = output_to_message(response.output)
    choice = AnswerChoice(message=message, logprobs=_logprobs(response.output), finish_reason=finish_reason(response))
    return ChatCompletion(
        id=completion_id(response),
        created=response.created_at,
        model=response.model,
        choices=[choice],
        usage=completion_usage(response),
        service_tier=UNSET if request.service_tier is None else response.service_tier,
        metadata=request.metadata or UNSET,
    )


def with_extras(completion: ChatCompletion, extras: EngineExtras) -> dict[str, Any]:
    """With the members of the engine's answer that the API does not have."""
    members: dict[str, Any] = msgspec.to_builtins(completion)
    (choice,) = members["choices"]
    return {**extras.members, **members, "choices": [{**extras.choice, **choice}]}


def completion_id(response: Response) -> str:
    return f"chatcmpl-{response.id.removeprefix('resp_')}"


# A completion has one message. A response may have several: what the model wrote before it called a tool of the gateway, or
# before it was asked for a call that it had announced.
BETWEEN_MESSAGES = "\n\n"


def output_to_message(output: Iterable[OutputItem]) -> AnswerMessage:
    messages = [item for item in output if isinstance(item, OutputMessage)]
    parts = [part for message in messages for part in message.content]
    texts = [part for part in parts if isinstance(part, OutputText)]
    refusals = [part.refusal for part in parts if isinstance(part, OutputRefusal)]
    calls = [call for item in output if (call := item_to_call(item)) is not None]
    is_silent = not texts and bool(calls or refusals)
    return AnswerMessage(
        content=None if is_silent else BETWEEN_MESSAGES.join(filter(None, map(_text_of, messages))),
        reasoning_content="".join(thought_of(item) for item in output if isinstance(item, ReasoningItem)) or UNSET,
        refusal="".join(refusals) or None,
        annotations=[made for part in texts for each in part.annotations if (made := to_annotation(each)) is not None],
        tool_calls=calls or UNSET,
    )


def _text_of(message: OutputMessage) -> str:
    return "".join(part.text for part in message.content if isinstance(part, OutputText))


def item_to_call(item: OutputItem, index: int | UnsetType = UNSET) -> ToolCall | None:
    match item:
        case FunctionCall(call_id=id, name=name, arguments=arguments):
            return FunctionToolCall(index=index, id=id, function=FunctionText(name, arguments))
        case CustomItem(call_id=id, name=name, input=input):
            return CustomToolCall(index=index, id=id, custom=CustomText(name, input))
    return None


def to_annotation(annotation: Mapping[str, Any]) -> Annotation | None:
    """Other types have no form in this API."""
    if annotation.get("type") != "url_citation":
        return None
    return Annotation(UrlCitation(*(annotation[name] for name in UrlCitation.__struct_fields__)))


def _logprobs(output: Iterable[OutputItem]) -> ChatLogprobs | None:
    parts = (part for item in output if isinstance(item, OutputMessage) for part in item.content)
    tokens: list[Logprob] = [token for part in parts if isinstance(part, OutputText) for token in part.logprobs]
    return ChatLogprobs(tokens) if tokens else None


# Why a response is incomplete → why the completion has ended.
INCOMPLETE: Mapping[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


def finish_reason(response: Response) -> FinishReason:
    if response.incomplete_details is not None:
        return INCOMPLETE.get(response.incomplete_details.reason, "length")
    return "tool_calls" if any(isinstance(item, FunctionCall | CustomItem) for item in response.output) else "stop"


def completion_usage(response: Response) -> CompletionUsage:
    usage = response.usage
    if usage is None:
        return CompletionUsage()
    return CompletionUsage(
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        PromptDetails(usage.input_tokens_details.cached_tokens),
        CompletionDetails(usage.output_tokens_details.reasoning_tokens),
    )


# ---- errors ----------------------------------------------------------------------------------------------------------


def failed_to_envelope(error: ResponseError, places: Places) -> dict[str, dict[str, str | None]]:
    """Of a response that fails after its stream has begun."""
    kind = EVENT_TYPES.get(error.code, "server_error")
    return {"error": {"message": places.in_own_words(error.message), "type": kind, "param": None, "code": error.code}}
