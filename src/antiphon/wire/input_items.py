"""The input items and content parts whose fields are checked. All other items are converted by their type alone."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from antiphon.wire.hosted_items import McpTool, ToolSearchOutput, type_of

# An item of a conversation as JSON has it: as a client sent it, as it is stored, or as it is shown.
Item: TypeAlias = dict[str, Any]
# A tool as a request defines it, or as a response lists it.
Tool: TypeAlias = dict[str, Any]

# The types of items that bring tools along.
WITH_TOOLS = ("additional_tools", type_of(ToolSearchOutput))


class InputMessage(Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[dict[str, Any]]


class InputReasoning(Struct):
    summary: list[dict[str, Any]] | None = None
    content: list[dict[str, Any]] | str | None = None
    encrypted_content: str | None = None


# The type of a part of a message that no request has: readers of other protocols make it.
CITABLE = "citable_document"


class InputCompaction(Struct):
    encrypted_content: str | None = None
    # Other protocols show it. It counts where nothing can be opened.
    summary: str | None = None


class CompactionTrigger(Struct):
    """Only readers of other protocols set its members: what to ask of the model in place of our own words, and beside them."""

    prompt: str | None = None
    instructions: str | None = None


class InputFunctionCall(Struct):
    call_id: str
    name: str
    arguments: str | dict[str, Any] | None = None
    namespace: str | None = None


class InputCallOutput(Struct):
    # Without one it is no answer to a call: the client reports something in the name of a tool.
    call_id: str | None = None
    name: str | None = None
    output: str | dict[str, Any] | list[dict[str, Any]] | None = None


class InputCustomCall(Struct):
    call_id: str
    name: str
    input: str = ""
    namespace: str | None = None


class InputMcpList(Struct):
    server_label: str
    tools: list[McpTool]


class InputMcpCall(Struct):
    id: str
    server_label: str
    name: str
    arguments: str | dict[str, Any] | None = None
    output: str | None = None
    # One of `McpError`. Older clients have plain words here.
    error: dict[str, Any] | str | None = None


# The type of the item.
APPROVAL_RESPONSE = "mcp_approval_response"


class InputApprovalResponse(Struct):
    approval_request_id: str
    approve: bool
    reason: str | None = None


class InputAgentMessage(Struct):
    content: str | list[dict[str, Any]]
    author: str = "another agent"


class InputItemReference(Struct):
    id: str


# ---- content parts ---------------------------------------------------------------------------------------------------


class InputImage(Struct):
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class InputFile(Struct):
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None


class AudioData(Struct):
    data: str
    format: str = "wav"


class InputAudio(Struct):
    input_audio: AudioData
