"""Anthropic Messages, another protocol of clients: the request, the blocks of its messages, the answer and its events.

As in the Responses API, `messages` and `tools` stay plain dictionaries: tables read each block and each tool by its type.
Members that are absent or null follow what Anthropic's servers send.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.wire.responses import Share, UsedContainer

# A block of content, as JSON has it.
Block: TypeAlias = dict[str, Any]

# ---- the request -----------------------------------------------------------------------------------------------------


class OutputConfig(Struct):
    effort: str | None = None
    format: dict[str, Any] | None = None
    task_budget: dict[str, Any] | None = None


class Thinking(Struct):
    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    # "omitted": a thought is shown without its text; its signature has it. With all others, it is shown.
    display: str | None = None
    # What happens if a thought is not that of its conversation. Here, a signature that cannot be opened has a notice.
    block_binding: dict[str, Any] | None = None


class ToolChoice(Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class RequestMetadata(Struct):
    # Claude Code has a JSON object in this string.
    user_id: str | None = None


class Thread(Struct):
    """A conversation that a server keeps. It may lose it at any time: clients can send all of it again."""

    type: Literal["create", "continue"]
    previous_message_id: str | None = None


class Amount(Struct):
    type: str
    value: Annotated[int, Meta(ge=0, le=2**53)]


class ContextEdit(Struct):
    """An edit of the context. Which members it has depends on its type."""

    type: str
    # Of clear_tool_uses.
    trigger: Amount | None = None
    keep: Amount | str | None = None
    clear_at_least: Amount | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None
    # Of compact.
    instructions: str | None = None
    pause_after_compaction: bool | None = None


class ContextEdits(Struct):
    edits: list[ContextEdit] = []


class CompactionRequest(Struct):
    """Nothing but a summary is asked for."""

    type: Literal["summarize"]
    instructions: str | None = None


class ContainerChoice(Struct):
    id: str | None = None
    skills: list[dict[str, Any]] | None = None


class CreateMessage(Struct, kw_only=True):
    """The body of POST /v1/messages, and of /v1/messages/count_tokens."""

    messages: list[dict[str, Any]]
    model: str | None = None
    # 0: the prompt is read, to be in the engine's cache, and nothing is written.
    max_tokens: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    system: str | list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    # The older place of `output_config.format`.
    output_format: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    metadata: RequestMetadata | None = None
    stream: bool | None = None
    context_management: ContextEdits | None = None
    compaction: CompactionRequest | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    container: str | ContainerChoice | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    cache_control: dict[str, Any] | None = None
    thread: Thread | None = None
    # About Anthropic's own servers.
    billing_policy: dict[str, Any] | None = None
    diagnostics: dict[str, Any] | None = None
    fallback_credit_token: str | dict[str, Any] | None = None
    fallbacks: str | list[dict[str, Any]] | None = None
    inference_geo: str | None = None
    speed: Literal["standard", "fast"] | None = None


class MessageConfig(Struct):
    effort: str | None = None


class InputMessage(Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block] | None = None
    # Of a system message: it is shown until the user says something else; and how much the model thinks from there on.
    clear_at: Literal["next_user_message", "never"] | None = None
    output_config: MessageConfig | None = None


class TextInput(Struct):
    text: str


class ThinkingInput(Struct):
    thinking: str = ""
    signature: str | None = None


class RedactedInput(Struct):
    data: str = ""


class ReferenceInput(Struct):
    tool_name: str = ""


class ToolUseInput(Struct):
    id: str
    name: str
    input: dict[str, Any] = {}
    # The set of the client's tools that it belongs to.
    toolset_name: str | None = None


class ToolResultInput(Struct):
    tool_use_id: str
    content: str | list[Block] | None = None
    is_error: bool | None = None


class BrowserTab(Struct):
    tab_id: str
    title: str = ""
    url: str = ""
    active: bool | None = None


class BrowserChange(Struct):
    """Which members it has depends on its type."""

    type: str
    tab_id: str | None = None
    download_id: str | None = None
    url: str | None = None
    path: str | None = None
    size_bytes: int | None = None
    error: str | None = None


class BrowserStateInput(Struct):
    tabs: list[BrowserTab]
    state_changes: list[BrowserChange] | None = None


class CompactionInput(Struct):
    """`content`: the summary. None: there is none."""

    content: str | None = None
    encrypted_content: str | None = None


class ListingInput(Struct):
    mcp_server_name: str
    tools: list[dict[str, Any]]


class Source(Struct):
    """Of an image or a document. Which members it has depends on its type."""

    type: Literal["base64", "url", "text", "content", "file"]
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: str | list[Block] | None = None


class ImageInput(Struct):
    source: Source
    transformations: dict[str, Any] | None = None


class DocumentInput(Struct):
    source: Source
    title: str | None = None
    context: str | None = None
    citations: dict[str, Any] | None = None


class UploadInput(Struct):
    file_id: str


class SearchResultInput(Struct):
    content: list[Block]
    source: str
    title: str
    citations: dict[str, Any] | None = None


# ---- the answer ------------------------------------------------------------------------------------------------------


class TextBlock(Struct, tag="text"):
    text: str
    citations: list[Any] | UnsetType = UNSET


class ThinkingBlock(Struct, tag="thinking"):
    thinking: str
    signature: str


class ToolUseBlock(Struct, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]
    toolset_name: str | UnsetType = UNSET


class CompactionBlock(Struct, tag="compaction"):
    # The summary. None: there is none; or it follows.
    content: str | None = None
    # Our seal of the summary, and of what is kept with it.
    encrypted_content: str | UnsetType = UNSET


AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock | CompactionBlock

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "compaction",
    "refusal",
    "model_context_window_exceeded",
]


class CacheCreation(Struct, frozen=True):
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ServerUses(Struct):
    """How often the gateway searched the web, and opened pages."""

    web_search_requests: int
    web_fetch_requests: int


class ThinkingTokens(Struct):
    thinking_tokens: int


class MessageUsage(Struct):
    # Those that came from a cache are not among them.
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation: CacheCreation = CacheCreation()
    output_tokens: int = 0
    output_tokens_details: ThinkingTokens | UnsetType = UNSET
    service_tier: str = "standard"
    server_tool_use: ServerUses | UnsetType = UNSET


class ContextManagementApplied(Struct):
    applied_edits: list[dict[str, Any]] = []


class Message(Struct, kw_only=True, tag="message"):
    model: str
    id: str
    role: str = "assistant"
    # Blocks of tools that the gateway ran are plain dictionaries: each tool has its own.
    content: list[AnswerBlock | Block] = []
    container: UsedContainer | UnsetType = UNSET
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    # Of a refusal, null: an engine says nothing of its reasons.
    stop_details: UnsetType | None = UNSET
    usage: MessageUsage
    context_management: ContextManagementApplied | UnsetType = UNSET


class TokensCounted(Struct):
    input_tokens: int


# ---- the events of a stream ------------------------------------------------------------------------------------------


class MessageStart(Struct, tag="message_start"):
    message: Message


class ContentBlockStart(Struct, tag="content_block_start"):
    index: int
    content_block: AnswerBlock | Block


class TextDelta(Struct, tag="text_delta"):
    text: str


class ThinkingDelta(Struct, tag="thinking_delta"):
    thinking: str


class SignatureDelta(Struct, tag="signature_delta"):
    signature: str


class InputJsonDelta(Struct, tag="input_json_delta"):
    partial_json: str


class CitationsDelta(Struct, tag="citations_delta"):
    citation: dict[str, Any]


class CompactionDelta(Struct, tag="compaction_delta"):
    content: str | None
    encrypted_content: str


BlockDelta = TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta | CitationsDelta | CompactionDelta


class ContentBlockDelta(Struct, tag="content_block_delta"):
    index: int
    delta: BlockDelta


class ContentBlockStop(Struct, tag="content_block_stop"):
    index: int


class Ending(Struct):
    """What of a message is known at its end only."""

    stop_reason: StopReason
    stop_sequence: str | None = None
    stop_details: UnsetType | None = UNSET
    container: UsedContainer | UnsetType = UNSET


class DeltaUsage(Struct):
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens | UnsetType = UNSET
    server_tool_use: ServerUses | UnsetType = UNSET


class MessageDelta(Struct, tag="message_delta"):
    delta: Ending
    usage: DeltaUsage
    context_management: ContextManagementApplied | UnsetType = UNSET


class MessageStop(Struct, tag="message_stop"):
    pass


class Ping(Struct, tag="ping"):
    pass


class ErrorDetails(Struct):
    type: str
    message: str
    # What clients act on: the `error_code` of the few errors that have one.
    details: dict[str, Any] | UnsetType = UNSET


class ErrorEvent(Struct, tag="error"):
    error: ErrorDetails
    request_id: str | UnsetType = UNSET


MessageEvent = (
    MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta | MessageStop | Ping | ErrorEvent
)
