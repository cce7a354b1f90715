"""Chat Completions, the protocol of the engines: the request that is sent and the chunks that are read.

Reading is lenient (engines differ and add keys), writing is exact: a field that is UNSET is not sent.
"""

from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

# ---- the request -----------------------------------------------------------------------------------------------------


# A part of the content of a message.
Part: TypeAlias = dict[str, Any]


class ChatFunction(Struct, omit_defaults=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(Struct):
    function: ChatFunction
    type: str = "function"


class ChatCallFunction(Struct):
    name: str
    arguments: str


class ChatCall(Struct):
    id: str
    function: ChatCallFunction
    type: str = "function"


class ChatMessage(Struct):
    role: str
    content: str | list[dict[str, Any]] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_calls: list[ChatCall] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class StreamOptions(Struct):
    include_usage: bool = True


class ChatRequest(Struct, kw_only=True):
    """The body of POST /v1/chat/completions."""

    model: str
    messages: list[ChatMessage]
    tools: list[ChatTool] | UnsetType = UNSET
    tool_choice: str | dict[str, Any] | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    response_format: dict[str, Any] | UnsetType = UNSET
    grammar: str | UnsetType = UNSET
    reasoning_effort: str | UnsetType = UNSET
    chat_template_kwargs: dict[str, Any] | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    stop: str | list[str] | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    user: str | UnsetType = UNSET
    prompt_cache_key: str | UnsetType = UNSET
    logprobs: bool | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    reasoning_format: str | UnsetType = UNSET
    dry_multiplier: float | UnsetType = UNSET
    dry_allowed_length: int | UnsetType = UNSET
    dry_penalty_last_n: int | UnsetType = UNSET
    dry_sequence_breakers: list[str] | UnsetType = UNSET
    stream: bool = True
    stream_options: StreamOptions | UnsetType = UNSET
    # Fields that a client sent for the engine. They are sent beside the others, not in a member of their own.
    extras: dict[str, Any] | UnsetType = UNSET


# ---- the chunks ------------------------------------------------------------------------------------------------------


class FunctionDelta(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallChunk(Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class ContentPart(Struct):
    type: str = "text"
    text: str = ""


class DeltaChunk(Struct):
    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    refusal: str | None = None
    annotations: Any = None
    tool_calls: list[CallChunk] | None = None
    function_call: FunctionDelta | None = None


class TopLogprob(Struct):
    token: str
    logprob: float
    bytes: list[int] | None = None
    # The token's number, as llama.cpp has it.
    id: Any = UNSET


class Logprob(Struct):
    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[TopLogprob] | None = None
    id: Any = UNSET


class Logprobs(Struct):
    content: list[Logprob] | None = None


class Choice(Struct):
    index: int = 0
    delta: DeltaChunk | None = None
    # A server that ignores `stream` answers with one chat.completion: its `message` is read like one large delta.
    message: DeltaChunk | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None


class PromptTokensDetails(Struct):
    cached_tokens: int | None = None


class CompletionTokensDetails(Struct):
    reasoning_tokens: int | None = None


# The most tokens that any answer can have: what an engine reports beyond is no count, and the sums of a store have room for it.
MOST_TOKENS = 2**40


class ChatUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class Timings(Struct):
    """Counters that llama.cpp sends beside the usage."""

    cache_n: int | None = None


class PromptProgress(Struct, frozen=True):
    """How much of a prompt llama.cpp has read, in tokens. What was in the cache counts as processed."""

    total: int
    processed: int

    @property
    def share(self) -> float:
        return self.processed / self.total if self.total else 1.0


class Chunk(Struct):
    choices: list[Choice] | None = None
    usage: ChatUsage | None = None
    timings: Timings | None = None
    # A PromptProgress; what is not one is no reason to give up the answer.
    prompt_progress: Any = None
    error: Any = None
    # A few servers send a bare error: {"object": "error", "message": …}, or only its message or detail.
    object: str | None = None
    message: Any = None
    detail: Any = None
    code: Any = None
    type: Any = None
