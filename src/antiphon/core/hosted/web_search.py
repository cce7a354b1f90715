"""The tool `web_search`, under its four names: its definition, the functions that an engine sees of it, its calls, its row."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta, Struct

from antiphon.core.checks.work import digest_of
from antiphon.core.hosted.hosted_tool import HostedDefinition, HostedTool, Record, data_of
from antiphon.core.hosted.search_results import CALL_FAILED, RESULT_NOT_SHOWN, WebSearchData, numbered
from antiphon.core.items.call_forms import SilentForm
from antiphon.core.items.item_type import LONGEST_NOTE, Draft, ItemType, note_to_chat, to_json
from antiphon.core.protocols.responses.read import convert
from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.definitions import leave_out
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import TOOLS, ToolIdentity, ToolResult
from antiphon.wire import events
from antiphon.wire.chat import ChatFunction
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import ALIASES, HostedStatus, WebSearchCall, type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import Status, ToolUsage

# ---- The calls of `web_search`: what the model asked for as an action, the item, and its events ----------------------

Action = dict[str, Any]

# The kind of all its functions, and their names. The actions have the names of the API.
KIND = "web_search"
SEARCH, OPEN, FIND = "web_search", "open_page", "find_in_page"

# Values of `include`.
SOURCES = "web_search_call.action.sources"
RESULTS = "web_search_call.results"

# More searches than these are not made in one call.
MOST_QUERIES = 5


def queries_of(arguments: Action) -> list[str]:
    """The searches of a call, each once. Models write one, a list, or both."""
    query, more = arguments.get("query"), arguments.get("queries")
    given = [query, *more] if isinstance(more, list) else [query, more]
    return list(dict.fromkeys(each.strip() for each in given if isinstance(each, str) and each.strip()))


def arguments_to_action(name: str, arguments: Action) -> Action:
    if name == SEARCH:
        queries = queries_of(arguments)
        return {"type": "search", "query": queries[0] if queries else "", "queries": queries}
    url = {"url": _text(arguments.get("url"))}
    if name == OPEN:
        return {"type": "open_page", **url}
    return {"type": "find_in_page", **url, "pattern": _text(arguments.get("pattern"))}


def action_to_arguments(action: Action) -> tuple[str, Action] | None:
    """The function and its arguments, from an item of this or another server. None: it is no action that is known."""
    match action:
        case {"type": "search"}:
            queries = queries_of(action)
            more = {"queries": queries[1:]} if len(queries) > 1 else {}
            return (SEARCH, {"query": queries[0], **more}) if queries else None
        case {"type": "open_page", "url": str(url)}:
            return OPEN, {"url": url}
        case {"type": "find_in_page" | "find", "url": str(url), "pattern": str(pattern)}:
            return FIND, {"url": url, "pattern": pattern}
    return None


def sources_to_action(urls: Iterable[str]) -> Sequence[Action]:
    return [{"type": "url", "url": url} for url in urls]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class WebSearchForm(SilentForm):
    """The action is known when the item is added, because that waits for the arguments."""

    prefix = "ws"
    runs_here = True
    opens_whole = True

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._result: ToolResult | None = None

    def finish(self, status: Status) -> Iterable[Event]:
        yield from super().finish(status)
        if status == "completed":
            yield events.WebSearchCallInProgress(item_id=self._id, output_index=self._index)
            yield events.WebSearchCallSearching(item_id=self._id, output_index=self._index)

    def complete(self, result: ToolResult) -> Iterable[Event]:
        self._result = result
        # There is no event for a call that failed: its status says so.
        if not result.failed:
            yield events.WebSearchCallCompleted(item_id=self._id, output_index=self._index)

    def item(self, status: Status) -> WebSearchCall:
        action = arguments_to_action(self._tool.name, self.members)
        item = WebSearchCall(id=self._id, status=self._shown_status(status), action=action)
        data = data_of(self._result, WebSearchData)
        if status != "in_progress" and self._result is not None:
            self._include(item, data or WebSearchData())
        return item

    def _shown_status(self, status: Status) -> HostedStatus:
        # The API's document has no word for a call that was cut off.
        if status == "incomplete" or (status == "completed" and self._result is not None and self._result.failed):
            return "failed"
        return status

    def _include(self, item: WebSearchCall, data: WebSearchData) -> None:
        if SOURCES in self._style.included and item.action["type"] == "search":
            item.action["sources"] = sources_to_action(each.url for each in data.results)
        if RESULTS in self._style.included:
            item.results = [{"url": each.url, "title": each.title, "text": each.text} for each in data.results]


ContextSize = Literal["low", "medium", "high"]

# Every type of tool that means it.
TYPES = (KIND, *(name for name, kind in ALIASES.items() if kind == KIND))

NO_CACHE = "its external_web_access is false, and the gateway has no cache of the web"
ONLY_IN_TOOLS = f"it counts only in `{TOOLS}`, not in an input item"

SEARCH_WORDS = "Searches the web, and returns numbered results."
OPEN_WORDS = "Opens a web page, and returns its text."
FIND_WORDS = "Finds words in a web page, and returns the text around them."
NEAR = " The user is in {place}."
LIMITED = " Only these domains are searched: {domains}."
# More of them would only make the prompt longer.
MOST_DOMAINS = 5
SEARCH_PARAMETERS = parameters(
    {
        "query": {**TEXT, "description": "What to search for, in a few words."},
        "queries": {"type": "array", "items": TEXT, "description": "More searches, if one is not enough."},
    },
    "query",
)
URL = {**TEXT, "description": "The whole URL, for example of a search result."}
OPEN_PARAMETERS = parameters({"url": URL}, "url")
PATTERN = {**TEXT, "description": "The words, as the page has them."}
FIND_PARAMETERS = parameters({"url": URL, "pattern": PATTERN}, "url", "pattern")


class Filters(Struct, frozen=True):
    allowed_domains: Annotated[list[Annotated[str, Meta(min_length=1, max_length=1000)]], Meta(max_length=100)] | None = None


class UserLocation(Struct, frozen=True):
    type: Literal["approximate"] | None = None
    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None

    @property
    def place(self) -> str:
        """In words."""
        return ", ".join(filter(None, (self.city, self.region, self.country)))


class WebSearchTool(Struct, frozen=True):
    filters: Filters | None = None
    search_context_size: ContextSize | None = None
    user_location: UserLocation | None = None
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None

    @property
    def domains(self) -> list[str]:
        return (self.filters.allowed_domains if self.filters is not None else None) or []

    @property
    def location(self) -> UserLocation:
        return self.user_location or UserLocation()

    @property
    def is_offered(self) -> bool:
        return self.external_web_access is not False


def offered_tool(tools: Iterable[Tool]) -> WebSearchTool:
    """The definition that counts in a request: its first one."""
    defined = (msgspec.convert(tool, WebSearchTool) for tool in tools if tool.get("type") in TYPES)
    return next((tool for tool in defined if tool.is_offered), WebSearchTool())


class WebSearch(HostedDefinition):
    """`opens_pages`: it can read what it finds."""

    form = WebSearchForm

    def __init__(self, *, opens_pages: bool = True) -> None:
        self.opens_pages = opens_pages

    def to_recorded(self) -> bool:
        return self.opens_pages

    @classmethod
    def from_recorded(cls, recorded: Any) -> Self:
        return cls(opens_pages=msgspec.convert(recorded, bool))

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        defined = convert(tool, WebSearchTool, where)
        if not defined.is_offered:
            leave_out(box, tool, where, namespace, why=NO_CACHE)
            return
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if not box.add(ToolIdentity(KIND, SEARCH), ChatFunction("", _search_words(defined), SEARCH_PARAMETERS), where):
            return
        if self.opens_pages:
            box.add(ToolIdentity(KIND, OPEN), ChatFunction("", OPEN_WORDS, OPEN_PARAMETERS), where)
            box.add(ToolIdentity(KIND, FIND), ChatFunction("", FIND_WORDS, FIND_PARAMETERS), where)
        box.notices += _without_effect(tool, defined)


def _search_words(defined: WebSearchTool) -> str:
    place, domains = defined.location.place, defined.domains
    near = NEAR.format(place=place) if place else ""
    limited = LIMITED.format(domains=", ".join(domains)) if 0 < len(domains) <= MOST_DOMAINS else ""
    return SEARCH_WORDS + near + limited


def _without_effect(tool: Tool, defined: WebSearchTool) -> Sequence[str]:
    unknown = sorted(set(tool.get("filters") or ()) - set(Filters.__struct_fields__))
    notices = [f"filters.{name} of tool {tool['type']} has no effect: it is not known here" for name in unknown]
    if "image" in (defined.search_content_types or ()):
        notices.append(f"search_content_types of tool {tool['type']}: only text is searched")
    return notices


# ---- its items in a conversation -------------------------------------------------------------------------------------

SOURCES_ONLY = "(the results are not shown again, only their addresses)"


def web_search_to_chat(draft: Draft, item: Item, where: str) -> None:
    """The call as the model made it. What was found is long, and often no longer true: only the sources are shown again."""
    action = item.get("action")
    called = action_to_arguments(action) if isinstance(action, dict) else None
    if called is None:
        note_to_chat(draft, item, where)
        return
    name, arguments = called
    # Not the item's id, which it may get only when it is stored: the prompt stays the same.
    call_id = f"ws_{digest_of(to_json([name, arguments]).encode()).hex()[:16]}"
    draft.call(call_id, ToolIdentity(KIND, name), to_json(arguments))
    draft.output(call_id, [{"type": "text", "text": _item_to_words(item)}], where)


def _item_to_words(item: Item) -> str:
    if item.get("status") == "failed":
        return CALL_FAILED
    sources = item["action"].get("sources")
    given = (each.get("url") for each in sources if isinstance(each, dict)) if isinstance(sources, list) else ()
    urls = [url for url in given if isinstance(url, str)]
    return "\n".join([SOURCES_ONLY, *urls])[:LONGEST_NOTE] if urls else RESULT_NOT_SHOWN


def count_searches(usage: ToolUsage, identity: ToolIdentity, result: ToolResult) -> None:
    """Pages that were opened do not count. One call may have made several searches."""
    if identity.name == SEARCH:
        data = data_of(result, WebSearchData)
        usage.web_search.num_requests += 1 if data is None else data.searches


WEB_SEARCH = HostedTool(
    definitions=dict.fromkeys(TYPES, WebSearch),
    items=(
        ItemType(
            type_of(WebSearchCall),
            web_search_to_chat,
            prefix=WebSearchForm.prefix,
            members={"status": "completed"},
            continues_answer=True,
        ),
    ),
    record=Record(KIND),
    number=partial(numbered, WebSearchData),
    count=count_searches,
)
