"""The events of a Responses stream, each named by its `type`. Only `core.numbering` fills in `sequence_number`."""

from typing import Any, ClassVar, get_args

from msgspec import UNSET, Struct, UnsetType

from antiphon.wire.responses import Logprob, OutputItem, OutputRefusal, OutputText, ReasoningText, Response, SummaryText


class Event(Struct, kw_only=True):
    sequence_number: int = -1


class ResponseCreated(Event, tag="response.created"):
    response: Response


class ResponseQueued(Event, tag="response.queued"):
    response: Response


class ResponseInProgress(Event, tag="response.in_progress"):
    response: Response


class ResponseCompleted(Event, tag="response.completed"):
    response: Response


class ResponseIncomplete(Event, tag="response.incomplete"):
    response: Response


class ResponseFailed(Event, tag="response.failed"):
    response: Response


class OutputItemAdded(Event, tag="response.output_item.added"):
    output_index: int
    item: OutputItem


class OutputItemDone(Event, tag="response.output_item.done"):
    output_index: int
    item: OutputItem


Part = OutputText | OutputRefusal | ReasoningText


class PartEvent(Event):
    item_id: str
    output_index: int
    content_index: int


class ContentPartAdded(PartEvent, tag="response.content_part.added"):
    part: Part


class ContentPartDone(PartEvent, tag="response.content_part.done"):
    part: Part


class OutputTextDelta(PartEvent, tag="response.output_text.delta"):
    delta: str
    logprobs: list[Logprob] = []
    obfuscation: str | UnsetType = UNSET


class OutputTextDone(PartEvent, tag="response.output_text.done"):
    text: str
    logprobs: list[Logprob] = []


# The type of an annotation that only other protocols have: of a document of the request.
DOCUMENT_CITATION = "document_citation"


class OutputTextAnnotationAdded(PartEvent, tag="response.output_text.annotation.added"):
    annotation_index: int
    annotation: dict[str, Any]


class RefusalDelta(PartEvent, tag="response.refusal.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET


class RefusalDone(PartEvent, tag="response.refusal.done"):
    refusal: str


class ReasoningTextDelta(PartEvent, tag="response.reasoning_text.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET


class ReasoningTextDone(PartEvent, tag="response.reasoning_text.done"):
    text: str


class ReasoningDelta(PartEvent, tag="response.reasoning.delta"):
    """ReasoningTextDelta under the name of the Open Responses specification."""

    delta: str
    obfuscation: str | UnsetType = UNSET


class ReasoningDone(PartEvent, tag="response.reasoning.done"):
    text: str


class SummaryEvent(Event):
    item_id: str
    output_index: int
    summary_index: int


class ReasoningSummaryPartAdded(SummaryEvent, tag="response.reasoning_summary_part.added"):
    part: SummaryText


class ReasoningSummaryPartDone(SummaryEvent, tag="response.reasoning_summary_part.done"):
    part: SummaryText


class ReasoningSummaryTextDelta(SummaryEvent, tag="response.reasoning_summary_text.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET


class ReasoningSummaryTextDone(SummaryEvent, tag="response.reasoning_summary_text.done"):
    text: str


class CallEvent(Event):
    """`CONTINUES` of a delta: the text member of the item that it belongs to."""

    item_id: str
    output_index: int


class FunctionCallArgumentsDelta(CallEvent, tag="response.function_call_arguments.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET

    CONTINUES: ClassVar = "arguments"


class CustomToolCallInputDelta(CallEvent, tag="response.custom_tool_call_input.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET

    CONTINUES: ClassVar = "input"


class CustomToolCallInputDone(CallEvent, tag="response.custom_tool_call_input.done"):
    input: str


class CompactionCompacting(CallEvent, tag="response.compaction.compacting"):
    """The summary is being written. Nothing of it is shown."""


class ShellCommandEvent(Event):
    """Has no item id: the open item is meant."""

    output_index: int
    command_index: int


class ShellCallCommandAdded(ShellCommandEvent, tag="response.shell_call_command.added"):
    command: str


class ShellCallCommandDelta(ShellCommandEvent, tag="response.shell_call_command.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET


class ShellCallCommandDone(ShellCommandEvent, tag="response.shell_call_command.done"):
    command: str


class FunctionCallArgumentsDone(CallEvent, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


class McpListToolsInProgress(CallEvent, tag="response.mcp_list_tools.in_progress"):
    pass


class McpListToolsCompleted(CallEvent, tag="response.mcp_list_tools.completed"):
    pass


class McpListToolsFailed(CallEvent, tag="response.mcp_list_tools.failed"):
    pass


class McpCallInProgress(CallEvent, tag="response.mcp_call.in_progress"):
    pass


class McpCallArgumentsDelta(CallEvent, tag="response.mcp_call_arguments.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET

    CONTINUES: ClassVar = "arguments"


class McpCallArgumentsDone(CallEvent, tag="response.mcp_call_arguments.done"):
    arguments: str


class McpCallCompleted(CallEvent, tag="response.mcp_call.completed"):
    pass


class McpCallFailed(CallEvent, tag="response.mcp_call.failed"):
    pass


class WebSearchCallInProgress(CallEvent, tag="response.web_search_call.in_progress"):
    pass


class WebSearchCallSearching(CallEvent, tag="response.web_search_call.searching"):
    pass


class WebSearchCallCompleted(CallEvent, tag="response.web_search_call.completed"):
    pass


class FileSearchCallInProgress(CallEvent, tag="response.file_search_call.in_progress"):
    pass


class FileSearchCallSearching(CallEvent, tag="response.file_search_call.searching"):
    pass


class FileSearchCallCompleted(CallEvent, tag="response.file_search_call.completed"):
    pass


class CodeInterpreterCallInProgress(CallEvent, tag="response.code_interpreter_call.in_progress"):
    pass


class CodeInterpreterCallCodeDelta(CallEvent, tag="response.code_interpreter_call_code.delta"):
    delta: str
    obfuscation: str | UnsetType = UNSET

    CONTINUES: ClassVar = "code"


class CodeInterpreterCallCodeDone(CallEvent, tag="response.code_interpreter_call_code.done"):
    code: str


class CodeInterpreterCallInterpreting(CallEvent, tag="response.code_interpreter_call.interpreting"):
    pass


class CodeInterpreterCallCompleted(CallEvent, tag="response.code_interpreter_call.completed"):
    pass


class ImageGenerationCallInProgress(CallEvent, tag="response.image_generation_call.in_progress"):
    pass


class ImageGenerationCallGenerating(CallEvent, tag="response.image_generation_call.generating"):
    pass


class ImageGenerationCallCompleted(CallEvent, tag="response.image_generation_call.completed"):
    pass


class ShellCallOutputContentDelta(CallEvent, tag="response.shell_call_output_content.delta"):
    command_index: int
    delta: dict[str, str]


class ShellCallOutputContentDone(CallEvent, tag="response.shell_call_output_content.done"):
    command_index: int
    output: list[dict[str, Any]]


# The events whose `delta` is a piece of text.
DeltaEvent = (
    OutputTextDelta
    | RefusalDelta
    | ReasoningTextDelta
    | ReasoningDelta
    | ReasoningSummaryTextDelta
    | FunctionCallArgumentsDelta
    | CustomToolCallInputDelta
    | McpCallArgumentsDelta
    | ShellCallCommandDelta
    | CodeInterpreterCallCodeDelta
)
# Every event, by its `type`.
StreamEvent = (
    ResponseCreated
    | ResponseQueued
    | ResponseInProgress
    | ResponseCompleted
    | ResponseIncomplete
    | ResponseFailed
    | OutputItemAdded
    | OutputItemDone
    | ContentPartAdded
    | ContentPartDone
    | OutputTextDone
    | OutputTextAnnotationAdded
    | RefusalDone
    | ReasoningTextDone
    | ReasoningDone
    | ReasoningSummaryPartAdded
    | ReasoningSummaryPartDone
    | ReasoningSummaryTextDone
    | CustomToolCallInputDone
    | ShellCallCommandAdded
    | ShellCallCommandDone
    | FunctionCallArgumentsDone
    | CompactionCompacting
    | McpListToolsInProgress
    | McpListToolsCompleted
    | McpListToolsFailed
    | McpCallInProgress
    | McpCallArgumentsDone
    | McpCallCompleted
    | McpCallFailed
    | WebSearchCallInProgress
    | WebSearchCallSearching
    | WebSearchCallCompleted
    | FileSearchCallInProgress
    | FileSearchCallSearching
    | FileSearchCallCompleted
    | CodeInterpreterCallInProgress
    | CodeInterpreterCallCodeDone
    | CodeInterpreterCallInterpreting
    | CodeInterpreterCallCompleted
    | ImageGenerationCallInProgress
    | ImageGenerationCallGenerating
    | ImageGenerationCallCompleted
    | ShellCallOutputContentDelta
    | ShellCallOutputContentDone
    | DeltaEvent
)
CALL_DELTAS: tuple[type[CallEvent], ...] = tuple(event for event in get_args(DeltaEvent) if issubclass(event, CallEvent))
