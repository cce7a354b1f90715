"""What is known of the tools of MCP servers: by the list items of a conversation, and by lists that were made just now."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.toolbox.mcp_servers import Listing, McpListError
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.hosted_items import McpListTools, McpTool, type_of
from antiphon.wire.input_items import InputMcpList, Item
from antiphon.wire.responses import Status

LIST = type_of(McpListTools)
NOTHING_LISTED: Mapping[str, Listing] = {}
NOT_LISTED = "the tools of MCP server {label} are not offered: {error}"


class ToolLists:
    """A list item is the cache of its server's tools: they are offered without asking the server again."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._in_items: Mapping[str, Sequence[McpTool]] | None = None
        # By label, those of servers that the operator has attached included.
        self._fresh = NOTHING_LISTED
        self.notices: Sequence[str] = ()

    def add(self, label: str, listing: Listing, *, attached: bool) -> None:
        """`attached`: the client did not ask for it, and can do without."""
        self._fresh = {**self._fresh, label: listing}
        if attached and listing.error is not None:
            self.notices = (*self.notices, NOT_LISTED.format(label=label, error=listing.error.message))

    def tools_of(self, label: str, *, attached: bool = False, named: Collection[str] = ()) -> Sequence[McpTool] | None:
        """None: the server has to be asked. `attached`: a list of the client does not count. It may say what is not so, and
        which tools may be called without approval is for the operator to say. `named`: the tools that the request wants. A
        list item has only those that an earlier request allowed."""
        if (fresh := self._fresh.get(label)) is not None:
            return fresh.tools
        if attached:
            return None
        if self._in_items is None:
            self._in_items = dict(_lists_in(self._items))
        listed = self._in_items.get(label)
        return None if listed is None or not {tool.name for tool in listed}.issuperset(named) else listed


def _lists_in(items: Iterable[Item]) -> Iterable[tuple[str, Sequence[McpTool]]]:
    """The latest one of a label counts. One that failed is none. Its converter reports what is wrong with an item."""
    for item in items:
        if item.get("type") != LIST or item.get("error") is not None:
            continue
        try:
            listed = msgspec.convert(item, InputMcpList)
        except msgspec.ValidationError:
            continue
        yield listed.server_label, listed.tools


class ListState:
    """The item of a list that was made."""

    prefix = "mcpl"
    check = fast_path = None
    written = checked_text = ""

    def __init__(self, item_id: str, label: str, listing: Listing) -> None:
        self.outcome: CheckOutcome | None = None
        self._index = 0
        self._done = McpListTools(item_id, label, listing.tools)
        if listing.error is not None:
            self._done = McpListTools(item_id, label, [], listing.error.message)
        self.item = McpListTools(item_id, label, [])

    def open(self, output_index: int) -> Iterable[Event]:
        self._index = output_index
        yield events.OutputItemAdded(output_index=output_index, item=self.item)
        yield events.McpListToolsInProgress(item_id=self.item.id, output_index=output_index)

    def close(self, status: Status) -> Iterable[Event]:
        self.item = self._done
        kind = events.McpListToolsCompleted if self.item.error is UNSET else events.McpListToolsFailed
        yield kind(item_id=self.item.id, output_index=self._index)
        yield events.OutputItemDone(output_index=self._index, item=self.item)

    def finishable(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def waive(self) -> None: ...


def failure_message(label: str, error: McpListError) -> str:
    """Names the label and the server's status, as OpenAI does."""
    status = f" Http status code: {error.status}." if error.status is not None else ""
    return f"Error retrieving tool list from MCP server: '{label}'.{status} {error.message}".rstrip()
