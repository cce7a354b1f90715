"""The tool `web_search`, under its four names: its definition, and the functions that an engine sees of it."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from antiphon.core.hosted.web_search_calls import (
    FIND,
    KIND,
    OPEN,
    SEARCH,
    WebSearchForm,
)
from antiphon.core.protocols.responses.validation import convert
from antiphon.core.toolbox.built_in_tools import TEXT, parameters
from antiphon.core.toolbox.tools import (
    HOSTED_KINDS,
    TOOLS,
    Native,
    Toolbox,
    leave_out,
)
from antiphon.wire.chat import ChatFunction

Tool = dict[str, Any]
ContextSize = Literal["low", "medium", "high"]

# Every type of tool that means it.
TYPES = tuple(name for name, kind in HOSTED_KINDS.items() if kind == KIND)

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


class WebSearch:
    """A type of tool that the gateway runs (`core.environment.GatewayTool`). `opens_pages`: it can read what it finds."""

    form = WebSearchForm

    def __init__(self, *, opens_pages: bool = True) -> None:
        self.opens_pages = opens_pages

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        defined = convert(tool, WebSearchTool, where)
        if not defined.is_offered:
            leave_out(box, tool, where, namespace, why=NO_CACHE)
            return
        if not where.startswith(TOOLS):
            leave_out(box, tool, where, namespace, why=ONLY_IN_TOOLS)
            return
        if not box.add(Native(KIND, SEARCH), ChatFunction("", _search_words(defined), SEARCH_PARAMETERS), where):
            return
        if self.opens_pages:
            box.add(Native(KIND, OPEN), ChatFunction("", OPEN_WORDS, OPEN_PARAMETERS), where)
            box.add(Native(KIND, FIND), ChatFunction("", FIND_WORDS, FIND_PARAMETERS), where)
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
