"""The Responses API, the protocol of the clients: the request, the output items and the response object.

The request's `input` and `tools` stay plain dictionaries: tables convert each item by its type, so that an unknown type gets
the policy for it and not a decoding error.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from antiphon.wire.hosted_items import HostedItem

# ---- the request -----------------------------------------------------------------------------------------------------

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
# Of tokens or calls. The highest is the last whole number that every reader of JSON reads as it is.
Count = Annotated[int, Meta(ge=1, le=2**53)]
# Of 64 bits, as engines take it.
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]


# Of a cache or of a user.
Key = Annotated[str, Meta(max_length=64)]
# "in-memory" is the older spelling.
CacheRetention = Literal["in_memory", "in-memory", "24h"]
ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
FormatName = Annotated[str, Meta(max_length=64, pattern="^[a-zA-Z0-9_-]*$")]


class ReasoningOptions(Struct):
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: str | None = None


class TextFormat(Struct):
    type: Literal["text", "json_object", "json_schema"] = "text"
    name: FormatName | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextOptions(Struct):
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class StreamOptions(Struct):
    include_obfuscation: bool | None = None


class ContextManagement(Struct):
    type: str
    # In tokens. None: by the context window of the model.
    compact_threshold: Annotated[int, Meta(ge=1000, le=2**53)] | None = None


class Beyond(Struct, omit_defaults=True):
    """What a request of another protocol asks for, and the Responses API has no field for."""

    # Fields that an engine gets as they are, by their names.
    engine_fields: dict[str, Any] | None = None
    # What the engine's answer has beside the members of the API is passed on.
    passes_extras: bool = False
    # From how many of the likeliest tokens each one is chosen.
    top_k: int | None = None
    # The text ends before the first of these, and the response says before which.
    stop_sequences: list[str] | None = None
    # The items of code that was run name the files that it has written, and say whether it raised an exception, and the
    # response names its container.
    shows_files: bool = False
    # A response that is out of time ends with the calls that were run, and its client lets the model go on from there.
    may_pause: bool = False
    # A compaction shows its summary.
    shows_summary: bool = False
    # What else its summary must have.
    summary_instructions: str | None = None
    # Nothing is answered after it.
    pauses_after_compaction: bool = False


class CreateResponse(Struct):
    """The body of POST /v1/responses."""

    model: str | None = None
    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    include: list[str] | None = None
    max_output_tokens: Count | None = None
    max_tool_calls: Count | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    stop: str | list[str] | None = None
    seed: Seed | None = None
    user: str | None = None
    metadata: Metadata | None = None
    service_tier: ServiceTier | None = None
    safety_identifier: Key | None = None
    prompt_cache_key: Key | None = None
    prompt_cache_retention: CacheRetention | None = None
    prompt_cache_options: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    context_management: Annotated[list[ContextManagement], Meta(min_length=1)] | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    client_metadata: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None
    access_programs: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    # False: the input is accepted, to be continued later, and no answer is made.
    generate: bool | None = None
    # Only readers of other protocols set it: it is no field of the API.
    beyond: Beyond | None = None


# ---- output items ----------------------------------------------------------------------------------------------------

Status = Literal["in_progress", "completed", "incomplete"]
PatchStatus = Literal["in_progress", "completed"]


class TopLogprob(Struct):
    token: str
    logprob: float
    bytes: list[int]
    # The engine's number of the token. In chat completions only.
    id: Any = UNSET


class Logprob(Struct):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]
    id: Any = UNSET


class OutputText(Struct, tag="output_text"):
    text: str
    annotations: list[Any] = []
    logprobs: list[Logprob] = []


class OutputRefusal(Struct, tag="refusal"):
    refusal: str


class ReasoningText(Struct, tag="reasoning_text"):
    text: str


class SummaryText(Struct, tag="summary_text"):
    text: str


class OutputMessage(Struct, tag="message"):
    id: str
    status: Status
    role: str = "assistant"
    content: list[OutputText | OutputRefusal] = []


class ReasoningItem(Struct, tag="reasoning"):
    id: str
    status: Status
    summary: list[SummaryText] = []
    content: list[ReasoningText] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET


class FunctionCall(Struct, tag="function_call"):
    id: str
    call_id: str
    name: str
    arguments: str
    status: Status
    namespace: str | UnsetType = UNSET


class CustomToolCall(Struct, tag="custom_tool_call"):
    id: str
    call_id: str
    name: str
    input: str
    status: Status
    namespace: str | UnsetType = UNSET


class ToolSearchCall(Struct, tag="tool_search_call"):
    id: str
    # None: the server searches.
    call_id: str | None
    arguments: dict[str, Any]
    status: Status
    execution: str = "client"


class LocalShellCall(Struct, tag="local_shell_call"):
    id: str
    call_id: str
    action: dict[str, Any]
    status: Status


class ShellCall(Struct, tag="shell_call"):
    id: str
    call_id: str
    action: dict[str, Any]
    status: Status
    # The client runs the commands.
    environment: dict[str, Any] = field(default_factory=lambda: {"type": "local"})


class ApplyPatchCall(Struct, tag="apply_patch_call"):
    id: str
    call_id: str
    operation: dict[str, Any]
    # "incomplete" is not one of the API's: only records of earlier versions have it.
    status: PatchStatus | Literal["incomplete"]


class Compaction(Struct, tag="compaction"):
    id: str
    encrypted_content: str
    # Only where another protocol shows it.
    summary: str | UnsetType = UNSET


CallItem = FunctionCall | CustomToolCall | ToolSearchCall | LocalShellCall | ShellCall | ApplyPatchCall
OutputItem = OutputMessage | ReasoningItem | CallItem | HostedItem | Compaction


# ---- the response object ---------------------------------------------------------------------------------------------


class InputTokensDetails(Struct):
    """Of the tokens of the prompt, those that came from a cache, and those that were added to one."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Struct):
    """Of the tokens of the answer, those that the model thought in."""

    reasoning_tokens: int = 0


class Usage(Struct):
    """Token counts. Those of a response are summed over every engine answer that it took."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ImageTokensDetails(Struct):
    image_tokens: int = 0
    text_tokens: int = 0


class ImageUsage(Struct):
    """No tool here makes images. Where it is reported at all, the API has zeros for that."""

    input_tokens: int = 0
    input_tokens_details: ImageTokensDetails = field(default_factory=ImageTokensDetails)
    output_tokens: int = 0
    output_tokens_details: ImageTokensDetails = field(default_factory=ImageTokensDetails)
    total_tokens: int = 0


class WebSearchUsage(Struct):
    num_requests: int = 0


class ToolUsage(Struct):
    image_gen: ImageUsage = field(default_factory=ImageUsage)
    web_search: WebSearchUsage = field(default_factory=WebSearchUsage)


class IncompleteDetails(Struct):
    reason: str


class ResponseError(Struct):
    code: str
    message: str


def no_reasoning() -> dict[str, str | None]:
    return {"effort": None, "summary": None}


class CompactedResponse(Struct, kw_only=True):
    id: str
    object: str = "response.compaction"
    created_at: int
    # The messages of the user as they were, and then the compaction.
    output: list[dict[str, Any] | OutputItem]
    usage: Usage | None


class EngineExtras(Struct):
    """Members of an engine's answer that the API does not have: of the answer, and of its choice."""

    members: dict[str, Any] = {}
    choice: dict[str, Any] = {}


class UsedContainer(Struct):
    """Where code was run. A later request can name it, to go on there."""

    id: str
    # As ISO 8601 has it.
    expires_at: str


class Response(Struct, kw_only=True):
    """All 31 keys of the Open Responses `ResponseResource`, in the order in which OpenAI sends them."""

    id: str
    object: str = "response"
    created_at: int
    status: str = "in_progress"
    background: bool = False
    conversation: dict[str, str] | UnsetType = UNSET
    completed_at: int | None = None
    error: ResponseError | None = None
    frequency_penalty: float = 0.0
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    presence_penalty: float = 0.0
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | UnsetType = UNSET
    # Only records of earlier versions have null.
    reasoning: dict[str, str | None] | None = field(default_factory=no_reasoning)
    safety_identifier: str | None = None
    service_tier: str = "default"
    store: bool = False
    temperature: float = 1.0
    text: dict[str, Any] = field(default_factory=lambda: {"format": {"type": "text"}})
    tool_choice: str | dict[str, Any] = "auto"
    # Only of a response that was offered tools that the gateway runs.
    tool_usage: ToolUsage | UnsetType = UNSET
    tools: list[dict[str, Any]] = []
    top_logprobs: int = 0
    top_p: float = 1.0
    truncation: str = "disabled"
    usage: Usage | None = None
    user: str | None = None
    metadata: dict[str, str] = {}
    # What was changed or left out, a line each.
    antiphon_notices: list[str] | UnsetType = UNSET
    # What other protocols show: the sequence that ended the text, what the engine's answer had beside the API's members, where
    # code was run, that the response was out of time, and that the model's window was too small for what it may write.
    stop_sequence: str | UnsetType = UNSET
    engine_extras: EngineExtras | UnsetType = UNSET
    container: UsedContainer | UnsetType = UNSET
    was_paused: bool | UnsetType = UNSET
    filled_window: bool | UnsetType = UNSET
    # The text of the output, once there is one: not in the events that begin a stream.
    output_text: str | UnsetType = UNSET
