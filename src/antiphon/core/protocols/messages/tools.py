"""The tools of a request → those of the Responses API. A table has a row for each type that Anthropic defines.

Tools that the client runs are functions to an engine. Those of a known type come without a schema: the table has it. Tools that
Anthropic's servers run become those that the gateway runs.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.hosted_items import CodeInterpreterCall, WebSearchCall, type_of
from antiphon.wire.input_items import Tool
from antiphon.wire.messages import ToolChoice
from antiphon.wire.responses import Count

# `bash_20250124`: a name, and the day of its version.
_VERSION = re.compile(r"_\d{8}$")
# Values of `include`.
WEB_RESULTS, CODE_OUTPUTS = f"{type_of(WebSearchCall)}.results", f"{type_of(CodeInterpreterCall)}.outputs"
NOT_RUN = "the tool {kind} was left out: the gateway does not run it"
NO_EFFECT = "{member} of tool {kind} has no effect here"
NOT_LIMITED = (
    "max_uses has no effect: the calls of all tools that the gateway runs are counted together, and some have no limit"
)
NO_SERVER = "the tool set of MCP server {name} was left out: `mcp_servers` does not have it"


class FunctionTool(Struct):
    name: str
    input_schema: dict[str, Any] = {}
    description: str | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class NamedTool(Struct):
    name: str


class WebTool(Struct):
    """web_search and web_fetch."""

    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    user_location: dict[str, Any] | None = None
    max_uses: Count | None = None


class ToolConfig(Struct):
    enabled: bool | None = None
    allowed_tools: list[str] | None = None


class McpServer(Struct):
    name: Annotated[str, Meta(min_length=1)]
    url: str
    authorization_token: str | None = None
    tool_configuration: ToolConfig | None = None


class McpToolset(Struct):
    mcp_server_name: str
    default_config: ToolConfig | None = None
    configs: dict[str, ToolConfig] | None = None


class ToolReader:
    """Reads tools one after another. `tools` are those of all that were read, and `places` the paths of what each was read
    from."""

    def __init__(self, servers: list[dict[str, Any]]) -> None:
        self.tools: list[Tool] = []
        self.places: list[str] = []
        self.notices: list[str] = []
        # What the answer has to show of the calls that the gateway runs.
        self.include: list[str] = []
        # The names of tools that the gateway runs → their types.
        self.hosted: dict[str, str] = {}
        # How often each of them may be called; None: as often as the model likes.
        self._limits: list[int | None] = []
        places = [f"mcp_servers[{at}]" for at in range(len(servers))]
        read = [(convert(each, McpServer, where), where) for each, where in zip(servers, places, strict=True)]
        self._servers = {server.name: (server, where) for server, where in read}

    @property
    def most_calls(self) -> int | None:
        """How many calls the gateway may run, if each of its tools has a limit: they are counted together."""
        limits = [limit for limit in self._limits if limit is not None]
        return sum(limits) if limits and len(limits) == len(self._limits) else None

    def read(self, tool: Tool, where: str) -> None:
        kind = tool.get("type") or "custom"
        reader = TYPES.get(_VERSION.sub("", str(kind)))
        if reader is None:
            known = ", ".join(sorted(TYPES))
            problem = f"`{where}.type` must be one of these, with the day of a version: {known}. It is {quoted(kind)}."
            raise InvalidRequest(problem, param=f"{where}.type", code="invalid_value")
        reader(self, tool, where)

    def finish(self) -> None:
        """All tools have been read. A server that no tool set names offers all of its tools."""
        for server, where in self._servers.values():
            config = server.tool_configuration or ToolConfig()
            if config.enabled is not False:
                self._add_server(server, config.allowed_tools, where)
        if self.most_calls is None and any(self._limits):
            self.notices.append(NOT_LIMITED)

    # ---- tools that the client runs ----------------------------------------------------------------------------------

    def function(self, tool: Tool, where: str) -> None:
        given = convert(tool, FunctionTool, where)
        made: Tool = {"type": "function", "name": given.name, "parameters": given.input_schema}
        optional = {"description": given.description, "strict": given.strict, "defer_loading": given.defer_loading}
        self.add(made | {name: value for name, value in optional.items() if value is not None}, where)

    def add(self, tool: Tool, where: str) -> None:
        self.tools.append(tool)
        self.places.append(where)

    # ---- tools that the gateway runs ---------------------------------------------------------------------------------

    def web(self, tool: Tool, where: str) -> None:
        """One tool searches and opens pages: it is offered once."""
        given = convert(tool, WebTool, where)
        if given.blocked_domains:
            self.notices.append(NO_EFFECT.format(member="blocked_domains", kind=tool["type"]))
        is_first = "web_search" not in self.hosted.values()
        self._add_hosted(tool, "web_search", given.max_uses)
        if not is_first:
            if given.allowed_domains or given.user_location:
                self.notices.append(NO_EFFECT.format(member="allowed_domains or user_location", kind=tool["type"]))
            return
        filters = {"filters": {"allowed_domains": given.allowed_domains}} if given.allowed_domains else {}
        location = {"user_location": given.user_location} if given.user_location else {}
        self.add({"type": "web_search", **filters, **location}, where)
        self.include.append(WEB_RESULTS)

    def code(self, tool: Tool, where: str) -> None:
        self._add_hosted(tool, "code_interpreter")
        self.add({"type": "code_interpreter", "container": {"type": "auto"}}, where)
        self.include.append(CODE_OUTPUTS)

    def search(self, tool: Tool, where: str) -> None:
        self.add({"type": "tool_search"}, where)

    def toolset(self, tool: Tool, where: str) -> None:
        given = convert(tool, McpToolset, where)
        server, place = self._servers.pop(given.mcp_server_name, (None, ""))
        if server is None:
            self.notices.append(NO_SERVER.format(name=quoted(given.mcp_server_name)))
            return
        configs = given.configs or {}
        enabled = [name for name, config in configs.items() if config.enabled is not False]
        offers_others = given.default_config is None or given.default_config.enabled is not False
        if offers_others and len(enabled) < len(configs):
            self.notices.append(NO_EFFECT.format(member="configs", kind=tool["type"]))
        self._add_server(server, None if offers_others else enabled, place)

    def not_run(self, tool: Tool, where: str) -> None:
        self.notices.append(NOT_RUN.format(kind=tool["type"]))

    def _add_server(self, server: McpServer, allowed: list[str] | None, where: str) -> None:
        made: Tool = {"type": "mcp", "server_label": server.name, "server_url": server.url, "require_approval": "never"}
        if server.authorization_token:
            made["authorization"] = server.authorization_token
        if allowed is not None:
            made["allowed_tools"] = allowed
        self.add(made, where)
        self._limits.append(None)

    def _add_hosted(self, tool: Tool, kind: str, limit: int | None = None) -> None:
        self.hosted[str(tool.get("name"))] = kind
        self._limits.append(limit)


ReadTool = Callable[[ToolReader, Tool, str], None]


def _known(description: str, properties: Mapping[str, Any], *required: str) -> ReadTool:
    """A tool that the client runs, and whose schema is Anthropic's."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}

    def read(reader: ToolReader, tool: Tool, where: str) -> None:
        name = convert(tool, NamedTool, where).name
        reader.add({"type": "function", "name": name, "description": description, "parameters": schema}, where)

    return read


TEXT = {"type": "string"}
PATH = {"type": "string", "description": "The absolute path of the file or folder."}
LINES = {"type": "array", "items": {"type": "integer"}, "description": "The first and the last line to show."}
POINT = {"type": "array", "items": {"type": "integer"}, "description": "x and y, in pixels."}
LINE = {"type": "integer", "description": "The text is inserted after this line; 0: at the beginning."}


def _one_of(*values: str) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(values)}


# The type of a tool, without the day of its version.
TYPES: Mapping[str, ReadTool] = {
    "custom": ToolReader.function,
    "bash": _known(
        "Runs a command in a Bash session that stays open between calls.",
        {"command": TEXT, "restart": {"type": "boolean", "description": "Starts a new session in place of the command."}},
    ),
    "text_editor": _known(
        "Views, creates and changes files.",
        {
            "command": _one_of("view", "create", "str_replace", "insert", "undo_edit"),
            "path": PATH,
            "file_text": TEXT,
            "old_str": TEXT,
            "new_str": TEXT,
            "insert_line": LINE,
            "insert_text": TEXT,
            "view_range": LINES,
        },
        *("command", "path"),
    ),
    "memory": _known(
        "Keeps notes in files below /memories, which stay for later conversations.",
        {
            "command": _one_of("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": PATH,
            "view_range": LINES,
            "file_text": TEXT,
            "old_str": TEXT,
            "new_str": TEXT,
            "insert_line": LINE,
            "insert_text": TEXT,
            "old_path": PATH,
            "new_path": PATH,
        },
        "command",
    ),
    "computer": _known(
        "Controls a computer with screen, keyboard and mouse.",
        {
            "action": {"type": "string", "description": "key, type, left_click, scroll, wait, screenshot, and others."},
            "coordinate": POINT,
            "start_coordinate": POINT,
            "text": TEXT,
            "scroll_direction": _one_of("up", "down", "left", "right"),
            "scroll_amount": {"type": "integer"},
            "duration": {"type": "number", "description": "In seconds."},
        },
        "action",
    ),
    "web_search": ToolReader.web,
    "web_fetch": ToolReader.web,
    "code_execution": ToolReader.code,
    "tool_search_tool_bm25": ToolReader.search,
    "tool_search_tool_regex": ToolReader.search,
    "mcp_toolset": ToolReader.toolset,
    "advisor": ToolReader.not_run,
}

# What may be called.
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def choice_to_responses(choice: ToolChoice, hosted: Mapping[str, str]) -> str | dict[str, Any]:
    """`hosted`: the names of tools that the gateway runs, and their types."""
    if choice.type != "tool":
        return CHOICES[choice.type]
    if choice.name is None:
        param = "tool_choice.name"
        raise InvalidRequest(f"Missing required parameter: `{param}`.", param=param, code="missing_required_parameter")
    kind = hosted.get(choice.name)
    return {"type": "function", "name": choice.name} if kind is None else {"type": kind}
