"""The tools of a request → those of the Responses API. A table has a row for each type that Anthropic defines.

Tools that the client runs are functions to an engine. Tools that Anthropic's servers run become those that the gateway runs. A
member that changes nothing here is said to have no effect, unless it changes nothing anywhere: `type`, `name`,
`cache_control`, and what is the same as the way of things here.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from antiphon.core.protocols.messages.client_tools import KNOWN, TOOLSETS, member_to_function, screen_of
from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.patterns import late_pattern
from antiphon.wire.hosted_items import CodeInterpreterCall, McpListTools, ToolSearchOutput, WebSearchCall, type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.messages import ToolChoice
from antiphon.wire.responses import Count

# `bash_20250124`: a name, and the day of its version.
_VERSION = late_pattern(r"_\d{8}$")
# Values of `include`.
WEB_RESULTS, CODE_OUTPUTS = f"{type_of(WebSearchCall)}.results", f"{type_of(CodeInterpreterCall)}.outputs"
# The item with the tools that a search has found.
FOUND = type_of(ToolSearchOutput)
NOT_RUN = "the tool {kind} was left out: the gateway does not run it"
NO_EFFECT = "{member} of tool {kind} has no effect here"
NOT_LIMITED = (
    "max_uses has no effect: the calls of all tools that the gateway runs are counted together, and some have no limit"
)
WITHOUT_CODE = "{name} has no effect without the tool code_execution"
NO_SERVER = "the tool set of MCP server {name} was left out: `mcp_servers` does not have it"
NO_PROGRAMS = "the tool {name} is called by the model itself: programs call no tools here"
# In front of what a client gives as examples of a tool's input.
EXAMPLES = "Examples of the input:"

# Members of every tool that need no word: they say what it is, or ask for what is the case anyway.
OF_EVERY_TOOL = frozenset({"type", "name", "cache_control", "allowed_callers", "strict"})


class FunctionTool(Struct):
    name: str
    input_schema: dict[str, Any] = {}
    description: str | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    input_examples: list[dict[str, Any]] | None = None
    # Inputs are always streamed as they are written.
    eager_input_streaming: bool | None = None


class KnownTool(Struct):
    """bash, text_editor, memory and computer."""

    name: str
    strict: bool | None = None
    defer_loading: bool | None = None
    input_examples: list[dict[str, Any]] | None = None
    # The client itself cuts off what its editor shows.
    max_characters: int | None = None
    # Of computer: `screen_of` reads them. There is one screen.
    display_width_px: int | None = None
    display_height_px: int | None = None
    enable_zoom: bool | None = None


class ToolConfig(Struct):
    enabled: bool | None = None
    defer_loading: bool | None = None
    allowed_tools: list[str] | None = None


class Toolset(Struct):
    configs: dict[str, ToolConfig | None] | None = None


class WebTool(Struct):
    """web_search and web_fetch."""

    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    user_location: dict[str, Any] | None = None
    max_uses: Count | None = None
    # What is found is always cited, always fetched anew, and always shown.
    citations: dict[str, Any] | None = None
    use_cache: bool | None = None
    response_inclusion: str | None = None


class McpServer(Struct):
    name: Annotated[str, Meta(min_length=1)]
    url: str
    authorization_token: str | None = None
    tool_configuration: ToolConfig | None = None


class ListedTool(Struct):
    name: str
    input_schema: dict[str, Any] = {}
    description: str | None = None


class McpToolset(Struct):
    mcp_server_name: str
    default_config: ToolConfig | None = None
    configs: dict[str, ToolConfig] | None = None
    tools: list[ListedTool] | None = None


class Run(NamedTuple):
    """What the request has for code that is run: the container in which it goes on, and the files that it gets."""

    container: str | None = None
    uploads: Collection[str] = ()


NO_RUN = Run()


class ToolReader:
    """Reads tools one after another. `tools` are those of all that were read, and `places` the paths of what each was read
    from."""

    def __init__(self, servers: list[dict[str, Any]], code: Run = NO_RUN) -> None:
        self.tools: list[Tool] = []
        self.places: list[str] = []
        # Lists of the tools of MCP servers, so that these are not asked again.
        self.lists: list[Item] = []
        self.notices: list[str] = []
        # What the answer has to show of the calls that the gateway runs.
        self.include: list[str] = []
        # The names of tools that the gateway runs → their types.
        self.hosted: dict[str, str] = {}
        # The client's name for the search for tools.
        self.search_name = ""
        # The names of the toolsets of the client.
        self.toolsets: set[str] = set()
        # How often each of them may be called; None: as often as the model likes.
        self._limits: list[int | None] = []
        self._code = code
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
        callers = tool.get("allowed_callers")
        if isinstance(callers, list) and callers and "direct" not in callers:
            self.notices.append(NO_PROGRAMS.format(name=quoted(tool.get("name"))))
        reader(self, tool, where)

    def finish(self) -> None:
        """All tools have been read. A server that no tool set names offers all of its tools."""
        for server, where in self._servers.values():
            config = server.tool_configuration or ToolConfig()
            if config.enabled is not False:
                self._add_server(server, config.allowed_tools, where)
        if self.most_calls is None and any(self._limits):
            self.notices.append(NOT_LIMITED)
        if "code_interpreter" not in self.hosted.values():
            given = {"container": self._code.container, "container_upload": self._code.uploads}
            self.notices += [WITHOUT_CODE.format(name=name) for name, value in given.items() if value]

    def define_found(self, items: list[Item]) -> None:
        """What earlier searches have found has only names: each is the tool of this name."""
        known = {tool["name"]: tool for tool in self.tools if tool["type"] == "function"}
        for item in items:
            if item["type"] == FOUND:
                item["tools"] = [known[tool["name"]] for tool in item["tools"] if tool["name"] in known]

    def add(self, tool: Tool, where: str) -> None:
        self.tools.append(tool)
        self.places.append(where)

    def _note_unused(self, tool: Tool, kind: type[Struct], *others: str) -> None:
        """Members of which nothing is made, `others` among them."""
        known = OF_EVERY_TOOL.union(kind.__struct_fields__).difference(others)
        unused = (member for member, value in tool.items() if value and member not in known)
        self.notices += [NO_EFFECT.format(member=member, kind=tool.get("type") or "custom") for member in unused]

    # ---- tools that the client runs ----------------------------------------------------------------------------------

    def function(self, tool: Tool, where: str) -> None:
        given = convert(tool, FunctionTool, where)
        self._note_unused(tool, FunctionTool)
        self._add_function(given, {"description": given.description, "parameters": given.input_schema}, where)

    def known(self, tool: Tool, where: str) -> None:
        given, known = convert(tool, KnownTool, where), KNOWN[_VERSION.sub("", tool["type"])]
        self._note_unused(tool, KnownTool)
        words = known.description + screen_of(tool)
        self._add_function(given, {"description": words, "parameters": known.parameters}, where)

    def _add_function(self, given: FunctionTool | KnownTool, made: Tool, where: str) -> None:
        if given.input_examples:
            examples = [msgspec.json.encode(each).decode() for each in given.input_examples]
            words = "\n".join((EXAMPLES, *examples))
            made["description"] = f"{made['description']}\n\n{words}" if made["description"] else words
        made |= {"type": "function", "name": given.name, "strict": given.strict, "defer_loading": given.defer_loading}
        self.add({name: value for name, value in made.items() if value is not None}, where)

    def toolset(self, tool: Tool, where: str) -> None:
        """A namespace has the functions of all members that are enabled."""
        given, toolset = convert(tool, Toolset, where), TOOLSETS[_VERSION.sub("", tool["type"])]
        self._note_unused(tool, Toolset)
        configs = given.configs or {}
        if unknown := next((name for name in configs if name not in toolset.members), None):
            param = f"{where}.configs.{unknown}"
            problem = f"`{param}` is no member of {tool['type']}. They are: {', '.join(toolset.members)}."
            raise InvalidRequest(problem, param=param, code="invalid_value")
        functions: list[Tool] = []
        for name, member in toolset.members.items():
            config = configs.get(name) or ToolConfig()
            if config.enabled is not False:
                deferred = {"defer_loading": True} if config.defer_loading else {}
                functions.append({**member_to_function(name, member), **deferred})
        self.toolsets.add(toolset.name)
        self.add({"type": "namespace", "name": toolset.name, "description": toolset.description, "tools": functions}, where)

    # ---- tools that the gateway runs ---------------------------------------------------------------------------------

    def web(self, tool: Tool, where: str) -> None:
        """One tool searches and opens pages: it is offered once."""
        given = convert(tool, WebTool, where)
        self._note_unused(tool, WebTool, "blocked_domains")
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
        self._note_unused(tool, Struct)
        self._add_hosted(tool, "code_interpreter")
        uploads = {"uploads": list(self._code.uploads)} if self._code.uploads else {}
        container = self._code.container or {"type": "auto"}
        self.add({"type": "code_interpreter", "container": container, **uploads}, where)
        self.include.append(CODE_OUTPUTS)

    def search(self, tool: Tool, where: str) -> None:
        self._note_unused(tool, Struct)
        self.search_name = str(tool.get("name"))
        self.add({"type": "tool_search"}, where)

    def mcp_toolset(self, tool: Tool, where: str) -> None:
        given = convert(tool, McpToolset, where)
        self._note_unused(tool, McpToolset)
        server, place = self._servers.pop(given.mcp_server_name, (None, ""))
        if server is None:
            self.notices.append(NO_SERVER.format(name=quoted(given.mcp_server_name)))
            return
        default, configs = given.default_config or ToolConfig(), given.configs or {}
        enabled = [name for name, config in configs.items() if config.enabled is not False]
        allowed: list[str] | None = enabled
        if default.enabled is not False:
            # What is disabled can be left out where it is known which tools there are.
            others = None if given.tools is None else [each.name for each in given.tools if each.name not in configs]
            allowed = None if others is None or len(enabled) == len(configs) else [*others, *enabled]
            if others is None and len(enabled) < len(configs):
                self.notices.append(NO_EFFECT.format(member="configs", kind=tool["type"]))
        if any(config.defer_loading for config in configs.values()):
            self.notices.append(NO_EFFECT.format(member="configs.defer_loading", kind=tool["type"]))
        if given.tools is not None:
            self.lists.append(to_list_item(server.name, given.tools))
        self._add_server(server, allowed, place, defers=bool(default.defer_loading))

    def not_run(self, tool: Tool, where: str) -> None:
        self.notices.append(NOT_RUN.format(kind=tool["type"]))

    def _add_server(self, server: McpServer, allowed: list[str] | None, where: str, *, defers: bool = False) -> None:
        made: Tool = {"type": "mcp", "server_label": server.name, "server_url": server.url, "require_approval": "never"}
        if server.authorization_token:
            made["authorization"] = server.authorization_token
        if allowed is not None:
            made["allowed_tools"] = allowed
        if defers:
            made["defer_loading"] = True
        self.add(made, where)
        self._limits.append(None)

    def _add_hosted(self, tool: Tool, kind: str, limit: int | None = None) -> None:
        self.hosted[str(tool.get("name"))] = kind
        self._limits.append(limit)


def to_list_item(label: str, tools: list[ListedTool]) -> Item:
    """The tools of an MCP server, as they were listed before."""
    listed = [{"name": each.name, "input_schema": each.input_schema, "description": each.description} for each in tools]
    return {"type": type_of(McpListTools), "id": f"mcpl_{label}", "server_label": label, "tools": listed}


ReadTool = Callable[[ToolReader, Tool, str], None]

# The type of a tool, without the day of its version.
TYPES: Mapping[str, ReadTool] = {
    "custom": ToolReader.function,
    **dict.fromkeys(KNOWN, ToolReader.known),
    **dict.fromkeys(TOOLSETS, ToolReader.toolset),
    "web_search": ToolReader.web,
    "web_fetch": ToolReader.web,
    "code_execution": ToolReader.code,
    "tool_search_tool_bm25": ToolReader.search,
    "tool_search_tool_regex": ToolReader.search,
    "mcp_toolset": ToolReader.mcp_toolset,
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
