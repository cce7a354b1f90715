"""Chat Completions as a protocol of clients: the request, the whole answer and the parts of its chunks, as OpenAI writes them.

What the engines are sent, and what they answer, is in `wire/chat.py`. As in the Responses API, `messages` and `tools` stay
plain dictionaries: tables read each by its role or type. Members of an answer that are UNSET are not sent.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from antiphon.wire.chat import Part
from antiphon.wire.responses import CacheRetention, Logprob, Seed, ServiceTier, StreamOptions

# ---- the request -----------------------------------------------------------------------------------------------------


class SchemaFormat(Struct):
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None
    # llama.cpp has the schema here, too.
    schema: dict[str, Any] | None = None


class ChatStreamOptions(StreamOptions):
    include_usage: bool | None = None


class SearchLocation(Struct):
    type: Literal["approximate"]
    approximate: dict[str, Any]


class WebSearchOptions(Struct):
    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: SearchLocation | None = None


class CreateChat(Struct, kw_only=True):
    """The body of POST /v1/chat/completions, as far as it is read. How far a number may go is the engine's to say."""

    messages: list[dict[str, Any]]
    model: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    web_search_options: WebSearchOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: str | list[str] | None = None
    seed: Seed | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    reasoning_effort: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    service_tier: ServiceTier | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: CacheRetention | None = None
    prompt_cache_options: Any = None
    moderation: dict[str, Any] | None = None


class InstructionMessage(Struct):
    content: str | list[Part]


class UserMessage(Struct):
    content: str | list[Part]


class AssistantMessage(Struct):
    content: str | list[Part] | None = None
    refusal: str | None = None
    # Two names of the same.
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[dict[str, Any]] | None = None


class ToolMessage(Struct):
    tool_call_id: str
    content: str | list[Part] | None = None


class CalledFunction(Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class FunctionCallInput(Struct):
    id: str
    function: CalledFunction


class CalledTool(Struct):
    name: str
    input: str = ""


class CustomCallInput(Struct):
    id: str
    custom: CalledTool


class ImageUrl(Struct):
    url: str
    detail: str | None = None


class ImagePart(Struct):
    image_url: ImageUrl | str


class FileData(Struct):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(Struct):
    file: FileData


class GrammarText(Struct):
    definition: str
    syntax: str


class CustomFormat(Struct):
    type: Literal["text", "grammar"]
    grammar: GrammarText | None = None


class CustomDefinition(Struct):
    name: str
    description: str | None = None
    format: CustomFormat | None = None


class CustomTool(Struct):
    custom: CustomDefinition


class AllowedTools(Struct):
    tools: list[dict[str, Any]]
    mode: str = "auto"


class AllowedChoice(Struct):
    allowed_tools: AllowedTools


class ToolName(Struct):
    name: str


class CustomChoice(Struct):
    custom: ToolName


# ---- the answer ------------------------------------------------------------------------------------------------------

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class FunctionText(Struct):
    name: str
    arguments: str


class CustomText(Struct):
    name: str
    input: str


class FunctionToolCall(Struct, kw_only=True):
    # Only in a chunk.
    index: int | UnsetType = UNSET
    id: str
    type: str = "function"
    function: FunctionText


class CustomToolCall(Struct, kw_only=True):
    index: int | UnsetType = UNSET
    id: str
    type: str = "custom"
    custom: CustomText


ToolCall = FunctionToolCall | CustomToolCall


class UrlCitation(Struct):
    url: str
    title: str
    start_index: int
    end_index: int


class Annotation(Struct):
    url_citation: UrlCitation
    type: str = "url_citation"


class ChatLogprobs(Struct):
    content: list[Logprob] | None
    refusal: list[Logprob] | None = None


class AnswerMessage(Struct, kw_only=True):
    role: str = "assistant"
    content: str | None
    # Not OpenAI's: as llama.cpp, vLLM and DeepSeek have it.
    reasoning_content: str | UnsetType = UNSET
    refusal: str | None = None
    annotations: list[Annotation] = []
    tool_calls: list[ToolCall] | UnsetType = UNSET


class AnswerChoice(Struct, kw_only=True):
    index: int = 0
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason


class PromptDetails(Struct):
    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionDetails(Struct):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class CompletionUsage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptDetails = field(default_factory=PromptDetails)
    completion_tokens_details: CompletionDetails = field(default_factory=CompletionDetails)


class ChatCompletion(Struct, kw_only=True):
    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[AnswerChoice]
    usage: CompletionUsage
    # Only if it was asked for, or sent.
    service_tier: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
