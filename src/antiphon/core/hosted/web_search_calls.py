"""The calls of `web_search`: what the model asked for as an action, the item, and its events."""

from collections.abc import Iterable, Sequence
from typing import Any

from antiphon.core.hosted.search_results import WebSearchData, data_of
from antiphon.core.items.calls import SilentForm
from antiphon.core.toolbox.tools import ToolResult
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import HostedStatus, WebSearchCall
from antiphon.wire.responses import Status

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
        action = arguments_to_action(self._native.name, self.members)
        item = WebSearchCall(id=self._id, status=self._shown_status(status), action=action)
        data = data_of(self._result, KIND) if self._result is not None else None
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
