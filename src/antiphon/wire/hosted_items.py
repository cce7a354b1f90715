"""The tools of the API that servers run: their names, their members as a response lists them, and their output items.

`INCLUDABLE` of an item: its members that are there only where the request has them in `include`, as paths. `MAY_BE_BARE`:
clients may send it back as its id alone.
"""

from typing import Any, ClassVar, Literal, get_args

from msgspec import UNSET, Struct, UnsetType, field

# "calling", "searching" and "interpreting": the tool runs now.
HostedStatus = Literal["in_progress", "calling", "searching", "interpreting", "completed", "incomplete", "failed"]


class McpTool(Struct):
    """A tool of an MCP server, as its list has it."""

    name: str
    input_schema: Any
    # Left out where the server has none. Histories may have null.
    description: str | UnsetType | None = UNSET
    annotations: Any = field(default_factory=lambda: {"read_only": False})


class McpListTools(Struct, tag="mcp_list_tools"):
    id: str
    server_label: str
    tools: list[McpTool]
    error: str | UnsetType = UNSET


class McpProtocolError(Struct, tag="mcp_protocol_error"):
    """An error of JSON-RPC."""

    code: int
    message: str


class McpToolExecutionError(Struct, tag="mcp_tool_execution_error"):
    """A result that the server calls an error; its content as it is."""

    content: Any


class McpHttpError(Struct, tag="http_error"):
    code: int
    message: str


McpError = McpProtocolError | McpToolExecutionError | McpHttpError


class McpCall(Struct, tag="mcp_call"):
    id: str
    server_label: str
    name: str
    arguments: str
    approval_request_id: str | None = None
    status: HostedStatus = "in_progress"
    output: str | None = None
    # Other servers, and older clients, send plain words.
    error: McpError | str | None = None


class McpApprovalRequest(Struct, tag="mcp_approval_request"):
    id: str
    server_label: str
    name: str
    arguments: str


class WebSearchCall(Struct, tag="web_search_call"):
    id: str
    status: HostedStatus
    action: dict[str, Any]
    results: list[dict[str, Any]] | UnsetType = UNSET

    INCLUDABLE: ClassVar = ("results", "action.sources")


class FileSearchCall(Struct, tag="file_search_call"):
    id: str
    queries: list[str]
    status: HostedStatus
    # None: the request does not include them.
    results: list[dict[str, Any]] | None = None

    INCLUDABLE: ClassVar = ("results",)


class CodeInterpreterCall(Struct, tag="code_interpreter_call"):
    id: str
    status: HostedStatus
    container_id: str
    code: str | None
    outputs: list[dict[str, Any]] | None

    INCLUDABLE: ClassVar = ("outputs",)


class ImageGenerationError(Struct):
    """Why there is no image."""

    message: str
    type: str = "image_generation_error"
    code: str | None = None
    param: str | None = None


class ImageGenerationCall(Struct, tag="image_generation_call"):
    id: str
    status: HostedStatus
    # The image, in base64. It and the others are there when the call has ended.
    result: str | UnsetType | None = UNSET
    revised_prompt: str | UnsetType = UNSET
    action: str | UnsetType = UNSET
    background: str | UnsetType = UNSET
    output_format: str | UnsetType = UNSET
    quality: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    error: ImageGenerationError | UnsetType = UNSET

    MAY_BE_BARE: ClassVar = True


class ShellCallOutput(Struct, tag="shell_call_output"):
    """What commands printed that the gateway ran."""

    id: str
    call_id: str
    output: list[dict[str, Any]]
    status: HostedStatus
    max_output_length: int | None = None


class ToolSearchOutput(Struct, tag="tool_search_output"):
    """What a search by the server found."""

    id: str
    call_id: str | None
    tools: list[dict[str, Any]]
    status: HostedStatus
    execution: str = "server"


HostedItem = (
    McpListTools
    | McpCall
    | McpApprovalRequest
    | WebSearchCall
    | FileSearchCall
    | CodeInterpreterCall
    | ImageGenerationCall
    | ShellCallOutput
    | ToolSearchOutput
)


def type_of(item: type[Struct]) -> str:
    """The `type` of these items."""
    return str(item.__struct_config__.tag)


# A value of `include` → the type of the item, and the member.
INCLUDABLE: dict[str, tuple[str, str]] = {
    f"{type_of(item)}.{member}": (type_of(item), member)
    for item in get_args(HostedItem)
    for member in vars(item).get("INCLUDABLE", ())
}
# The types of items that may be an id alone. A tuple: what is looked for may be anything that a client sent.
MAY_BE_BARE = tuple(type_of(item) for item in get_args(HostedItem) if "MAY_BE_BARE" in vars(item))


# Type of a tool that has several names → its name.
ALIASES: dict[str, str] = {
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
}

Members = dict[str, Any]

_RANKING: Members = {"ranker": "auto", "score_threshold": 0}
_LOCATION: Members = {"type": "approximate", "city": None, "country": None, "region": None, "timezone": None}
_PREVIEW: Members = {"search_context_size": "medium", "user_location": _LOCATION}
_WEB_SEARCH: Members = {"filters": None, **_PREVIEW}

# Type of a tool → the members that a response lists of it, with the values of those that were not given. An object has members
# of its own.
DEFAULTS: dict[str, Members] = {
    "mcp": {"allowed_tools": None, "require_approval": "always"},
    "file_search": {"filters": None, "max_num_results": 20, "ranking_options": _RANKING},
    "image_generation": {
        "background": "auto",
        "moderation": "auto",
        "output_compression": 100,
        "output_format": "png",
        "quality": "auto",
        "size": "auto",
    },
    "web_search": _WEB_SEARCH,
    "web_search_2025_08_26": _WEB_SEARCH,
    "web_search_preview": _PREVIEW,
    "web_search_preview_2025_03_11": _PREVIEW,
}
